//! `run-jobs`: launches machines with their job and deadline, and terminates no others.

use model::curfew_tags::{ATTEMPT, BOX, EXPIRES_AT, JOB, KEEP_UNTIL, MARKED, MODE, PROTECTED};

use super::RequestTarget::{Instance, Snapshot, Volume};
use super::{
    Always, CREATE_TAGS, CaseBuilder, DELETE_TAGS, Ec2Request, Enforcing, FunctionActions, GET, Never, OTHERS, OWN,
    PEOPLE, PUT, PermissionCase, TAGS_OF_OTHERS, ask, single, tag_on_it, tagging,
};
use crate::doctor::permissions::{ContextKey, ExpectedPermission, SPOT_ROLE};

const RUN: &str = "ec2:RunInstances";
const MAKE_SECURITY: &str = "ec2:CreateSecurityGroup";
const MAKE_PLACEMENT: &str = "ec2:CreatePlacementGroup";
const STOP: &str = "ec2:StopInstances";
const TERMINATE: &str = "ec2:TerminateInstances";
const PASS: &str = "iam:PassRole";
pub(crate) const CREATE_SPOT_ROLE: &str = "iam:CreateServiceLinkedRole";

const OF_A_JOB: &str = "it terminates the machines of finished jobs";
const OF_NO_JOB: &str = "it terminates only machines of jobs";
const LAUNCHES: &str = "it launches jobs";
const SAYS_WHOSE: &str = "a launch must set the job and the deadline of its machine";
const BORN: &str = "an existing resource must not become a job's";
const FROM_ITS_END: &str = "no machine of a job may be protected from its deadline";
const HOMES: &str = "boxes have homes that outlive their machines";
const GROUPS: &str = "jobs on several machines have groups of their own";
const GROUPS_OF_OTHERS: &str = "it must not make, use or change groups of others";
const OPENS: &str = "it must not pass or use roles of others";

/// Tags that a launch gives its machine.
const LAUNCHED: &[&str] = &[JOB, ATTEMPT, EXPIRES_AT, MODE];
/// Tags that no launch gives.
const PROTECTING: &[&str] = &[JOB, ATTEMPT, EXPIRES_AT, PROTECTED];

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[(ask(TERMINATE, Instance, &[JOB]), OF_A_JOB)],
    never: &[
        (ask(STOP, Instance, &[JOB]), OTHERS),
        (ask("ec2:StartInstances", Instance, &[JOB]), OTHERS),
        (ask("ec2:DeleteVolume", Volume, &[JOB]), OTHERS),
        (tagging(CREATE_TAGS, Instance, &[], &[JOB]), BORN),
        (tagging(CREATE_TAGS, Instance, &[JOB], &[JOB]), BORN),
        (tagging(CREATE_TAGS, Volume, &[], &[JOB]), BORN),
        (tagging(DELETE_TAGS, Instance, &[JOB], &[JOB]), TAGS_OF_OTHERS),
    ],
    denied: &[
        (ask(TERMINATE, Instance, &[]), OF_NO_JOB),
        (ask(TERMINATE, Instance, &[MARKED, EXPIRES_AT]), OF_NO_JOB),
        (tagging(CREATE_TAGS, Instance, &[JOB], &[PROTECTED]), PEOPLE),
        (tagging(CREATE_TAGS, Instance, &[JOB], &[MODE]), PEOPLE),
        (tagging(CREATE_TAGS, Instance, &[JOB], &[KEEP_UNTIL]), PEOPLE),
        (tagging(DELETE_TAGS, Instance, &[JOB], &[MODE]), PEOPLE),
    ],
    own: &[
        ("notices/run-jobs/", true),
        ("notices/reap-instances/", false),
        ("budgets/", true),
        ("prices/", true),
        ("inbox/", false),
        ("jobs/", false),
        ("attempts/", false),
        ("active/", true),
        ("agent/", true),
        ("boxes/", true),
    ],
    further,
    is_reader: false,
    other: "reap-volumes",
};

fn further(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    [launches(table), homes(table), groups(table), roles(table), images(table), documents(table)].concat()
}

/// Builds the cases of the homes of boxes, which have a tag of their own from their beginning.
fn homes(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    const ATTACH: &str = "ec2:AttachVolume";
    const CREATE: &str = "ec2:CreateVolume";
    const SAVE: &str = "ec2:CreateSnapshot";
    let done = [
        ask(ATTACH, Volume, &[BOX]),
        ask(ATTACH, Instance, &[JOB]),
        ask(SAVE, Volume, &[BOX]),
        tagging(SAVE, Snapshot, &[], &[BOX]),
        ask("ec2:DeleteVolume", Volume, &[BOX]),
        ask("ec2:DeleteSnapshot", Snapshot, &[BOX]),
        tagging(CREATE_TAGS, Volume, &[BOX], &[KEEP_UNTIL]),
        Ec2Request { creating: Some("CreateVolume"), ..tagging(CREATE_TAGS, Volume, &[], &[BOX]) },
        Ec2Request { creating: Some("CreateSnapshot"), ..tagging(CREATE_TAGS, Snapshot, &[], &[BOX]) },
    ];
    let never = [
        ask(ATTACH, Volume, &[]),
        ask(ATTACH, Instance, &[]),
        ask("ec2:DeleteSnapshot", Snapshot, &[]),
        tagging(CREATE_TAGS, Volume, &[], &[BOX]),
        tagging(CREATE_TAGS, Volume, &[BOX], &[KEEP_UNTIL, "Name"]),
    ];
    let mut cases: Vec<PermissionCase> = done.map(|ask| table.ec2(ask, Enforcing, HOMES)).into();
    cases.extend(never.map(|ask| table.ec2(ask, Never, "it must not take or change what is no home of a box")));
    for (encrypted, expected) in [("true", Enforcing), ("false", Never)] {
        let about = format!("the home of a box, encrypted: {encrypted}");
        let mut case = table.case(CREATE, &Volume.arn(table.place), &about, expected, HOMES);
        case.context.extend(requested(&[BOX]));
        case.context.push(single("ec2:Encrypted", encrypted));
        cases.push(case);
    }
    cases
}

/// Builds the cases of the groups of jobs on several machines, which have the tag of their job from their beginning.
fn groups(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    let own = format!("arn:{}:ec2:{}:{}", table.place.partition, table.place.region, table.place.account);
    let security = format!("{own}:security-group/sg-0123456789abcdef0");
    let placement = format!("{own}:placement-group/curfew-ddp-0123abcd-1");
    let foreign = format!("{own}:placement-group/mine");
    let vpc = format!("{own}:vpc/vpc-0123456789abcdef0");
    let mut cases = vec![
        table.case(MAKE_SECURITY, &vpc, "a VPC", Enforcing, GROUPS),
        table.case(RUN, &placement, "a placement group of Curfew", Enforcing, LAUNCHES),
        table.case(RUN, &foreign, "another placement group", Never, GROUPS_OF_OTHERS),
    ];
    for (keys, expected, why) in [(&[JOB][..], Enforcing, GROUPS), (&[], Never, GROUPS_OF_OTHERS)] {
        let with = if keys.is_empty() { "without" } else { "with" };
        for (make, arn, kind) in [(MAKE_SECURITY, &security, "security"), (MAKE_PLACEMENT, &placement, "placement")] {
            let about = format!("a {kind} group {with} {JOB}");
            let mut made = table.case(make, arn, &about, expected, why);
            made.context.extend(requested(keys));
            let mut tagged = table.case(CREATE_TAGS, arn, &about, expected, why);
            tagged.context.extend(requested(keys));
            tagged.context.push(single("ec2:CreateAction", make.trim_start_matches("ec2:")));
            cases.extend([made, tagged]);
        }
        let changes = [
            ("ec2:AuthorizeSecurityGroupIngress", &security),
            ("ec2:AuthorizeSecurityGroupEgress", &security),
            ("ec2:RevokeSecurityGroupEgress", &security),
            ("ec2:DeleteSecurityGroup", &security),
            ("ec2:DeletePlacementGroup", &placement),
        ];
        for (action, arn) in changes {
            let mut case = table.case(action, arn, &format!("a group {with} {JOB}"), expected, why);
            case.context.extend(keys.iter().map(|key| tag_on_it(key)));
            cases.push(case);
        }
    }
    cases
}

/// `RunInstances` is asked of each thing that it makes or uses (Service Authorization Reference, "Actions, resources, and condition
/// keys for Amazon EC2").
fn launches(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    let ec2 = format!("arn:{}:ec2:{}", table.place.partition, table.place.region);
    let account = &table.place.account;
    let used = [
        (format!("{ec2}::image/ami-0123456789abcdef0"), "an image"),
        (format!("{ec2}:{account}:subnet/subnet-0123456789abcdef0"), "a subnet"),
        (format!("{ec2}:{account}:security-group/sg-0123456789abcdef0"), "a security group"),
        (format!("{ec2}:{account}:network-interface/eni-0123456789abcdef0"), "a network interface"),
    ];
    let mut cases: Vec<PermissionCase> =
        used.iter().map(|(arn, about)| table.case(RUN, arn, about, Enforcing, LAUNCHES)).collect();
    let machine = |keys: &[&str], tokens: &str, expected: ExpectedPermission, why: &'static str| {
        let about = format!("an instance of {}, with IMDSv2 {tokens}", keys.join(" and "));
        let mut case = table.case(RUN, &Instance.arn(table.place), &about, expected, why);
        case.context.extend(requested(keys));
        case.context.push(single("ec2:MetadataHttpTokens", tokens));
        case
    };
    cases.push(machine(LAUNCHED, "required", Enforcing, LAUNCHES));
    cases.push(machine(LAUNCHED, "optional", Never, "machines of jobs must not allow IMDSv1"));
    for lacking in &LAUNCHED[..3] {
        let others: Vec<&str> = LAUNCHED.iter().copied().filter(|key| key != lacking).collect();
        cases.push(machine(&others, "required", Never, SAYS_WHOSE));
    }
    cases.push(machine(PROTECTING, "required", Never, FROM_ITS_END));
    for (encrypted, expected) in [("true", Enforcing), ("false", Never)] {
        let about = format!("a volume that is made, encrypted: {encrypted}");
        let mut case = table.case(RUN, &Volume.arn(table.place), &about, expected, "volumes of jobs are encrypted");
        case.context.push(single("ec2:Encrypted", encrypted));
        cases.push(case);
    }
    for on in [Instance, Volume] {
        for (keys, expected, why) in [(LAUNCHED, Enforcing, LAUNCHES), (PROTECTING, Never, FROM_ITS_END)] {
            let ask = Ec2Request { creating: Some("RunInstances"), ..tagging(CREATE_TAGS, on, &[], keys) };
            cases.push(PermissionCase { even_so: expected == Never, ..table.ec2(ask, expected, why) });
        }
    }
    cases
}

/// Machines get roles that are made for them.
fn roles(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    let pass = |role: &str, service: &str, expected: ExpectedPermission, why: &'static str| {
        let about = format!("the role {role}, to {service}");
        let mut case = table.case(PASS, &table.place.role_arn(role), &about, expected, why);
        case.context.push(single("iam:PassedToService", service));
        case
    };
    let create = |service: &str, role: &str, expected: ExpectedPermission, why: &'static str| {
        let arn = table.place.role_at("/", &format!("aws-service-role/{service}/{role}"));
        let mut case = table.case(CREATE_SPOT_ROLE, &arn, &format!("the role {role}"), expected, why);
        case.context.push(single("iam:AWSServiceName", service));
        case
    };
    // IAM user guide of Amazon Web Services in China: EC2 has the partition's suffix in its name.
    let ec2 = format!("ec2.{}", table.place.dns_suffix());
    let first_spot = "the first Spot request of an account creates it";
    vec![
        pass("curfew/curfew-job", &ec2, Enforcing, LAUNCHES),
        pass("curfew/curfew-job", "lambda.amazonaws.com", Never, OPENS),
        pass("Administrator", &ec2, Never, OPENS),
        create("spot.amazonaws.com", SPOT_ROLE, Enforcing, first_spot),
        create("autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling", Never, OTHERS),
    ]
}

/// Builds the cases of the parameters that name the newest image: public ones of AWS, and those of this account.
fn images(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    let (partition, region, account) = (&table.place.partition, &table.place.region, &table.place.account);
    let parameter = |owner: &str, name: &str| format!("arn:{partition}:ssm:{region}:{owner}:parameter/{name}");
    let public = parameter("", "aws/service/deeplearning/ami/x86_64/one/latest/ami-id");
    let image = parameter(account, "curfew/images/one");
    let own = parameter(account, "one");
    vec![
        table.case("ssm:GetParameter", &public, "a public parameter of the Deep Learning AMI", Always, LAUNCHES),
        table.case("ssm:GetParameter", &image, "a parameter that names an image of this account", Always, LAUNCHES),
        table.case("ssm:GetParameter", &own, "a parameter of this account", Never, OTHERS),
    ]
}

/// Builds the cases of a job's documents: those that the function writes, and those that only the job's machine writes.
fn documents(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    let reason = "only its machine writes this";
    vec![
        table.object(PUT, "inbox/vision/llama.accepted.json", Always, "it answers the submission"),
        table.object(PUT, "inbox/vision/llama.rejected.json", Always, "it answers the submission"),
        table.object(PUT, "inbox/vision/llama.toml", Never, "people submit jobs"),
        table.object(PUT, "jobs/vision/llama/spec.toml", Always, "it keeps the specification"),
        table.object(PUT, "jobs/vision/llama/state.json", Always, "it writes the state of a job"),
        table.object(PUT, "jobs/vision/llama/sweep.json", Always, "it keeps what the members of a sweep follow from"),
        table.object(PUT, "jobs/vision/llama/cancel.json", Never, "people cancel jobs"),
        table.object(PUT, "jobs/vision/llama/extend.json", Never, "people extend boxes"),
        table.object(PUT, "boxes/vision/my-box.json", Always, "it writes who has a box, and its home"),
        table.object(PUT, "attempts/vision/llama/head.json", Never, reason),
        table.object(PUT, "attempts/vision/llama/1/exit.json", Never, reason),
        table.object(GET, "attempts/vision/llama/head.json", Always, "it reads the progress of a job"),
        table.object(GET, "checkpoints/vision/llama/1/100/manifest.json", Never, OTHERS),
        table.object("s3:DeleteObject", "active/vision/llama", Always, "it removes finished jobs from the index"),
        table.object("s3:DeleteObject", "inbox/vision/llama.rejected.json", Always, "it deletes an old answer"),
        table.object("s3:DeleteObject", "inbox/vision/llama.toml", Never, "people submit jobs"),
        table.object("s3:DeleteObject", "jobs/vision/llama/state.json", Never, OWN),
    ]
}

/// Tags that a request gives.
fn requested(keys: &[&str]) -> Vec<ContextKey> {
    let values = keys.iter().map(|key| (*key).to_owned()).collect();
    let listed = ContextKey { key: "aws:TagKeys".to_owned(), values, is_list: true };
    let each = keys.iter().map(|key| single(&format!("aws:RequestTag/{key}"), "any"));
    [listed].into_iter().chain(each).collect()
}
