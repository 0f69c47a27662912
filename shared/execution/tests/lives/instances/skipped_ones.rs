use super::*;

#[test]
fn foreign_owned_is_notified_once_and_never_marked() {
    let mut account = enforcing_account(instance().tag("aws:autoscaling:groupName", "workers"), ENFORCED);
    account.run("01 12:00").run("01 13:00").run("02 14:00");
    account.all_are(&unknown()).run("02 14:05").all_are(&idle()).run("02 14:10");
    account.all_are(&busy()).run("02 14:15").all_are(&idle()).run("02 16:00");
    assert_eq!(account.tag_of(MARKED), None);
    assert_snapshot!(account.log, @"
    01 12:00 skipped foreign-owned | notified vision (info)
    01 13:00 skipped foreign-owned
    02 14:00 skipped foreign-owned
    02 14:05 skipped foreign-owned
    02 14:10 skipped foreign-owned
    02 14:15 skipped foreign-owned
    02 16:00 skipped foreign-owned | notified vision (info)
    ");
}

#[test]
fn an_unreadable_tag_is_notified_once_and_again_when_it_changes() {
    let mut account = enforcing_account(instance().tag("curfew:idle-after", "soon"), ENFORCED);
    account.run("01 12:00").run("01 13:00").run("03 13:00");
    account.tag("curfew:idle-after", "later").run("03 13:05").run("03 13:10");
    account.tag("curfew:idle-after", "1h").run("03 13:15");
    assert_snapshot!(account.log, @"
    01 12:00 skipped unreadable | notified vision (warning)
    01 13:00 skipped unreadable
    03 13:00 skipped unreadable
    03 13:05 skipped unreadable | notified vision (warning)
    03 13:10 skipped unreadable
    03 13:15 mark idle=stop@03T14:15 | notified vision (warning)
    ");
}

#[test]
fn protected_and_kept_volumes_are_skipped_silently() {
    let expired = || instance().tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    let mut account = fleet(
        [
            expired().id("i-1").tag("curfew:protected", ""),
            expired().id("i-2").tag("curfew:keep-until", "2026-09-01"),
            expired().id("i-3").tag("Curfew:Protected", ""),
        ],
        ENFORCED,
    );
    account.run("01 12:00").run("01 23:55").run("02 00:00");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 skipped protected, i-2 skipped kept, i-3 skipped unreadable | notified vision (warning)
    01 23:55 i-1 skipped protected, i-2 skipped kept, i-3 skipped unreadable
    02 00:00 i-2 mark expired=stop@02T00:15 idle=stop@02T01:00, i-1 skipped protected, i-3 skipped unreadable | notified vision (warning)
    ");
}

#[test]
fn an_uninstrumented_gpu_is_notified_once_even_beside_another_finding() {
    let mut alone = enforcing_account(instance(), ENFORCED);
    alone.all_are(&unknown()).run("01 12:00").run("01 12:05").run("02 13:00");
    assert_snapshot!(alone.log, @"
    01 12:00 skipped usage-unknown | notified vision (info)
    01 12:05 skipped usage-unknown
    02 13:00 skipped usage-unknown
    ");
    let mut old = enforcing_account(instance(), "mode = \"enforce\"\n[lifetime]\nmax = \"1h\"");
    old.all_are(&unknown()).run("01 12:00").run("01 12:05").run("01 12:10");
    assert_snapshot!(old.log, @"
    01 12:00 notify lifetime, Configured | notified vision (warning)
    01 12:05 skipped notified
    01 12:10 skipped notified
    ");
}
