//! The search for machines of jobs that no state names.

use jobs::Lifecycle;
use jobs::takeover::FoundMachine;
use model::curfew_tags::{ATTEMPT, EXPIRES_AT, JOB};
use model::id::Region;
use model::instance::{Instance, PurchaseOption};
use model::moment;

use super::TIMEOUT;
use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES, LaunchNames};
use crate::error::{CallError, CallErrorKind};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// Finds the instances of a region that boot or run and have the tag `curfew:job`, one call for each thousand.
///
/// # Errors
/// If EC2's answer is incomplete.
pub(in crate::jobs) async fn find_job_machines(aws: &Aws, region: &Region) -> Result<Vec<FoundMachine>, CallError> {
    let states = filter("instance-state-name", ["pending", "running"]);
    let call = aws.ec2(region).describe_instances().filters(filter("tag-key", [JOB])).filters(states);
    let call = call.max_results(PAGE_SIZE);
    let (mut found, mut incomplete) = (Vec::new(), 0_usize);
    let asked = all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let mut page = describe::page(call.clone().set_next_token(token), region).await?;
        incomplete = incomplete.saturating_add(page.incomplete);
        found.extend(page.described.into_iter().filter_map(|one| {
            let launch = page.launch_names.remove(&one.instance.id).unwrap_or_default();
            from_instance(one.instance, launch)
        }));
        Ok(page.next_token)
    });
    let too_long = |_| Err(CallError::timed_out(DESCRIBE_INSTANCES, region, TIMEOUT));
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(too_long)?;
    if incomplete > 0 {
        let message = "the answer about the machines of jobs is incomplete";
        return Err(CallError::new(DESCRIBE_INSTANCES, region, CallErrorKind::Incomplete, message));
    }
    Ok(found)
}

fn from_instance(mut instance: Instance, launch: LaunchNames) -> Option<FoundMachine> {
    let lifecycle = match instance.purchase {
        PurchaseOption::OnDemand => Some(Lifecycle::OnDemand),
        // Whatever its request is, the launch has named the market.
        PurchaseOption::SpotOneTime | PurchaseOption::SpotUnknown => Some(Lifecycle::Spot),
        PurchaseOption::SpotPersistent | PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation => {
            None
        }
    };
    Some(FoundMachine {
        lifecycle,
        job: instance.tags.remove(JOB)?,
        attempt: instance.tags.get(ATTEMPT).and_then(|attempt| attempt.parse().ok()),
        expires_at: instance.tags.get(EXPIRES_AT).and_then(|at| moment::read(at)),
        instance: instance.id,
        region: instance.region,
        zone: instance.zone,
        instance_type: instance.instance_type,
        launched_at: instance.launched_at,
        token: launch.client_token,
        profile: launch.profile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws, instance_xml, instances_page};

    const TAGS: [(&str, &str); 3] =
        [("curfew:job", "vision/a-0123abcd"), ("curfew:attempt", "3"), ("curfew:expires-at", "2026-09-01T20:10:00Z")];

    async fn find(
        answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
    ) -> (Result<Vec<FoundMachine>, CallError>, String) {
        let (aws, calls) = aws(move |_| answer());
        let found = find_job_machines(&aws, &"us-east-1".into()).await;
        (found, calls.said().remove(0))
    }

    #[tokio::test]
    async fn a_machine_is_found_with_the_words_of_its_launch() {
        let more = "<clientToken>abc</clientToken><iamInstanceProfile><arn>arn:aws:iam::123456789012:instance-profile/curfew/curfew-job</arn>\
                    <id>AIPA</id></iamInstanceProfile><instanceLifecycle>spot</instanceLifecycle>\
                    <placement><availabilityZone>us-east-1a</availabilityZone></placement>";
        let own = instance_xml("i-1", "running", &TAGS, more);
        let bare = instance_xml("i-2", "pending", &[("curfew:job", "x"), ("curfew:attempt", "-1")], "");
        let (found, call) = find(move || instances_page(&[own.clone(), bare.clone()], None)).await;
        assert!(
            call.contains("Filter.1.Name=tag-key Filter.1.Value.1=curfew%3Ajob") || call.contains("curfew:job"),
            "{call}"
        );
        assert!(call.contains("instance-state-name"), "{call}");
        let expect = FoundMachine {
            instance: "i-1".into(),
            region: "us-east-1".into(),
            zone: Some("us-east-1a".to_owned()),
            instance_type: "g5.xlarge".into(),
            lifecycle: Some(Lifecycle::Spot),
            launched_at: "2026-08-31T12:00:00Z".parse().unwrap(),
            job: "vision/a-0123abcd".to_owned(),
            attempt: Some(3),
            expires_at: Some("2026-09-01T20:10:00Z".parse().unwrap()),
            token: Some("abc".to_owned()),
            profile: Some("curfew-job".to_owned()),
        };
        let without = FoundMachine {
            instance: "i-2".into(),
            zone: None,
            lifecycle: Some(Lifecycle::OnDemand),
            job: "x".to_owned(),
            attempt: None,
            expires_at: None,
            token: None,
            profile: None,
            ..expect.clone()
        };
        assert_eq!(found.unwrap(), [expect, without]);
    }

    #[tokio::test]
    async fn an_answer_that_leaves_one_out_is_none() {
        let nameless = "<item><instanceType>g5.xlarge</instanceType></item>".to_owned();
        let (found, _) = find(move || instances_page(std::slice::from_ref(&nameless), None)).await;
        assert_eq!(found.unwrap_err().kind, CallErrorKind::Incomplete);
    }
}
