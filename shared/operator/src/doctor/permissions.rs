//! The permissions of each function's role, according to IAM's policy simulator: conditions on tags cannot be tried without it.
//!
//! The cases say what `template.yaml` means. Whatever a function does must be allowed, what is one tag away from it must not be, and
//! nothing of it on what carries `curfew:protected`. A role that observes may do none of what changes anything.
//!
//! The simulator asks the role's policies, its boundary and the policies of the organisation, not those of buckets, topics and keys (IAM
//! API reference, "`SimulatePrincipalPolicy`"; IAM user guide, "Testing IAM policies with the IAM policy simulator"). The policy of the
//! state bucket is read besides, and the simulator is asked about people.

mod bucket_policy;
mod cases;
mod writers;

use std::collections::BTreeMap;

use model::mode::Mode;
use model::partition::Partition;

use super::{DoctorFinding, at_most};

pub use bucket_policy::check_bucket_policy;
pub use cases::cases;
pub use writers::{Principal, administrator_case, check_writer, writer_cases};

/// The check's name.
pub const CHECK: &str = "permissions";

const SHOWN_MAX: usize = 20;

/// The role that EC2 needs for Spot (EC2 user guide, "Service-linked role for EC2 Spot Instances").
pub const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

/// A further policy, by which everything is allowed that none denies.
pub const EVERYTHING: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}"#;

/// The parts of a deployment that the ARNs of its functions' resources consist of. A case that needs an unknown part is not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentArns {
    /// Such as `aws`.
    pub partition: String,
    /// Its number.
    pub account: String,
    /// The home region.
    pub region: String,
    /// The path of the roles of its functions, `/` by default; those of machines are under it, in `curfew/`.
    pub role_path: String,
    /// The state bucket's name.
    pub bucket: String,
    /// The topic's ARN.
    pub topic_arn: String,
    /// The ARN of the topic with one message a run about the account.
    pub account_topic_arn: Option<String>,
    /// The ARN of the topics' key.
    pub key_arn: Option<String>,
    /// The address from which the functions may send mail.
    pub sender: Option<String>,
    /// The ARN of the queue of failed events.
    pub queue_arn: Option<String>,
    /// The name of each function's log group, by the function's name.
    pub log_groups: BTreeMap<String, String>,
}

impl DeploymentArns {
    /// Read off a topic's ARN, `arn:<partition>:sns:<region>:<account>:<name>`.
    #[must_use]
    pub fn from_topic_arn(topic_arn: &str, bucket: &str) -> Option<Self> {
        let mut parts = topic_arn.split(':').skip(1);
        let (partition, _, region, account) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            partition: partition.to_owned(),
            account: account.to_owned(),
            region: region.to_owned(),
            role_path: "/".to_owned(),
            bucket: bucket.to_owned(),
            topic_arn: topic_arn.to_owned(),
            account_topic_arn: None,
            key_arn: None,
            sender: None,
            queue_arn: None,
            log_groups: BTreeMap::new(),
        })
    }

    /// The end of the names of those services that IAM names by the partition.
    pub(crate) fn dns_suffix(&self) -> &'static str {
        Partition::find(&self.region).map_or("amazonaws.com", |partition| partition.dns_suffix)
    }

    /// The ARN of a role that the stack made, or of one under its path.
    #[must_use]
    pub fn role_arn(&self, role: &str) -> String {
        self.role_at(&self.role_path, role)
    }

    /// The ARN of a role under any path.
    #[must_use]
    pub fn role_at(&self, path: &str, role: &str) -> String {
        format!("arn:{}:iam::{}:role{path}{role}", self.partition, self.account)
    }

    /// Takes the path of all roles from the ARN of one, `arn:<partition>:iam::<account>:role<path><name>`.
    pub fn set_role_path(&mut self, arn: &str, name: &str) {
        let path = arn.split_once(":role").and_then(|(_, rest)| rest.strip_suffix(name));
        if let Some(path) = path.filter(|path| path.starts_with('/') && path.ends_with('/')) {
            path.clone_into(&mut self.role_path);
        }
    }
}

/// The modes in which an action must be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedPermission {
    /// Allowed in both modes.
    Always,
    /// Allowed in enforce mode, and forbidden in observe mode.
    Enforcing,
    /// Never.
    Never,
}

/// One question to IAM: one action on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionCase {
    /// Such as `ec2:StopInstances`.
    pub action: &'static str,
    /// The resource's ARN, or `*`.
    pub resource: String,
    /// A description of the resource, for people: such as `an instance with curfew:marked`.
    pub about: String,
    /// The condition keys of the request and their values.
    pub context: Vec<ContextKey>,
    /// The answer that is expected.
    pub expected: ExpectedPermission,
    /// `true` if the answer must be the same even if [`EVERYTHING`] were allowed besides.
    pub even_so: bool,
    /// The reason for the expected answer.
    pub why: &'static str,
}

/// One condition key of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextKey {
    /// Such as `aws:ResourceTag/curfew:marked`.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
    /// `true` if the key may have several values.
    pub is_list: bool,
}

impl PermissionCase {
    /// Returns the answer that is expected; `None` if it depends on a mode that is not known.
    #[must_use]
    pub const fn must_be_allowed(&self, mode: Option<Mode>) -> Option<bool> {
        match (self.expected, mode) {
            (ExpectedPermission::Always, _) | (ExpectedPermission::Enforcing, Some(Mode::Enforce)) => Some(true),
            (ExpectedPermission::Never, _) | (ExpectedPermission::Enforcing, Some(Mode::Observe)) => Some(false),
            (ExpectedPermission::Enforcing, None) => None,
        }
    }
}

/// Returns `true` if the case asks whether the role for Spot may be created. The permission is needless if the role exists.
#[must_use]
pub fn creates_spot_role(case: &PermissionCase) -> bool {
    case.action == cases::CREATE_SPOT_ROLE && case.expected == ExpectedPermission::Enforcing
}

/// Judges the answers about one role: each case with whether IAM allows it.
#[must_use]
pub fn check<'a>(
    function: &str,
    role: &str,
    mode: Option<Mode>,
    answers: impl IntoIterator<Item = (&'a PermissionCase, bool)>,
) -> Vec<DoctorFinding> {
    let wrong =
        answers.into_iter().filter(|(case, allowed)| case.must_be_allowed(mode).is_some_and(|must| must != *allowed));
    let findings = wrong.map(|(case, allowed)| finding(case, allowed, format!("{function} (role {role})")));
    at_most(SHOWN_MAX, findings.collect(), "permissions like these")
}

fn finding(
    PermissionCase { action, about, expected, even_so, why, .. }: &PermissionCase,
    allowed: bool,
    at: String,
) -> DoctorFinding {
    let create = "create it once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
    let given_more =
        "the role has more permissions than template.yaml gives it: remove them, or deploy the stack again";
    let (found, remedy) = match (allowed, expected) {
        (true, _) if *even_so => (
            format!("no policy denies {action} on {about}, so it may be allowed by mistake: {why}"),
            "a Deny was removed from the role: deploy the stack again",
        ),
        (true, ExpectedPermission::Enforcing) => {
            (format!("it may call {action} on {about}, and must not: the deployment only observes"), given_more)
        }
        (true, _) => (format!("it may call {action} on {about}, and must not: {why}"), given_more),
        (false, _) if *action == cases::CREATE_SPOT_ROLE => (
            format!("the account has no role {SPOT_ROLE}, and this role may not create it: Spot jobs are held"),
            create,
        ),
        (false, _) => (
            format!("it may not call {action} on {about}, and must: {why}"),
            "deploy the stack again; if that does not help, a permissions boundary or a policy of the organisation denies it",
        ),
    };
    DoctorFinding::problem(at, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(expected: ExpectedPermission) -> PermissionCase {
        PermissionCase {
            action: "ec2:StopInstances",
            resource: "*".to_owned(),
            about: "an instance".to_owned(),
            context: Vec::new(),
            expected,
            even_so: false,
            why: "it ends what is marked",
        }
    }

    fn check(expected: ExpectedPermission, mode: Option<Mode>, allowed: bool, expect: &str) {
        let findings = super::check("reap-instances", "role", mode, [(&case(expected), allowed)]);
        let found = findings.first().map_or("", |finding| finding.found.as_str());
        assert!(
            if expect.is_empty() { found.is_empty() } else { found.starts_with(expect) },
            "{expected:?} {mode:?}: {found}"
        );
    }

    #[test]
    fn a_wrong_answer_is_a_problem_in_either_direction() {
        check(ExpectedPermission::Always, None, true, "");
        check(
            ExpectedPermission::Always,
            Some(Mode::Observe),
            false,
            "it may not call ec2:StopInstances on an instance, and must",
        );
        check(ExpectedPermission::Never, Some(Mode::Enforce), false, "");
        check(ExpectedPermission::Never, None, true, "it may call ec2:StopInstances on an instance, and must not");
    }

    #[test]
    fn what_acts_is_allowed_in_enforce_mode_alone() {
        check(ExpectedPermission::Enforcing, Some(Mode::Enforce), true, "");
        check(ExpectedPermission::Enforcing, Some(Mode::Enforce), false, "it may not");
        check(ExpectedPermission::Enforcing, Some(Mode::Observe), false, "");
        check(ExpectedPermission::Enforcing, Some(Mode::Observe), true, "it may call");
        check(ExpectedPermission::Enforcing, None, true, "");
        check(ExpectedPermission::Enforcing, None, false, "");
    }

    #[test]
    fn a_topic_says_where_the_deployment_is() {
        let place = DeploymentArns::from_topic_arn("arn:aws-cn:sns:cn-north-1:123456789012:curfew", "state").unwrap();
        assert_eq!(place.role_arn("x"), "arn:aws-cn:iam::123456789012:role/x");
        let mut under = place.clone();
        under.set_role_path("arn:aws-cn:iam::123456789012:role/platform/ml/x-1", "x-1");
        assert_eq!(under.role_arn("curfew/y"), "arn:aws-cn:iam::123456789012:role/platform/ml/curfew/y");
        assert_eq!(under.role_at("/", "y"), "arn:aws-cn:iam::123456789012:role/y");
        for other in ["arn:aws-cn:iam::123456789012:role/platform/x-2", "x-1", "arn:aws-cn:iam::123456789012:user/x-1"]
        {
            let mut same = place.clone();
            same.set_role_path(other, "x-1");
            assert_eq!(same, place);
        }
        assert_eq!(DeploymentArns::from_topic_arn("curfew", "state"), None);
    }
}
