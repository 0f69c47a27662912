use insta::assert_snapshot;
use model::fixture::{NOW, file_system, time};
use model::notification_log::NotificationEntry;
use model::usage::Sample;

use super::*;
use crate::fixture::enforcing;

const HOURS: i64 = 14 * 24;

/// One sample of each of the last hours of the window that ends before noon.
fn hourly(hours: i64, value: f64) -> Vec<Sample> {
    let end = time("2026-09-01T11:00:00Z");
    (1..=hours).map(|hour| (end - long_window::HOUR * i32::try_from(hour).unwrap(), value)).collect()
}

fn judged(read: Vec<Sample>, written: Vec<Sample>, listed: Vec<Sample>) -> FileSystemUse {
    let signals = FileSystemSignal::ALL.into_iter().zip([read, written, listed]).collect();
    let answers = ActivitySamples::from([(file_system().id, signals)]);
    evaluate(&file_system(), &answers, &enforcing(""), time(NOW))
}

fn idle() -> FileSystemUse {
    FileSystemUse::Idle { from: time("2026-08-18T11:00:00Z"), to: time("2026-09-01T11:00:00Z") }
}

#[test]
fn only_what_reports_and_moves_nothing_is_idle() {
    let quiet = || hourly(HOURS, 0.0);
    assert_eq!(judged(quiet(), quiet(), quiet()), idle());
    for busy in 0..3 {
        let mut samples = [quiet(), quiet(), quiet()];
        samples[busy][100].1 = 1.0;
        let [read, written, listed] = samples;
        assert_eq!(judged(read, written, listed), FileSystemUse::Used);
    }
    assert_eq!(judged(Vec::new(), Vec::new(), Vec::new()), FileSystemUse::Unknown);
    assert_eq!(judged(quiet(), hourly(302, 0.0), quiet()), FileSystemUse::Unknown);
    assert_eq!(judged(quiet(), hourly(303, 0.0), quiet()), idle());
    assert_eq!(judged(quiet(), hourly(HOURS, -1.0), quiet()), FileSystemUse::Unknown);
    assert_eq!(judged(quiet(), hourly(HOURS, f64::NAN), quiet()), FileSystemUse::Unknown);
    // One use shows, whatever else is missing.
    assert_eq!(judged(hourly(1, 4096.0), Vec::new(), Vec::new()), FileSystemUse::Used);
    let none = evaluate(&file_system(), &ActivitySamples::new(), &enforcing(""), time(NOW));
    assert_eq!(none, FileSystemUse::Unknown);
}

#[test]
fn a_run_asks_once_a_day_and_a_scan_always() {
    let asked = |of: &LustreFileSystem, config: &str, inquiry, now: &str| {
        questions(of, &enforcing(config), inquiry, time(now)).len()
    };
    let one = file_system();
    assert_eq!(asked(&one, "", Inquiry::OfRun, "2026-09-01T12:44:00Z"), 3);
    assert_eq!(asked(&one, "", Inquiry::OfRun, "2026-09-01T13:44:00Z"), 0);
    assert_eq!(asked(&one, "", Inquiry::OfScan, "2026-09-01T13:44:00Z"), 3);
    assert_eq!(asked(&one, "[file_systems]\nidle_after = \"0s\"", Inquiry::OfScan, NOW), 0);
    let young = LustreFileSystem { created_at: time("2026-08-20T12:00:00Z"), ..one.clone() };
    assert_eq!(asked(&young, "", Inquiry::OfScan, NOW), 0);
    let mut protected = one;
    protected.tags.insert(PROTECTED.to_owned(), String::new());
    assert_eq!(asked(&protected, "", Inquiry::OfScan, NOW), 0);
}

fn decided(of: &LustreFileSystem, usage: FileSystemUse, was_notified: bool) -> Skipped {
    let entry = NotificationEntry::new(time(NOW), "2026-08-01T12:20:00Z");
    let notified = was_notified.then(|| (FindingKind::IdleFileSystem.key(), entry));
    let record = ResourceRecord { notified: notified.into_iter().collect(), ..ResourceRecord::about(of.created_at) };
    let log = NotificationLog { resources: [(of.id.clone(), record)].into(), ..NotificationLog::default() };
    let memory = NotificationLogs::from([(of.region.clone(), log)]);
    let uses = FileSystemUses::from([((of.region.clone(), of.id.clone()), usage)]);
    decide(std::slice::from_ref(of), &uses, &memory, &enforcing(""), time(NOW)).remove(0)
}

#[test]
fn its_owner_learns_once_what_it_costs_and_how_to_end_that() {
    let found = decided(&file_system(), idle(), false);
    let finding = found.finding.unwrap();
    assert_eq!((found.reason, finding.what.as_str()), (SkipReason::Notified, "2026-08-01T12:20:00Z"));
    assert_eq!(found.memory.active_keys, [FindingKind::IdleFileSystem.key()]);
    assert_snapshot!(finding.text, @"no client read, wrote or listed anything from 2026-08-18T11:00:00Z to 2026-09-01T11:00:00Z. If nothing needs its files, which go with it unless they are in S3: `aws fsx delete-file-system --region us-east-1 --file-system-id fs-0abc`. It costs $174.00 a month (table of 2026-11-29)");
    assert!(found.left_cost.is_some_and(|cost| cost.price.is_some() && cost.waste.is_some()));
    // Between two queries it is as idle as it was; a use takes that back.
    let between = decided(&file_system(), FileSystemUse::Unknown, true);
    assert_eq!((between.reason, between.finding, between.left_cost.is_some()), (SkipReason::Notified, None, true));
    assert_eq!(between.memory.active_keys, [FindingKind::IdleFileSystem.key()]);
    let used = decided(&file_system(), FileSystemUse::Used, true);
    assert_eq!((used.reason, used.memory.active_keys, used.left_cost), (SkipReason::Busy, Vec::new(), None));
    let unknown = decided(&file_system(), FileSystemUse::Unknown, false);
    assert_eq!((unknown.reason, unknown.finding, unknown.left_cost), (SkipReason::UsageUnknown, None, None));
}

#[test]
fn tags_of_its_owner_skip_it() {
    let tagged = |key: &str, value: &str| {
        let mut tagged = file_system();
        tagged.tags.insert(key.to_owned(), value.to_owned());
        let uses = FileSystemUses::from([((tagged.region.clone(), tagged.id.clone()), idle())]);
        let scanned = scan(std::slice::from_ref(&tagged), &uses, &enforcing(""), time(NOW));
        (decided(&tagged, idle(), false).reason, scanned.items.len())
    };
    assert_eq!(tagged("curfew:protected", ""), (SkipReason::Protected, 0));
    assert_eq!(tagged("curfew:keep-until", "2026-09-30"), (SkipReason::Kept, 0));
    assert_eq!(tagged("curfew:keep-until", "2026-08-30"), (SkipReason::Notified, 1));
}
