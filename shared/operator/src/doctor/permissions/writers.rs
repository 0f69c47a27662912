//! Other principals that may write what Curfew decides by. People need a job's `cancel.json`, `extend.json` and `followed.json`, and their team's
//! `inbox/`, `triggers/` and `workdirs/` (docs/security.md); whoever may write more has the powers of an administrator, and is named.

use super::super::DoctorFinding;
use super::cases::single;
use super::{DeploymentArns, ExpectedPermission, PermissionCase};

pub(super) const PUT: &str = "s3:PutObject";
/// Its holder can take every other permission.
const ADMINISTER: &str = "iam:PutRolePolicy";

/// One document of each kind that governs.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoverningDocument {
    pub(super) key: &'static str,
    pub(super) power: &'static str,
    /// The functions that alone may write it, by the policy of the bucket; empty where `curfew apply` or an administrator writes it.
    pub(super) writers: &'static [&'static str],
}

const HUB: &[&str] = &["reap-instances"];
const JOBS: &[&str] = &["run-jobs"];
const MONEY: &[&str] = &["enforce-budgets", "run-jobs"];
const LEDGER: &[&str] = &["enforce-budgets"];
const REPORT: &[&str] = &["send-report"];

pub(super) const GOVERNING: &[GoverningDocument] = &[
    document("config/curfew.toml", "change the rules of every team", &[]),
    document("config/hub.toml", "change the rules of the organization here while its hub cannot be read", HUB),
    document("notices/reap-instances/us-east-1.json", "make actions count as announced", &[]),
    document("plans/2026-09-01/reap-instances/run.json", "decide what curfew apply and undo do", &[]),
    document("activity/us-east-1.json", "keep instances from being judged", &[]),
    document("jobs/vision/llama-0123abcd/state.json", "launch machines past every budget", JOBS),
    document("jobs/vision/llama-0123abcd/spec.toml", "change what accepted jobs run", JOBS),
    document("jobs/vision/llama-0123abcd/sweep.json", "change what accepted jobs run", JOBS),
    document("inbox/vision/llama.accepted.json", "keep submitted jobs from running", JOBS),
    document("triggers/vision/ingest.state.json", "make more jobs a day than triggers may", JOBS),
    document("active/vision/llama-0123abcd", "keep volumes from being judged", JOBS),
    document("agent/0123abcd", "replace the program of the machines", JOBS),
    document("budgets/vision/2026-09.json", "raise and spend budgets", MONEY),
    document("prices/current.json", "falsify prices", MONEY),
    document("ledger/2026-09/us-east-1.json", "falsify what was spent", LEDGER),
    document("reports/2026-09-01/report.html", "falsify reports", REPORT),
    document("exports/2026-09/curfew-focus.csv", "falsify the charges for finance", REPORT),
];

const fn document(key: &'static str, power: &'static str, writers: &'static [&'static str]) -> GoverningDocument {
    GoverningDocument { key, power, writers }
}

/// A principal, as the policy simulator can be asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The root user of an account, who may do everything.
    Root,
    /// A user or a role, by its ARN.
    Simulated(String),
    /// A session of the role of that name, whose ARN also has a path.
    OfRole(String),
    /// A federated user, or what else has no policies of its own.
    Other,
}

impl Principal {
    /// Read off an ARN, as `sts:GetCallerIdentity` answers it (IAM user guide, "IAM ARNs").
    #[must_use]
    pub fn from_arn(arn: &str) -> Self {
        let mut parts = arn.splitn(6, ':').skip(2);
        let (service, name) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
        match (service, name.split_once('/')) {
            ("iam", None) if name == "root" => Self::Root,
            ("iam", Some(("user" | "role", _))) => Self::Simulated(arn.to_owned()),
            ("sts", Some(("assumed-role", session))) => {
                Self::OfRole(session.split('/').next().unwrap_or_default().to_owned())
            }
            _ => Self::Other,
        }
    }
}

/// Returns the one case that identifies an administrator: a principal who may give Curfew's role another policy.
#[must_use]
pub fn administrator_case(place: &DeploymentArns, role: &str) -> [PermissionCase; 1] {
    [case(place, ADMINISTER, place.role_arn(role), format!("the role {role}"))]
}

/// Returns the writes that a principal who is no administrator should not be allowed.
#[must_use]
pub fn writer_cases(place: &DeploymentArns) -> Vec<PermissionCase> {
    let arn = |key: &str| format!("arn:{}:s3:::{}/{key}", place.partition, place.bucket);
    let mut cases: Vec<PermissionCase> =
        GOVERNING.iter().map(|one| case(place, PUT, arn(one.key), one.power.to_owned())).collect();
    let bucket = format!("arn:{}:s3:::{}", place.partition, place.bucket);
    cases.push(case(place, "s3:PutBucketPolicy", bucket, "change the policy of the bucket".to_owned()));
    cases
}

fn case(place: &DeploymentArns, action: &'static str, resource: String, about: String) -> PermissionCase {
    let context = vec![single("aws:RequestedRegion", &place.region)];
    PermissionCase { action, resource, about, context, expected: ExpectedPermission::Never, even_so: false, why: "" }
}

/// Judges the answers about somebody who is no administrator. The simulator does not ask the policy of the bucket, which
/// [`super::check_bucket_policy`] judges.
#[must_use]
pub fn check_writer<'a>(
    principal: &str,
    answers: impl IntoIterator<Item = (&'a PermissionCase, bool)>,
) -> Option<DoctorFinding> {
    let allowed = answers.into_iter().filter(|(_, allowed)| *allowed);
    let mut powers: Vec<_> = allowed.map(|(case, _)| (name_of(&case.resource), case.about.as_str())).collect();
    // IAM answers in any order.
    powers.sort_unstable();
    let (denied_by_bucket, open): (Vec<_>, Vec<_>) = powers
        .into_iter()
        .partition(|(key, _)| GOVERNING.iter().any(|document| document.key == *key && !document.writers.is_empty()));
    let list = |powers: &[(&str, &str)]| {
        powers.iter().map(|(key, power)| format!("{power} ({key})")).collect::<Vec<_>>().join(", ")
    };
    let found = match (open.as_slice(), denied_by_bucket.as_slice()) {
        ([], []) => return None,
        (open, []) => format!("its policies let it {}", list(open)),
        ([], denied) => format!("but for the policy of the bucket, its policies let it {}", list(denied)),
        (open, denied) => {
            format!("its policies let it {}; and but for the policy of the bucket {}", list(open), list(denied))
        }
    };
    let remedy = "grant people what deploy/policies/team-member.json does, and no more: docs/security.md says why";
    Some(DoctorFinding::warning(principal, format!("it is no administrator, and {found}"), remedy))
}

/// The key of an object, or the name of a bucket, by its ARN.
fn name_of(arn: &str) -> &str {
    let name = arn.rsplit(':').next().unwrap_or(arn);
    name.split_once('/').map_or(name, |(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_says_how_its_holder_is_asked_about() {
        let check = |arn: &str, expect: Principal| assert_eq!(Principal::from_arn(arn), expect, "{arn}");
        check("arn:aws:iam::123456789012:root", Principal::Root);
        let user = "arn:aws-cn:iam::123456789012:user/people/ada";
        check(user, Principal::Simulated(user.to_owned()));
        let role = "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_ml_1";
        check(role, Principal::Simulated(role.to_owned()));
        check("arn:aws:sts::123456789012:assumed-role/ml/ada@example.com", Principal::OfRole("ml".to_owned()));
        check("arn:aws:sts::123456789012:federated-user/ada", Principal::Other);
        check("arn:aws:iam::123456789012:group/ml", Principal::Other);
        check("ada", Principal::Other);
    }

    #[test]
    fn only_what_is_allowed_is_told() {
        let place = DeploymentArns::from_topic_arn("arn:aws:sns:us-east-1:123456789012:curfew", "state").unwrap();
        let cases = writer_cases(&place);
        assert_eq!(check_writer("ada", cases.iter().map(|case| (case, false))), None);
        let answers = cases
            .iter()
            .map(|case| (case, case.resource.ends_with("/state.json") || case.action == "s3:PutBucketPolicy"));
        let found = check_writer("ada", answers).unwrap().found;
        let expect = "let it change the policy of the bucket (state); and but for the policy of the bucket launch machines past every \
                      budget (jobs/vision/llama-0123abcd/state.json)";
        assert!(found.ends_with(expect), "{found}");
    }
}
