use model::volume::{Snapshot, SnapshotState};
use reaping::fixture::{InstanceBuilder, NOW, instance, time, volume};

use super::*;

/// Both the moment and that the vocabulary reads the value as that.
fn check_until(text: &str, expect: Option<&str>) {
    let read = KeepUntil::read(text, time(NOW));
    assert_eq!(read.as_ref().ok().map(|until| until.at.to_string()).as_deref(), expect, "{text:?}: {read:?}");
    if let Ok(until) = read {
        let tagged = instance().tag(KEEP_UNTIL, &until.value).build();
        assert_eq!(CurfewTags::read(&tagged).unwrap().keep_until, Some(until.at), "{text:?}");
    }
}

#[test]
fn how_long_is_read_as_the_tag_will_be() {
    check_until("3d", Some("2026-09-04T12:00:00Z"));
    check_until("1h30m", Some("2026-09-01T13:30:00Z"));
    check_until("2026-09-01", Some("2026-09-02T00:00:00Z"));
    check_until("2026-09-30", Some("2026-10-01T00:00:00Z"));
    check_until("2026-09-30T20:00:00+02:00", Some("2026-09-30T18:00:00Z"));
    check_until("9999-12-31", Some(Timestamp::MAX.to_string().as_str()));
}

#[test]
fn what_is_over_or_cannot_be_read_is_refused() {
    for text in ["0s", "2026-08-31", "2026-09-01T12:00:00Z", "2026-09-01T11:59:59Z", "friday", "", "3 d", "-3d", "3D"] {
        check_until(text, None);
    }
    let refused = KeepUntil::read("friday", time(NOW)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`friday` is not a duration or a date: write a duration such as `3d` or `12h`, or a date such as `2026-09-30` (to its \
         end, UTC) or a moment as RFC 3339"
    );
}

fn until(text: &str) -> KeepUntil {
    KeepUntil::read(text, time(NOW)).unwrap()
}

fn changed(seen: ObservedResource, word: KeepRequest<'_>) -> TagChange {
    change(&seen, word, time(NOW)).unwrap()
}

/// What is written or removed, and words that one note has; without words, that there is none.
fn check(given: InstanceBuilder, word: KeepRequest<'_>, expect: &str, note: &str) {
    let change = changed(ObservedResource::Instance(given.build()), word);
    let written = change.written.iter().map(|(key, value)| format!("{key}={value}"));
    let done: Vec<String> = written.chain(change.removed.iter().map(|key| format!("-{key}"))).collect();
    assert_eq!(done.join(" "), expect);
    let notes = change.notes.join("; ");
    assert!(if note.is_empty() { notes.is_empty() } else { notes.contains(note) }, "{notes:?}");
}

const ALL: KeepRequest<'_> = KeepRequest::Release { keep: true, protected: true };

#[test]
fn keeping_writes_the_tag() {
    let three = until("3d");
    let keep = KeepRequest::Keep(&three);
    let written = "curfew:keep-until=2026-09-04T12:00:00Z";
    check(instance(), keep, written, "");
    check(instance().tag(KEEP_UNTIL, "2026-09-02"), keep, written, "");
    check(instance().tag(KEEP_UNTIL, "typo"), keep, written, "");
    check(instance().tag(KEEP_UNTIL, "2026-09-30"), keep, written, "it was kept until 2026-10-01T00:00:00Z");
    check(instance().tag(KEEP_UNTIL, "2026-09-04T14:00:00+02:00"), keep, "", "");
    check(instance().tag(PROTECTED, ""), keep, written, "Curfew skips it after that date too");
}

#[test]
fn protecting_and_releasing() {
    check(instance(), KeepRequest::Protect, "curfew:protected=", "");
    check(instance().tag(PROTECTED, "yes"), KeepRequest::Protect, "", "");
    check(instance(), ALL, "", "");
    check(instance().tag(PROTECTED, "yes"), ALL, "-curfew:protected", "");
    let both = || instance().tag(PROTECTED, "yes").tag(KEEP_UNTIL, "2026-09-30");
    check(both(), ALL, "-curfew:keep-until -curfew:protected", "");
    let only_keep = KeepRequest::Release { keep: true, protected: false };
    check(both(), only_keep, "-curfew:keep-until", "still has curfew:protected");
    let only_protected = KeepRequest::Release { keep: false, protected: true };
    check(both(), only_protected, "-curfew:protected", "still kept until 2026-10-01T00:00:00Z");
}

#[test]
fn what_was_announced_is_off_or_begins_anew() {
    let marked = || instance().tag(MARKED, "idle=stop@2026-09-01T13:00:00Z");
    let three = until("3d");
    let written = "curfew:keep-until=2026-09-04T12:00:00Z";
    check(marked(), KeepRequest::Keep(&three), written, "after that date, Curfew announces it anew");
    check(marked(), KeepRequest::Protect, "curfew:protected=", "is off as long as the resource is protected");
    check(marked().tag(PROTECTED, ""), ALL, "-curfew:protected", "announced anew, with the whole grace");
}

#[test]
fn what_else_spares_it_or_keeps_it_from_starting_is_said() {
    let three = until("3d");
    let keep = KeepRequest::Keep(&three);
    let written = "curfew:keep-until=2026-09-04T12:00:00Z";
    check(instance().tag("Curfew:Protected", ""), keep, written, "Curfew:Protected= cannot be read");
    let asleep = instance().state(InstanceState::Stopped).tag(HOURS, "Mon-Fri 08:00-20:00 UTC");
    check(asleep, keep, written, "its hours do not start it");
}

fn refused(seen: ObservedResource) -> String {
    change(&seen, KeepRequest::Protect, time(NOW)).unwrap_err().to_string()
}

#[test]
fn nothing_can_be_said_of_what_is_gone_or_full() {
    assert_eq!(
        refused(ObservedResource::Instance(instance().state(InstanceState::Terminated).build())),
        "it is terminated"
    );
    let deleting = volume().with(|volume| volume.state = VolumeState::Deleting).build();
    assert_eq!(refused(ObservedResource::Volume(deleting)), "it is being deleted");
    let tags = |count: usize| (0..count).fold(instance(), |instance, number| instance.tag(&format!("k{number}"), ""));
    assert_eq!(
        change(&ObservedResource::Instance(tags(47).build()), KeepRequest::Protect, time(NOW)).unwrap().notes,
        [""; 0]
    );
    let full = tags(48).tag("aws:x", "");
    assert!(refused(ObservedResource::Instance(full.build())).starts_with("it has 50 tags"));
}

#[test]
fn only_curfews_own_snapshots_can_be_kept() {
    let snapshot = |description: &str| {
        ObservedResource::Snapshot(Snapshot {
            id: "snap-1".into(),
            region: "us-east-1".into(),
            of_volume: "vol-0abc".into(),
            state: SnapshotState::Completed,
            started_at: time(NOW),
            size_gib: 1,
            tags: Tags::from([("curfew:snapshot-of".to_owned(), "vol-0abc".to_owned())]),
            description: description.to_owned(),
        })
    };
    assert!(refused(snapshot("weekly backup")).starts_with("Curfew did not make this snapshot"));
    let own = snapshot("Curfew: vol-0abc before its deletion, by run-1");
    assert!(!changed(own, KeepRequest::Protect).is_nothing());
}

#[test]
fn whether_it_is_made_is_read_off_the_tags() {
    let change = changed(ObservedResource::Instance(instance().tag(KEEP_UNTIL, "2026-09-30").build()), ALL);
    assert!(!change.is_made_in(&instance().tag(KEEP_UNTIL, "2026-09-30").build().tags));
    assert!(change.is_made_in(&instance().build().tags));
    let change = changed(ObservedResource::Instance(instance().build()), KeepRequest::Protect);
    assert!(change.is_made_in(&instance().tag(PROTECTED, "").build().tags));
    assert!(!change.is_made_in(&instance().build().tags));
}
