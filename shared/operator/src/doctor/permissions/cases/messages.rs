//! Requests by which a function is heard: messages, mail, links, failed events and logs.

use super::ExpectedPermission::{Always, Never};
use super::{
    CaseBuilder, DeploymentArns, ExpectedPermission, GET, OBSERVES, OTHERS, OWN, PUT, PermissionCase, REPORTS, single,
};

const PUBLISH: &str = "sns:Publish";
const LIST: &str = "sns:ListSubscriptionsByTopic";
const MAIL: &str = "ses:SendEmail";

impl CaseBuilder<'_> {
    /// Builds the cases of the topic, mail, the queue and the logs: functions publish and write there, and nowhere else. `reply` only writes logs.
    pub(super) fn report(&self, is_reader: bool) -> Vec<PermissionCase> {
        let DeploymentArns { topic_arn, account_topic_arn, partition, region, account, log_groups, .. } = self.place;
        let record = format!("plans/2026-09-01/{}/run.json", self.function);
        let (trail, why) = if is_reader { (Always, OBSERVES) } else { (Never, OWN) };
        let (tells, why_told) = if self.is_granted(PUBLISH) { (Always, REPORTS) } else { (Never, OTHERS) };
        let mut cases = vec![
            self.object(PUT, &record, tells, why_told),
            self.object(GET, &record, trail, why),
            self.case(PUBLISH, topic_arn, "the topic", tells, why_told),
            self.case(PUBLISH, &format!("{topic_arn}-other"), "another topic", Never, OTHERS),
        ];
        if let Some(account_topic) = account_topic_arn {
            cases.push(self.case(PUBLISH, account_topic, "the topic of the account", tells, why_told));
        }
        for topic in std::iter::once(topic_arn).chain(account_topic_arn).filter(|_| self.is_granted(LIST)) {
            let listens = "it enforces only with a confirmed subscription";
            cases.push(self.case(LIST, topic, "the topic", Always, listens));
        }
        if self.function.starts_with("reap-") || self.function == "run-jobs" {
            cases.push(self.object(PUT, "replies/one", Always, "it makes the links of its announcements"));
        }
        cases.extend(self.encryption());
        cases.extend(self.mail());
        if let Some(queue) = self.place.queue_arn.as_ref().filter(|_| tells == Always) {
            let (action, why) = ("sqs:SendMessage", "a failed event is kept");
            cases.push(self.case(action, queue, "the queue of failed events", Always, why));
            cases.push(self.case(action, &format!("{queue}-other"), "another queue", Never, OTHERS));
        }
        if let Some(group) = log_groups.get(self.function) {
            let stream =
                |group: &str| format!("arn:{partition}:logs:{region}:{account}:log-group:{group}:log-stream:stream");
            for action in ["logs:CreateLogStream", "logs:PutLogEvents"] {
                let why = "its log shows what it did";
                cases.push(self.case(action, &stream(group), "its log group", Always, why));
                cases.push(self.case(action, &stream("other"), "another log group", Never, OTHERS));
            }
        }
        cases
    }

    /// Builds the cases of the key of the topics.
    fn encryption(&self) -> Vec<PermissionCase> {
        let (mut cases, why) = (Vec::new(), "its messages are encrypted");
        let Some(key) = self.place.key_arn.as_ref().filter(|_| self.is_granted(PUBLISH)) else { return cases };
        let sns = single("kms:ViaService", &format!("sns.{}.{}", self.place.region, self.place.dns_suffix()));
        let through_sns = |mut case: PermissionCase| {
            case.context.push(sns.clone());
            case
        };
        for action in ["kms:GenerateDataKey", "kms:Decrypt"] {
            let only_sns = "only SNS uses it on its behalf";
            cases.push(through_sns(self.case(action, key, "the topic's key", Always, why)));
            cases.push(self.case(action, key, "the topic's key, by itself", Never, only_sns));
            cases.push(through_sns(self.case(action, &format!("{key}-other"), "another key", Never, OTHERS)));
        }
        cases
    }

    /// Builds the cases of mail: from the address that the stack names, and from no other.
    fn mail(&self) -> Vec<PermissionCase> {
        let DeploymentArns { partition, region, account, sender, .. } = self.place;
        let Some(sender) = sender.as_ref().filter(|_| self.is_granted(MAIL)) else { return Vec::new() };
        let identity = format!("arn:{partition}:ses:{region}:{account}:identity/{sender}");
        let from = |address: &str, expected: ExpectedPermission, why: &'static str| {
            let mut case = self.case(MAIL, &identity, &format!("mail from {address}"), expected, why);
            case.context.push(single("ses:FromAddress", address));
            case
        };
        let other = format!("other-{sender}");
        vec![from(sender, Always, "it mails people"), from(&other, Never, "the stack names another address")]
    }
}
