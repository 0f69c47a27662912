//! The requests that each function may make and must never make, by the policies of `template.yaml`, one at a time.

mod budgets;
mod instances;
mod jobs;
mod messages;
mod reply;
mod report;
mod sagemaker;
mod stated;
mod volumes;

use std::collections::BTreeMap;

use model::curfew_tags::PROTECTED;

use super::ExpectedPermission::{Always, Enforcing, Never};
use super::{ContextKey, DeploymentArns, ExpectedPermission, PermissionCase};

pub(super) use jobs::CREATE_SPOT_ROLE;
use stated::{REPLY, STATED, StatedPermission};

const CREATE_TAGS: &str = "ec2:CreateTags";
const DELETE_TAGS: &str = "ec2:DeleteTags";
const SAGEMAKER_ADD_TAGS: &str = "sagemaker:AddTags";
const SAGEMAKER_DELETE_TAGS: &str = "sagemaker:DeleteTags";
const GET: &str = "s3:GetObject";
const PUT: &str = "s3:PutObject";

const OBSERVES: &str = "each run reads this";
const REPORTS: &str = "it writes its messages, records and logs here";
const OWN: &str = "it must not change the logs of others, the configuration and the audit trail";
const UNMARKED: &str = "it stops and deletes only what it has marked";
const OTHERS: &str = "it has no need for it";
const TAGS_OF_OTHERS: &str = "it writes its own tags and no others";
const ALL_TAGS: &str = "DeleteTags without keys removes all tags";
const PROTECTED_REASON: &str = "curfew:protected forbids every change";
const PEOPLE: &str = "only people set these tags";
const ENDS: &str = "it carries out what it announced";
const MARKS: &str = "it marks a resource before it acts on it";

/// The actions on EC2 and `SageMaker` that one function takes, and those that it must never take.
struct FunctionActions<'a> {
    /// Requests in enforce mode only, and never to protected resources.
    done: &'a [ReasonedRequest],
    /// Forbidden requests that differ from `done` by one tag.
    never: &'a [ReasonedRequest],
    /// Requests that a policy denies, whatever others allow.
    denied: &'a [ReasonedRequest],
    /// Prefixes in the state bucket that it reads, and whether it writes them too.
    own: &'a [(&'static str, bool)],
    /// Cases of this function alone.
    further: fn(&CaseBuilder<'_>) -> Vec<PermissionCase>,
    /// `true` if the function reads the audit trail of all functions, and enforces nothing.
    is_reader: bool,
    other: &'static str,
}

/// A request, and why the function makes it or must not.
type ReasonedRequest = (Ec2Request, &'static str);

/// The kind of resource that a request is about.
#[derive(Clone, Copy)]
enum RequestTarget {
    Instance,
    Volume,
    Snapshot,
    /// A resource of `SageMaker`: its type in ARNs, and its name for people.
    SageMaker {
        kind: &'static str,
        words: &'static str,
    },
}

impl RequestTarget {
    /// The ARN of a snapshot names no account (Amazon EBS user guide, "Example IAM policies for Amazon EBS").
    fn arn(self, DeploymentArns { partition, region, account, .. }: &DeploymentArns) -> String {
        match self {
            Self::Instance => format!("arn:{partition}:ec2:{region}:{account}:instance/i-0123456789abcdef0"),
            Self::Volume => format!("arn:{partition}:ec2:{region}:{account}:volume/vol-0123456789abcdef0"),
            Self::Snapshot => format!("arn:{partition}:ec2:{region}::snapshot/snap-0123456789abcdef0"),
            Self::SageMaker { kind, .. } => format!("arn:{partition}:sagemaker:{region}:{account}:{kind}/one"),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "an instance",
            Self::Volume => "a volume",
            Self::Snapshot => "a snapshot",
            Self::SageMaker { words, .. } => words,
        }
    }
}

/// A request to EC2, or `SageMaker`, about one resource.
#[derive(Clone, Copy)]
struct Ec2Request {
    action: &'static str,
    on: RequestTarget,
    /// The tags that are on it.
    tags: &'static [&'static str],
    /// The tags that the request gives or takes.
    keys: &'static [&'static str],
    /// The action that creates it, where they are given at its creation.
    creating: Option<&'static str>,
}

impl Ec2Request {
    /// A snapshot that is only about to be made carries nothing yet.
    const fn is_about_a_new_one(self) -> bool {
        matches!(self.on, RequestTarget::Snapshot) && self.tags.is_empty()
    }
}

const fn ask(action: &'static str, on: RequestTarget, tags: &'static [&'static str]) -> Ec2Request {
    Ec2Request { action, on, tags, keys: &[], creating: None }
}

/// Builds a request that gives or takes tags.
const fn tagging(
    action: &'static str,
    on: RequestTarget,
    tags: &'static [&'static str],
    keys: &'static [&'static str],
) -> Ec2Request {
    Ec2Request { action, on, tags, keys, creating: None }
}

fn nothing_else(_: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    Vec::new()
}

/// Every case of one function; none of one that is not known here.
#[must_use]
pub fn cases(function: &str, place: &DeploymentArns) -> Vec<PermissionCase> {
    let table = CaseBuilder { place, function };
    match function {
        "reap-instances" => table.cases_of(&instances::ACTIONS),
        "reap-volumes" => table.cases_of(&volumes::ACTIONS),
        "reap-sagemaker" => table.cases_of(&sagemaker::ACTIONS),
        "enforce-budgets" => table.cases_of(&budgets::ACTIONS),
        "run-jobs" => table.cases_of(&jobs::ACTIONS),
        "send-report" => table.cases_of(&report::ACTIONS),
        REPLY => table.cases_of(&reply::ACTIONS),
        _ => Vec::new(),
    }
}

struct CaseBuilder<'a> {
    place: &'a DeploymentArns,
    function: &'a str,
}

impl CaseBuilder<'_> {
    fn cases_of(&self, actions: &FunctionActions<'_>) -> Vec<PermissionCase> {
        let mut cases = self.looks();
        cases.extend(actions.done.iter().map(|(ask, why)| self.ec2(*ask, Enforcing, why)));
        // One of each kind, because the denial depends on no other tag.
        let mut kinds: BTreeMap<(&str, &str), Ec2Request> = BTreeMap::new();
        for (ask, _) in actions.done.iter().filter(|(ask, _)| !ask.is_about_a_new_one()) {
            kinds.entry((ask.action, ask.on.as_str())).or_insert(*ask);
        }
        cases.extend(kinds.into_values().map(|ask| self.protected(ask)));
        cases.extend(actions.never.iter().map(|(ask, why)| self.ec2(*ask, Never, why)));
        cases.extend(
            actions.denied.iter().map(|(ask, why)| PermissionCase { even_so: true, ..self.ec2(*ask, Never, why) }),
        );
        cases.extend(self.bucket_cases(actions));
        cases.extend(self.report(actions.is_reader));
        cases.extend(self.elsewhere(actions));
        cases.extend((actions.further)(self));
        cases
    }

    /// Builds the cases of what the function reads in EC2 and elsewhere, always: on everything, or on any resource of `SageMaker`.
    fn looks(&self) -> Vec<PermissionCase> {
        let endpoint = sagemaker::ENDPOINT.arn(self.place);
        let stated = STATED.iter().filter(|one| one.is_of(self.function) && one.condition.is_none());
        let to_case = |one: &StatedPermission| match one.action {
            action if one.is_on_everything => Some(self.case(action, "*", "anything", Always, one.why)),
            action if action.starts_with("sagemaker:") => {
                Some(self.case(action, &endpoint, "what runs", Always, one.why))
            }
            _ => None,
        };
        stated.filter_map(to_case).collect()
    }

    /// Builds the case of a request to a protected resource, which is explicitly denied.
    fn protected(&self, ask: Ec2Request) -> PermissionCase {
        let mut case = self.ec2(ask, Never, PROTECTED_REASON);
        case.about = format!("{} that also carries {PROTECTED}", case.about);
        case.context.push(tag_on_it(PROTECTED));
        PermissionCase { even_so: true, ..case }
    }

    /// Builds the cases of the state bucket: the objects that the function reads, and those that it may write.
    fn bucket_cases(&self, actions: &FunctionActions<'_>) -> Vec<PermissionCase> {
        let other_notices = format!("notices/{}/us-east-1.json", actions.other);
        let mut cases = vec![
            self.object(PUT, "config/curfew.toml", Never, OWN),
            self.object(GET, &other_notices, Never, OWN),
            self.object(PUT, &other_notices, Never, OWN),
            self.object("s3:DeleteObject", "plans/2026-09-01/run.json", Never, OWN),
        ];
        cases.extend((!actions.is_reader).then(|| self.listing("plans/", Never)));
        for (prefix, written) in
            [("config/", None)].into_iter().chain(actions.own.iter().map(|(own, w)| (*own, Some(*w))))
        {
            let key = format!("{prefix}one");
            cases.push(self.object(GET, &key, Always, OBSERVES));
            cases.push(self.listing(prefix, Always));
            if let Some(written) = written {
                let (expected, why) = if written { (Always, REPORTS) } else { (Never, OWN) };
                cases.push(self.object(PUT, &key, expected, why));
            }
        }
        cases
    }

    /// Returns `true` if `deploy/permissions.csv` grants the action to the function.
    fn is_granted(&self, action: &str) -> bool {
        STATED.iter().any(|one| one.action == action && one.is_of(self.function))
    }

    /// Builds the cases of requests that no function may make.
    fn elsewhere(&self, actions: &FunctionActions<'_>) -> Vec<PermissionCase> {
        let instance = RequestTarget::Instance.arn(self.place);
        let mut cases = vec![
            self.object(PUT, &format!("plans/2026-09-01/{}/run.json", actions.other), Never, OWN),
            self.case(
                "s3:ListBucket",
                &format!("arn:{}:s3:::other", self.place.partition),
                "another bucket",
                Never,
                OTHERS,
            ),
            self.case("ec2:RunInstances", &instance, "an instance", Never, OTHERS),
            self.case("ec2:ModifyInstanceAttribute", &instance, "an instance", Never, OTHERS),
            self.case("iam:PassRole", &self.place.role_arn("any"), "a role", Never, OTHERS),
        ];
        if self.function != "run-jobs" {
            cases.push(self.object(PUT, "jobs/vision/llama/state.json", Never, OWN));
        }
        cases
    }

    fn listing(&self, prefix: &str, expected: ExpectedPermission) -> PermissionCase {
        let DeploymentArns { partition, bucket, .. } = self.place;
        let arn = format!("arn:{partition}:s3:::{bucket}");
        let why = if expected == Always { "without it S3 reports a missing object as forbidden" } else { OWN };
        let mut case = self.case("s3:ListBucket", &arn, &format!("the state bucket, {prefix}"), expected, why);
        case.context.push(single("s3:prefix", &format!("{prefix}one")));
        case
    }

    fn object(
        &self,
        action: &'static str,
        key: &str,
        expected: ExpectedPermission,
        why: &'static str,
    ) -> PermissionCase {
        let DeploymentArns { partition, bucket, .. } = self.place;
        self.case(action, &format!("arn:{partition}:s3:::{bucket}/{key}"), &format!("the object {key}"), expected, why)
    }

    fn ec2(&self, ask: Ec2Request, expected: ExpectedPermission, why: &'static str) -> PermissionCase {
        let Ec2Request { action, on, tags, keys, creating } = ask;
        let carries = match tags {
            [] => "without any tag".to_owned(),
            tags => format!("with {}", tags.join(" and ")),
        };
        let about = match (action, keys) {
            (DELETE_TAGS | CREATE_TAGS | SAGEMAKER_ADD_TAGS | SAGEMAKER_DELETE_TAGS, []) => {
                format!("{} {carries}, naming no key", on.as_str())
            }
            (_, []) => format!("{} {carries}", on.as_str()),
            (_, keys) if creating.is_some() => format!("{} that is made, of {}", on.as_str(), keys.join(" and ")),
            (_, keys) => format!("{} {carries}, of {}", on.as_str(), keys.join(" and ")),
        };
        let mut case = self.case(action, &on.arn(self.place), &about, expected, why);
        case.context.extend(tags.iter().map(|tag| tag_on_it(tag)));
        if !keys.is_empty() {
            let values = keys.iter().map(|key| (*key).to_owned()).collect();
            case.context.push(ContextKey { key: "aws:TagKeys".to_owned(), values, is_list: true });
            case.context.extend(keys.iter().map(|key| single(&format!("aws:RequestTag/{key}"), "any")));
        }
        if let Some(action) = creating {
            case.context.push(single("ec2:CreateAction", action));
        }
        case
    }

    /// Policies of organisations often deny requests without a region.
    fn case(
        &self,
        action: &'static str,
        resource: &str,
        about: &str,
        expected: ExpectedPermission,
        why: &'static str,
    ) -> PermissionCase {
        let context = vec![single("aws:RequestedRegion", &self.place.region)];
        PermissionCase {
            action,
            resource: resource.to_owned(),
            about: about.to_owned(),
            context,
            expected,
            even_so: false,
            why,
        }
    }
}

fn tag_on_it(tag: &str) -> ContextKey {
    single(&format!("aws:ResourceTag/{tag}"), "any")
}

pub(super) fn single(key: &str, value: &str) -> ContextKey {
    ContextKey { key: key.to_owned(), values: vec![value.to_owned()], is_list: false }
}

#[cfg(test)]
mod tests;
