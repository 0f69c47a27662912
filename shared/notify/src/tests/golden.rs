//! Every kind of message that the reapers and the budgets send, as people read it. Those about jobs are in `shared/jobs/`.

use model::curfew_tags::SNAPSHOT_OF;
use model::rule::{ResourceAction, Rule};
use model::volume::{Snapshot, SnapshotState};
use plan::{Evidence, ExpiryAnnouncement, Facts, OrphanedEvidence, Target};
use reaping::fixture::volume;

use super::*;

/// The message without its last line, which is the same in all: it names the run and its audit record.
fn golden(report: &Report) -> String {
    let message = message(report);
    let (text, run) = message.body.rsplit_once("\n\n").unwrap();
    assert!(run.starts_with("Run run-1 of "), "{run}");
    text.to_owned()
}

fn marked() -> InstanceBuilder {
    instance().tag(MARKED, DUE)
}

fn failed(builder: InstanceBuilder, error: &str) -> Report {
    with(planned(builder, &idle(), ENFORCED), &StepOutcome::with(OutcomeKind::Failed, error))
}

#[test]
fn instances_that_were_acted_on() {
    assert_snapshot!(golden(&done(marked(), &idle(), ENFORCED)), @r#"
    Curfew stopped i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It was stopped. That saves $1.01/h ($734 a month; table of 2026-09-24).
    Undo: aws ec2 start-instances --region us-east-1 --instance-ids i-0abc
    "#);
    let terminated = instance().tag(MARKED, "idle=terminate@2026-09-01T11:55:00Z").tag("curfew:on-idle", "terminate");
    assert_snapshot!(golden(&done(terminated, &idle(), ENFORCED)), @r#"
    Lost: i-0abc with its root volume. Curfew terminated i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It was terminated. That saves $1.01/h ($734 a month; table of 2026-09-24).
    "#);
    assert_snapshot!(golden(&done(marked(), &busy(), ENFORCED)), @r#"
    Curfew called off what it announced for i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): the action announced for 2026-09-01T11:55:00Z (idle) is called off.
    "#);
    assert_snapshot!(golden(&failed(marked(), "UnauthorizedOperation: You are not authorized")), @r#"
    Curfew could not stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. Curfew could not stop it: UnauthorizedOperation: You are not authorized. The next run tries again.
    "#);
}

#[test]
fn instances_that_are_not_acted_on() {
    assert_snapshot!(golden(&observed(marked(), &idle(), "")), @r#"
    Curfew would stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.
    Observe mode: Curfew only notifies, and changes nothing.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It would be stopped now. It costs $1.01/h ($734 a month; table of 2026-09-24).
    "#);
    assert_snapshot!(golden(&done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED)), @r#"
    Curfew only notifies (lifetime): i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): it has run since 2026-08-01T00:00:00Z, longer than 7d. It costs $1.01/h ($734 a month; table of 2026-09-24). Curfew only notifies: the configured action is notify.
    "#);
    let limit = "mode = \"enforce\"\n[limits]\nactions_max = 0\n";
    let held = planned(marked(), &idle(), limit);
    let why = held.steps[0].0.held.unwrap().to_string();
    assert_snapshot!(golden(&with(held, &StepOutcome::with(OutcomeKind::NotReached, why))), @r#"
    Curfew needs approval to stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It was not stopped: 1 of 1 instances are due at once, which exceeds [limits] actions_max = 0; a person must approve that (`curfew plans`). Keep what you need: `curfew keep ID`. It costs $1.01/h ($734 a month; table of 2026-09-24).
    "#);
}

#[test]
fn hours_begin() {
    let office = || instance().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC");
    let night = || office().state(InstanceState::Stopped).tag(STOPPED, "hours 2026-08-31T20:00:00Z");
    assert_snapshot!(golden(&done(night(), &unknown(), ENFORCED)), @r#"
    Curfew requested the start of i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): within its hours (Mon-Fri 08:00-20:00 UTC) since 2026-09-01T08:00:00Z. Its start was requested.
    "#);
    assert_snapshot!(golden(&observed(night().tag("curfew:mode", "observe"), &unknown(), "")), @r#"
    Curfew would start i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC.
    Observe mode: Curfew only notifies, and changes nothing.

    i-0abc (g5.xlarge, owner "ada", us-east-1): within its hours (Mon-Fri 08:00-20:00 UTC) since 2026-09-01T08:00:00Z. It would be started now.
    "#);
    let mut again = done(night(), &unknown(), "");
    let failed = Instance { state_reason: Some("Client.InternalError".to_owned()), ..night().build() };
    again.steps[0].0.action = Action::Instance(failed, InstanceAction::Start);
    assert_snapshot!(golden(&again), @r#"
    Curfew requested another start of i-0abc (g5.xlarge) of team vision after a failed one at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): within its hours (Mon-Fri 08:00-20:00 UTC) since 2026-09-01T08:00:00Z. Its start was requested again; the last one failed with Client.InternalError: as a rule EC2 may not use the KMS key of one of its encrypted volumes: name that key in the stack's parameter VolumeKeyArns (aws ec2 describe-volumes --region us-east-1 --filters Name=attachment.instance-id,Values=i-0abc --query 'Volumes[].KmsKeyId').
    "#);
}

#[test]
fn findings() {
    assert_snapshot!(golden(&planned(instance().tag("curfew:idle-after", "soon"), &idle(), ENFORCED)), @r#"
    Curfew skips i-0abc (g5.xlarge) of team vision because of an unreadable tag at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): the tag curfew:idle-after=soon cannot be read: `soon` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, `1h30m` or `0s`, ten years at most, or `off`.
    "#);
    assert_snapshot!(golden(&planned(instance().tag("eks:cluster-name", "ml"), &idle(), ENFORCED)), @r#"
    Another controller runs i-0abc (g5.xlarge) of team vision without work at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It is managed by EKS, so Curfew skips it; a stop would be undone there: give it work, or scale it down there. It costs $1.01/h ($734 a month; table of 2026-09-24).
    "#);
    assert_snapshot!(golden(&planned(instance(), &unknown(), ENFORCED)), @r#"
    Curfew cannot judge whether i-0abc (g5.xlarge) of team vision is idle at 2026-09-01 12:00 UTC.

    i-0abc (g5.xlarge, owner "ada", us-east-1): its usage is unknown, so Curfew never stops it as idle: 0 of its 1 accelerators report; install the CloudWatch agent with its nvidia_gpu section (curfew metrics install). It costs $1.01/h ($734 a month; table of 2026-09-24).
    "#);
}

/// A step about a volume of 500 GiB, or about the snapshot of it.
fn storage_report(action: Action, evidence: Evidence) -> Report {
    let resource = match &action {
        Action::Snapshot(snapshot, _) => snapshot.id.clone(),
        _ => "vol-0abc".into(),
    };
    let target = Target {
        region: home(),
        resource,
        team: Some("vision".into()),
        owner: Some("ada".to_owned()),
        name: None,
        what: "500 GiB gp3".to_owned(),
    };
    let report = planned(instance(), &busy(), ENFORCED);
    let step = Step {
        deadline: Some(time("2026-09-04T12:00:00Z")),
        saves: billing::price::PriceBook::dated().volume_cost(&volume().with(|volume| volume.size_gib = 500).build()),
        ..Step::bare(target, action, evidence, Mode::Enforce)
    };
    Report { function: "reap-volumes", steps: vec![(step, StepOutcome::from_kind(OutcomeKind::Done))], ..report }
}

fn orphaned() -> Evidence {
    let facts = OrphanedEvidence {
        unattached_since: time("2026-08-15T12:00:00Z"),
        size_gib: 500,
        volume_type: "gp3".to_owned(),
        usd_per_month: None,
        last_attached_to: Some("i-0abc".into()),
    };
    let sentence = "unattached and unused since 2026-08-15T12:00:00Z, last attached to i-0abc";
    Evidence::new(Rule::Orphaned, Facts::Orphaned(facts), sentence).with_remedy("Attach it, or delete it yourself.")
}

fn expired() -> Evidence {
    let facts = Facts::SnapshotExpired {
        volume: "vol-0abc".into(),
        deleted_at: time("2026-08-01T12:00:00Z"),
        expires_at: time("2026-08-31T12:00:00Z"),
    };
    let sentence =
        "the safety snapshot of vol-0abc (deleted at 2026-08-01T12:00:00Z) was kept until 2026-08-31T12:00:00Z";
    Evidence::new(Rule::Expired, facts, sentence).unscheduled()
}

fn snapshot() -> Snapshot {
    Snapshot {
        id: "snap-0abc".into(),
        region: home(),
        of_volume: "vol-0abc".into(),
        state: SnapshotState::Completed,
        started_at: time("2026-08-01T12:00:00Z"),
        size_gib: 500,
        tags: [(SNAPSHOT_OF.to_owned(), "vol-0abc".to_owned())].into(),
        description: "Curfew: vol-0abc before its deletion, by run-0".to_owned(),
    }
}

#[test]
fn volumes() {
    let volume = |action| Action::Volume(volume().id("vol-0abc").with(|one| one.size_gib = 500).build(), action);
    let announced = |ending| {
        let announced = reaping::fixture::announced(ending, "2026-09-04T12:00:00Z");
        let mark = Announcement::Mark(BTreeMap::from([(model::rule::Rule::Orphaned, announced)]));
        let report = storage_report(volume(VolumeAction::Announce(mark)), orphaned());
        with(report, &StepOutcome::from_kind(OutcomeKind::NotReached))
    };
    assert_snapshot!(golden(&announced(ResourceAction::SnapshotAndDelete)), @r#"
    Curfew will snapshot and delete vol-0abc (500 GiB gp3) of team vision at 2026-09-04 12:00 UTC: $40.00/mo.

    vol-0abc (500 GiB gp3, owner "ada", us-east-1): unattached and unused since 2026-08-15T12:00:00Z, last attached to i-0abc. It will be snapshotted and deleted at 2026-09-04T12:00:00Z. It costs $40.00 a month (table of 2026-09-30). Attach it, or delete it yourself.
    Keep it: curfew keep vol-0abc 7d
    "#);
    assert_snapshot!(golden(&announced(ResourceAction::Delete)), @r#"
    Will lose: vol-0abc (500 GiB, without a snapshot). Curfew will delete vol-0abc (500 GiB gp3) of team vision at 2026-09-04 12:00 UTC: $40.00/mo.

    vol-0abc (500 GiB gp3, owner "ada", us-east-1): unattached and unused since 2026-08-15T12:00:00Z, last attached to i-0abc. It will be deleted at 2026-09-04T12:00:00Z. It costs $40.00 a month (table of 2026-09-30). Attach it, or delete it yourself.
    Keep it: curfew keep vol-0abc 7d
    "#);
    let began = VolumeAction::Snapshot { tags: BTreeMap::new() };
    assert_snapshot!(golden(&storage_report(volume(began), orphaned())), @r#"
    Curfew began the snapshot of vol-0abc (500 GiB gp3) of team vision at 2026-09-01 12:00 UTC: $40.00/mo.

    vol-0abc (500 GiB gp3, owner "ada", us-east-1): unattached and unused since 2026-08-15T12:00:00Z, last attached to i-0abc. Its snapshot was started; the volume is deleted once the snapshot is complete. It costs $40.00 a month (table of 2026-09-30).
    "#);
    let deleted = VolumeAction::Delete {
        safety: Some("snap-0abc".into()),
        expiring: Vec::new(),
        at: time(NOW),
        kept_until: time("2026-10-01T12:00:00Z"),
    };
    assert_snapshot!(golden(&storage_report(volume(deleted), orphaned())), @r#"
    Curfew deleted vol-0abc (500 GiB gp3) of team vision at 2026-09-01 12:00 UTC: $40.00/mo.

    vol-0abc (500 GiB gp3, owner "ada", us-east-1): unattached and unused since 2026-08-15T12:00:00Z, last attached to i-0abc. It was deleted. That saves $40.00 a month (table of 2026-09-30).
    Undo until 2026-10-01T12:00:00Z: aws ec2 create-volume --region us-east-1 --availability-zone us-east-1a --snapshot-id snap-0abc --volume-type gp3 --size 500 --iops 3000 --throughput 125 --tag-specifications '[{"ResourceType":"volume","Tags":[{"Key":"Owner","Value":"ada"},{"Key":"Team","Value":"vision"}]}]'
    "#);
}

#[test]
fn snapshots() {
    let found_gone = SnapshotAction::AnnounceExpiry(ExpiryAnnouncement {
        deleted_at: time(NOW),
        kept_until: time("2026-10-01T12:00:00Z"),
    });
    assert_snapshot!(golden(&storage_report(Action::Snapshot(snapshot(), found_gone), expired())), @r#"
    Curfew noticed that the volume of snap-0abc (500 GiB gp3) of team vision is gone at 2026-09-01 12:00 UTC.

    snap-0abc (500 GiB gp3, owner "ada", us-east-1): its volume is gone. It will be deleted at 2026-10-01T12:00:00Z.
    "#);
    assert_snapshot!(golden(&storage_report(Action::Snapshot(snapshot(), SnapshotAction::Delete), expired())), @r#"
    Lost: snap-0abc (of vol-0abc). Curfew deleted snap-0abc (500 GiB gp3) of team vision at 2026-09-01 12:00 UTC: $40.00/mo.

    snap-0abc (500 GiB gp3, owner "ada", us-east-1): the safety snapshot of vol-0abc (deleted at 2026-08-01T12:00:00Z) was kept until 2026-08-31T12:00:00Z. It was deleted. That saves $40.00 a month (table of 2026-09-30).
    "#);
    let sentence = "this snapshot of vol-0abc failed, and snap-0def is a later one";
    let failed = Evidence::new(Rule::Orphaned, Facts::named([("volume", "vol-0abc".into())]), sentence);
    let deletion = SnapshotAction::DeleteFailed { at: time(NOW) };
    assert_snapshot!(golden(&storage_report(Action::Snapshot(snapshot(), deletion), failed)), @r#"
    Curfew deleted snap-0abc (500 GiB gp3) of team vision at 2026-09-01 12:00 UTC: $40.00/mo.

    snap-0abc (500 GiB gp3, owner "ada", us-east-1): this snapshot of vol-0abc failed, and snap-0def is a later one. It was deleted.
    "#);
}

#[test]
fn faults_of_the_account() {
    let gap = Gap::new(&"eu-west-1".into(), "ec2:DescribeInstances", "UnauthorizedOperation", GapKind::Region);
    let blind = Report { gaps: vec![gap], ..planned(instance(), &busy(), ENFORCED) };
    assert_snapshot!(golden(&blind), @"
    Curfew could not complete ec2:DescribeInstances in eu-west-1 at 2026-09-01 12:00 UTC.

    eu-west-1, ec2:DescribeInstances: UnauthorizedOperation
    ");
    let unread = Gap::new(&home(), "sns:GetSubscriptionAttributes", "nobody", GapKind::Readers);
    let without_readers = Report { gaps: vec![unread], ..planned(instance(), &busy(), ENFORCED) };
    assert_snapshot!(first_line(&without_readers), @"Curfew does not do everything, because nobody receives all of its warnings at 2026-09-01 12:00 UTC.");
    let bug = model::fault::Bug::catch(|| panic!("overflow")).unwrap_err();
    let gap = Gap::for_bug(&bug, &home(), &"i-0abc".into());
    let blind_by_bug = Report { gaps: vec![gap], ..planned(instance(), &busy(), ENFORCED) };
    assert_snapshot!(first_line(&blind_by_bug), @"A bug in Curfew kept it from judging i-0abc in us-east-1 at 2026-09-01 12:00 UTC.");
    let config_message = |fault, error| {
        let notification = config_fault_notification(&home(), fault, error, &no_memory(), time(NOW));
        messages(&blind, &[notification.unwrap()], &no_memory(), &[Audience::Team], None).remove(0)
    };
    let unreachable = config_message(ConfigFault::Unreachable, "s3:GetObject failed: AccessDenied");
    assert_snapshot!(unreachable.body, @"
    Curfew changes nothing, because it could not read the configuration at 2026-09-01 12:00 UTC.

    Curfew changes nothing until the configuration can be read: s3:GetObject failed: AccessDenied

    Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
    ");
    let refused = config_message(ConfigFault::Refused, "line 3: `ide` is unknown");
    assert_eq!(refused.subject, "Curfew changes nothing, because it refused the configuration");
    assert_snapshot!(refused.body, @"
    Curfew changes nothing, because it refused the configuration at 2026-09-01 12:00 UTC.

    Curfew changes nothing until the configuration is corrected: line 3: `ide` is unknown

    Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
    ");
}

#[test]
fn what_sns_refused_before_comes_with_what_is_new() {
    let log = NotificationLog {
        undelivered: vec![UndeliveredParagraph {
            team: "vision".to_owned(),
            severity: Severity::Action,
            text: Paragraph::new("i-0def was stopped"),
            headline: "Curfew stopped i-0def of team vision at 2026-09-01 11:55 UTC".to_owned(),
            cause: UndeliveredCause::Refused,
            audience: Audience::Team,
        }],
        ..NotificationLog::default()
    };
    let memory = NotificationLogs::from([(home(), log)]);
    let late = messages(&planned(instance(), &busy(), ENFORCED), &[], &memory, &[Audience::Team], None);
    assert_snapshot!(late[0].body, @"
    Curfew stopped i-0def of team vision at 2026-09-01 11:55 UTC (SNS did not accept this before).

    i-0def was stopped

    Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
    ");
    let report = planned(instance(), &idle(), ENFORCED);
    let both = messages(&report, &notify(&report), &memory, &[Audience::Team], None);
    assert_snapshot!(both[0].body.lines().next().unwrap(), @"Curfew will stop i-0abc (g5.xlarge) of team vision at 2026-09-01 13:00 UTC: $1.01/h; 1 more below.");
}

#[test]
fn what_is_paid_for_anyway_shows_what_it_costs_and_saves() {
    let reserved = instance().in_reservation("cr-0abc");
    assert_snapshot!(golden(&done(reserved, &idle(), ENFORCED)), @r#"
    Curfew only notifies (idle): i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It costs $1.01/h ($734 a month), of which a stop saves nothing. Curfew only notifies: its capacity is reserved or dedicated and is paid for in any case, so a stop saves nothing until you release that capacity.
    Give up its capacity reservation: aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc
    "#);
}

#[test]
fn what_came_up_after_its_message_has_a_headline_of_its_own() {
    let late = UndeliveredParagraph {
        team: "vision".to_owned(),
        severity: Severity::Error,
        text: Paragraph::new("i-0def: Curfew could not stop it"),
        headline: String::new(),
        cause: UndeliveredCause::Late,
        audience: Audience::Team,
    };
    let log = NotificationLog { undelivered: vec![late], ..NotificationLog::default() };
    let memory = NotificationLogs::from([(home(), log)]);
    let sent = messages(&planned(instance(), &busy(), ENFORCED), &[], &memory, &[Audience::Team], None);
    assert_snapshot!(sent[0].body.lines().next().unwrap(), @"Curfew sends what happened after the message of its run.");
}

#[test]
fn a_name_cannot_speak_for_curfew() {
    let forged = "x\", owner a): idle. It was stopped.\nUndo: curl https://www.evil.example";
    let hostile = instance().tag("Name", forged).tag("Owner", "a\u{201d} \u{202e}\u{200b}").tag("Team", "v. Undo: x");
    assert_snapshot!(golden(&done(hostile.tag(MARKED, DUE), &idle(), ENFORCED)), @r#"
    Curfew stopped i-0abc (g5.xlarge "x', owner a): idle. It wa…") of team "v. Undo: x" at 2026-09-01 12:00 UTC: $1.01/h.

    i-0abc (g5.xlarge "x', owner a): idle. It was stopped. Undo: curl https: //www .evil.example", owner "a'   ", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It was stopped. That saves $1.01/h ($734 a month; table of 2026-09-24).
    Undo: aws ec2 start-instances --region us-east-1 --instance-ids i-0abc
    "#);
}

/// Three machines of one team that end, of which two lose their scratch; and one that is called off.
#[test]
fn a_message_about_several_resources_counts_them() {
    let one = |id: &str, scratch| {
        let one = instance().id(id).instance_storage(scratch).tag("curfew:local-disk", "expendable");
        planned(one, &idle(), ENFORCED).steps.remove(0)
    };
    let called_off = done(instance().id("i-0fff").tag(MARKED, DUE), &busy(), ENFORCED);
    let mut report = planned(instance(), &busy(), ENFORCED);
    report.steps = vec![one("i-0aaa", 250), one("i-0bbb", 0), one("i-0ccc", 7600)];
    report.steps.extend(called_off.steps);
    assert_snapshot!(golden(&report), @r#"
    Will lose: the NVMe scratch of i-0aaa (250 GB), and 1 more. Curfew will stop i-0aaa (g5.xlarge) of team vision at 2026-09-01 13:00 UTC: $1.01/h; 3 more below.
    Will lose: the NVMe scratch of i-0aaa (250 GB), the NVMe scratch of i-0ccc (7600 GB).

    i-0aaa (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It will be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24).
    Keep it: curfew keep i-0aaa 7d

    i-0bbb (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It will be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24).
    Keep it: curfew keep i-0bbb 7d

    i-0ccc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It will be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24).
    Keep it: curfew keep i-0ccc 7d

    i-0fff (g5.xlarge, owner "ada", us-east-1): the action announced for 2026-09-01T11:55:00Z (idle) is called off.
    "#);
}
