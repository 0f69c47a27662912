use model::curfew_tags::PROTECTED;
use reaping::fixture::{NOW, time};

use super::*;

/// The tag on something of this kind, among an accelerated instance that was launched a day ago, a volume that is attached for a
/// day, and one that is not; and what is found: its severity and a part of the words.
fn check_tags(id: &str, tags: &[(&str, &str)], expect: Option<(FindingSeverity, &str)>) {
    let kind = match id.split('-').next() {
        Some("i") => "instance",
        Some("vol") => "volume",
        Some("snap") => "snapshot",
        _ => "launch-template",
    };
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let tagged = TaggedResource {
        region: "us-east-1".into(),
        resource: id.into(),
        kind: kind.to_owned(),
        tags: tags.iter().map(own).collect(),
    };
    let yesterday = time(NOW) - SignedDuration::from_hours(24);
    let instance = |state, accelerated| TaggedInstance { launched_at: yesterday, state, accelerated };
    let known = KnownResources {
        instances: BTreeMap::from([
            ("i-gpu".into(), instance(InstanceState::Running, true)),
            ("i-stopped".into(), instance(InstanceState::Stopped, true)),
            ("i-cpu".into(), instance(InstanceState::Running, false)),
        ]),
        volumes: BTreeMap::from([("vol-used".into(), Some(yesterday)), ("vol-free".into(), None)]),
        inactive_jobs: BTreeSet::from(["vision/done".to_owned()]),
    };
    let findings = super::check(&[tagged], &known, time(NOW));
    match expect {
        None => assert_eq!(findings, [], "{id} {tags:?}"),
        Some((severity, words)) => {
            assert_eq!(findings.len(), 1, "{id} {tags:?}: {findings:?}");
            assert_eq!(findings[0].severity, severity, "{id} {tags:?}");
            assert!(findings[0].found.contains(words), "{id} {tags:?}: {}", findings[0].found);
        }
    }
}

fn check(id: &str, key: &str, value: &str, expect: Option<(FindingSeverity, &str)>) {
    check_tags(id, &[(key, value)], expect);
}

const fn warning(words: &str) -> (FindingSeverity, &str) {
    (FindingSeverity::Warning, words)
}

const fn note(words: &str) -> (FindingSeverity, &str) {
    (FindingSeverity::Note, words)
}

#[test]
fn what_somebody_owns_is_no_finding() {
    check("i-gpu", MARKED, "idle=stop@2026-09-01T18:00:00Z", None);
    check("i-gpu", MARKED, "idle=stop@2026-08-31T12:00:00Z", None);
    check("i-gpu", PROTECTED, "", None);
    check("i-gpu", KEEP_UNTIL, "2026-09-30", None);
    check("i-gpu", JOB, "vision/live", None);
    check("i-stopped", STOPPED, "idle 2026-08-31T18:00:00Z", None);
    check("vol-free", UNATTACHED_SINCE, "2026-08-31T18:00:00Z", None);
    check("snap-1", SNAPSHOT_OF, "vol-used", None);
    check("lt-1", PROTECTED, "", None);
}

#[test]
fn what_is_gone_is_no_finding() {
    check("i-gone", MARKED, "idle=stop@2026-08-01T18:00:00Z", None);
    check("vol-gone", MARKED, "yes", None);
}

#[test]
fn a_mark_may_be_copied() {
    check("i-cpu", MARKED, "idle=stop@2026-09-01T18:00:00Z", Some(warning("without an accelerator")));
    check("lt-1", MARKED, "idle=stop@2026-09-01T18:00:00Z", Some(warning("a launch-template")));
}

#[test]
fn what_cannot_be_read_is_found_wherever_it_is() {
    check("i-gpu", "Curfew:Protected", "", Some(warning("there is no such tag")));
    check("i-gpu", "curfew:idle-after", "soon", Some(warning("cannot be read, so Curfew skips the resource")));
    check("i-gpu", MARKED, "yes", None);
    check("vol-free", SNAPSHOT_OF, "vol-other", Some(warning("has no meaning on a volume")));
    check("snap-1", "curfew:protectd", "", Some(warning("there is no such tag")));
    check("i-cpu", "curfew:protectd", "", Some(note("has no meaning")));
    check("lt-1", "curfew:protectd", "", Some(note("has no meaning")));
}

#[test]
fn what_curfew_wrote_once_may_be_true_no_more() {
    check("i-gpu", STOPPED, "idle 2026-08-31T18:00:00Z", Some(note("an instance that runs again")));
    check("vol-free", STOPPED, "idle 2026-08-31T18:00:00Z", Some(warning("has no meaning on a volume")));
    check("vol-used", UNATTACHED_SINCE, "2026-08-01T18:00:00Z", Some(warning("attached for 1d")));
    check("snap-1", JOB, "vision/done", None);
    check("i-gpu", JOB, "vision/done", Some(warning("which is not an active job")));
    check("i-gpu", KEEP_UNTIL, "2026-08-30", Some(note("kept it until")));
}

#[test]
fn the_remedy_is_a_command() {
    let command = |key| delete_tag(&"us-east-1".into(), &"i-1".into(), key);
    assert_eq!(command(MARKED), "aws ec2 delete-tags --region us-east-1 --resources i-1 --tags Key=curfew:marked");
    assert_eq!(
        command("curfew it's, all"),
        "aws ec2 delete-tags --region us-east-1 --resources i-1 --tags '[{\"Key\":\"curfew it'\\''s, all\"}]'"
    );
}

#[test]
fn no_more_are_shown_than_can_be_read() {
    let tagged: Vec<TaggedResource> = (0..60)
        .map(|place| TaggedResource {
            region: "us-east-1".into(),
            resource: format!("snap-{place}").as_str().into(),
            kind: "snapshot".to_owned(),
            tags: BTreeMap::from([("curfew:protectd".to_owned(), String::new())]),
        })
        .collect();
    let findings = super::check(&tagged, &KnownResources::default(), time(NOW));
    assert_eq!(findings.len(), 51);
    assert_eq!(findings[50].found, "and 10 more tags like these");
}

#[test]
fn what_has_to_be_looked_up_is_named() {
    let one = |id: &str, kind: &str, key: &str, value: &str| TaggedResource {
        region: "us-east-1".into(),
        resource: id.into(),
        kind: kind.to_owned(),
        tags: BTreeMap::from([(key.to_owned(), value.to_owned())]),
    };
    let tagged = [
        one("vol-1", "volume", JOB, "vision/a"),
        one("snap-1", "snapshot", SNAPSHOT_OF, "vol-2"),
        one("snap-2", "snapshot", JOB, "vision/b"),
    ];
    assert_eq!(tagged_volumes(&tagged), BTreeSet::from(["vol-1".into()]));
    assert_eq!(jobs_named(&tagged), BTreeSet::from(["vision/a".to_owned()]));
}
