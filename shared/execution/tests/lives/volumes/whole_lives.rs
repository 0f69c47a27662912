//! From the first observation to the deletion, and everything that prevents it.

use super::*;

#[test]
fn an_orphan_is_announced_snapshotted_deleted_and_restorable_for_a_month() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").run("09-01 13:00").run("09-15 11:00").run("09-15 12:00");
    assert_eq!(account.tag_of(MARKED), Some("orphaned=snapshot-and-delete@2026-09-18T12:00:00Z"));
    account.run("09-16 12:00").run("09-18 11:00").run("09-18 12:00").run("09-18 13:00");
    assert!(account.aws.storage.volumes.items.is_empty());
    account.run("09-18 14:00").run("10-18 12:00").run("10-18 13:00").run("10-18 14:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-01 13:00 skipped young
    09-15 11:00 skipped young
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-16 12:00 skipped marked
    09-18 11:00 skipped marked
    09-18 12:00 snapshot | notified
    09-18 13:00 vol-0abc delete, kept by snap-1, snap-1 skipped volume-exists | notified
    09-18 14:00 skipped restorable
    10-18 12:00 skipped restorable
    10-18 13:00 delete | notified
    10-18 14:00
    ");
}

#[test]
fn a_large_snapshot_takes_many_runs_and_none_waits_for_it() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.aws.new_snapshots = SnapshotState::Pending;
    account.run("09-01 12:00").run("09-15 12:00").run("09-18 12:00").run("09-18 13:00").run("09-19 06:00");
    account.snapshots_are(SnapshotState::Completed).run("09-19 07:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-18 12:00 snapshot | notified
    09-18 13:00 vol-0abc skipped snapshot-pending, snap-1 skipped volume-exists
    09-19 06:00 vol-0abc skipped snapshot-pending, snap-1 skipped volume-exists
    09-19 07:00 vol-0abc delete, kept by snap-1, snap-1 skipped volume-exists | notified
    ");
}

#[test]
fn a_failed_snapshot_is_notified_and_retried_a_day_later() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.aws.new_snapshots = SnapshotState::Error;
    account.run("09-01 12:00").run("09-15 12:00").run("09-18 12:00").run("09-18 13:00");
    assert!(account.messages_text[0].contains("its snapshot snap-1 failed"), "{:?}", account.messages_text);
    account.run("09-18 14:00").run("09-19 12:00").run("09-19 13:00").run("09-20 12:00");
    let newest = account.aws.storage.snapshots.last_mut().unwrap();
    newest.state = SnapshotState::Completed;
    account.run("09-20 13:00").run("09-20 14:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-18 12:00 snapshot | notified
    09-18 13:00 vol-0abc skipped snapshot-failed, snap-1 skipped volume-exists | notified
    09-18 14:00 vol-0abc skipped snapshot-failed, snap-1 skipped volume-exists
    09-19 12:00 vol-0abc snapshot, snap-1 skipped volume-exists | notified
    09-19 13:00 snap-1 delete, vol-0abc skipped snapshot-failed, snap-2 skipped volume-exists | notified
    09-20 12:00 vol-0abc snapshot, snap-2 skipped volume-exists | notified
    09-20 13:00 vol-0abc delete, kept by snap-3, snap-2 delete, snap-3 skipped volume-exists | notified
    09-20 14:00 skipped restorable
    ");
}

#[test]
fn with_zero_durations_nothing_waits() {
    let zero = "[volumes]\norphaned_after = \"0s\"\ngrace = \"0s\"\nkeep_snapshots = \"0s\"\n";
    let mut account = enforcing_account([volume()], &format!("{ENFORCED}{zero}"));
    account.run("09-01 12:00");
    assert_eq!(account.tag_of(UNATTACHED_SINCE), Some("2026-09-01T12:00:00Z"));
    account.run("09-01 12:01").run("09-01 12:02").run("09-01 12:03").run("09-01 12:04");
    assert_snapshot!(account.log, @r"
    09-01 12:00 mark orphaned=snapshot-and-delete@2026-09-01T12:00:00Z | notified
    09-01 12:01 snapshot | notified
    09-01 12:02 vol-0abc delete, kept by snap-1, snap-1 skipped volume-exists | notified
    09-01 12:03 delete | notified
    09-01 12:04
    ");
}

#[test]
fn a_reattached_volume_starts_over() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").run("09-15 12:00").attach("i-1").run("09-16 12:00");
    assert!(account.messages_text[0].contains("called off"), "{:?}", account.messages_text);
    assert_eq!((account.tag_of(MARKED), account.tag_of(UNATTACHED_SINCE)), (None, None));
    account.run("09-16 13:00").detach().run("09-17 12:00").run("09-30 12:00").run("10-01 12:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-16 12:00 unmark and forget | notified
    09-16 13:00 skipped attached
    09-17 12:00 curfew:unattached-since=2026-09-17T12:00:00Z
    09-30 12:00 skipped young
    10-01 12:00 mark orphaned=snapshot-and-delete@2026-10-04T12:00:00Z | notified
    ");
}

#[test]
fn a_snapshot_from_before_a_reattachment_proves_nothing() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").run("09-15 12:00").run("09-18 12:00").attach("i-1").run("09-18 13:00");
    account.detach().run("09-18 14:00").run("10-02 14:00").run("10-05 14:00").run("10-05 15:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-18 12:00 snapshot | notified
    09-18 13:00 vol-0abc unmark and forget, snap-1 skipped volume-exists | notified
    09-18 14:00 vol-0abc curfew:unattached-since=2026-09-18T14:00:00Z, snap-1 skipped volume-exists
    10-02 14:00 vol-0abc mark orphaned=snapshot-and-delete@2026-10-05T14:00:00Z, snap-1 skipped volume-exists | notified
    10-05 14:00 vol-0abc snapshot, snap-1 skipped volume-exists | notified
    10-05 15:00 vol-0abc delete, kept by snap-2, snap-1 skipped volume-exists, snap-2 skipped volume-exists | notified
    ");
}

#[test]
fn use_between_two_runs_restarts_the_time() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00");
    account.used.insert("vol-0abc".into(), time("2026-09-10T03:00:00Z"));
    account.run("09-15 12:00").run("09-15 13:00").run("09-29 13:00");
    account.used.insert("vol-0abc".into(), time("2026-09-30T03:00:00Z"));
    account.run("09-30 13:00").run("09-30 14:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 unmark and forget
    09-15 13:00 curfew:unattached-since=2026-09-15T12:00:00Z
    09-29 13:00 mark orphaned=snapshot-and-delete@2026-10-02T13:00:00Z | notified
    09-30 13:00 unmark and forget | notified
    09-30 14:00 curfew:unattached-since=2026-09-30T13:00:00Z
    ");
}

#[test]
fn without_cloudwatch_nothing_is_acted_on_or_forgotten() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00");
    account.answers = false;
    account.run("09-15 12:00");
    account.answers = true;
    account.run("09-15 13:00");
    account.answers = false;
    account.run("09-18 13:00");
    account.answers = true;
    account.run("09-18 14:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 skipped usage-unknown
    09-15 13:00 mark orphaned=snapshot-and-delete@2026-09-18T13:00:00Z | notified
    09-18 13:00 skipped marked
    09-18 14:00 snapshot | notified
    ");
}

#[test]
fn deleted_without_a_snapshot_if_so_configured() {
    let mut account = enforcing_account([volume()], &format!("{ENFORCED}[volumes]\naction = \"delete\""));
    account.run("09-01 12:00").run("09-15 12:00");
    let first_line = account.messages_text[0].lines().next().unwrap().to_owned();
    assert!(first_line.starts_with("Will lose: vol-0abc (500 GiB, without a snapshot). Curfew "), "{first_line}");
    account.run("09-18 12:00");
    assert!(!account.messages_text[0].contains("Undo"), "{:?}", account.messages_text);
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=delete@2026-09-18T12:00:00Z | notified
    09-18 12:00 delete | notified
    ");
}

#[test]
fn a_milder_announcement_is_repeated() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").run("09-15 12:00").config(&format!("{ENFORCED}[volumes]\naction = \"delete\""));
    account.run("09-18 12:00").config(ENFORCED).run("09-21 12:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z | notified
    09-18 12:00 mark orphaned=delete@2026-09-21T12:00:00Z | notified
    09-21 12:00 snapshot | notified
    ");
}

#[test]
fn notify_says_so_once() {
    let mut account = enforcing_account([volume()], &format!("{ENFORCED}[volumes]\naction = \"notify\""));
    account.run("09-01 12:00").run("09-15 12:00").run("09-15 13:00").run("09-20 12:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-15 12:00 notify | notified
    09-15 13:00 skipped notified
    09-20 12:00 skipped notified
    ");
}

#[test]
fn observe_mode_remembers_and_notifies_and_writes_nothing() {
    let mut account = enforcing_account([volume()], "");
    account.run("09-01 12:00").run("09-15 12:00");
    assert!(
        account.messages_text[0].contains("would be snapshotted and deleted at 2026-09-18T12:00:00Z"),
        "{:?}",
        account.messages_text
    );
    account.run("09-15 13:00").run("09-18 12:00").run("09-18 13:00");
    assert_eq!(account.aws.storage, self::enforcing_account([volume()], "").aws.storage);
    account.attach("i-1").run("09-19 12:00").detach().run("09-19 13:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 skipped young
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z (Observed) | notified
    09-15 13:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z (Observed)
    09-18 12:00 snapshot (Observed) | notified
    09-18 13:00 snapshot (Observed)
    09-19 12:00 unmark (Observed) | notified
    09-19 13:00 skipped young
    ");
}

#[test]
fn an_observed_violation_is_announced_again_once_enforced() {
    let mut account = enforcing_account([volume()], "");
    account.run("09-01 12:00").run("09-15 12:00").config(ENFORCED).run("09-16 12:00").run("09-18 12:00");
    account.run("09-19 12:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 skipped young
    09-15 12:00 mark orphaned=snapshot-and-delete@2026-09-18T12:00:00Z (Observed) | notified
    09-16 12:00 mark orphaned=snapshot-and-delete@2026-09-19T12:00:00Z | notified
    09-18 12:00 skipped marked
    09-19 12:00 snapshot | notified
    ");
}

#[test]
fn a_label_that_could_not_be_removed_while_attached_means_nothing() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").config("").attach("i-1").run("09-14 12:00").detach().run("09-14 13:00");
    account.config(ENFORCED).run("09-15 12:00").run("09-28 11:00").run("09-28 13:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z
    09-14 12:00 skipped attached
    09-14 13:00 skipped young
    09-15 12:00 curfew:unattached-since=2026-09-14T13:00:00Z
    09-28 11:00 skipped young
    09-28 13:00 mark orphaned=snapshot-and-delete@2026-10-01T13:00:00Z | notified
    ");
}

#[test]
fn deletions_above_the_limits_are_held_and_snapshots_are_not() {
    let volumes = (0..11).map(|number| volume().id(&format!("vol-{number:02}")));
    let account = enforcing_account(volumes, &format!("{ENFORCED}[limits]\nfleet_share_max_percent = 100\n"));
    let mut account = account.unattached_since("2026-08-01T12:00:00Z");
    account.run("09-01 12:00").run("09-04 12:00").run("09-04 13:00");
    assert_eq!(account.aws.storage.snapshots.len(), 11);
    assert_eq!(account.aws.storage.volumes.items.len(), 11);
    assert!(account.messages_text[0].contains("11 of 11 volumes"), "{:?}", account.messages_text);
    account.run("09-04 14:00");
    assert_eq!(account.aws.storage.snapshots.len(), 11);
}

#[test]
fn the_message_of_a_deletion_has_the_command_that_undoes_it() {
    let mut account = enforcing_account(
        [volume().tag("Name", "Ada's \"scratch\" ü").tag("aws:x", "y").tag("curfew:mode", "enforce")],
        "",
    );
    account.run("09-01 12:00").run("09-15 12:00").run("09-18 12:00").run("09-18 13:00");
    let undo = account.messages_text[0].split_once("Undo").unwrap().1.lines().next().unwrap().to_owned();
    assert_snapshot!(undo, @r#" until 2026-10-18T13:00:00Z: aws ec2 create-volume --region us-east-1 --availability-zone us-east-1a --snapshot-id snap-1 --volume-type gp3 --size 500 --iops 3000 --throughput 125 --tag-specifications '[{"ResourceType":"volume","Tags":[{"Key":"Name","Value":"Ada'\''s \"scratch\" \u00fc"},{"Key":"Owner","Value":"ada"},{"Key":"Team","Value":"vision"},{"Key":"curfew:mode","Value":"enforce"}]}]'"#);
}
