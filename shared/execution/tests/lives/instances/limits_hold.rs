use super::*;

fn many(count: usize, working: usize, config: &str) -> Account {
    let id = |place: usize| format!("i-{place:03}");
    let mut account = fleet((0..count + working).map(|place| instance().id(&id(place))), config);
    for place in count..count + working {
        account.usages.insert(id(place).as_str().into(), busy());
    }
    account
}

/// How many of the steps of a run at 13:00 are held, and how many done; all were marked at noon.
fn check(account: &mut Account, expect: (usize, usize)) {
    account.run("01 12:00");
    account.log.clear();
    account.run("01 13:00");
    let count = |what: &str| account.log.matches(what).count();
    assert_eq!((count("stop for idle (not reached)"), count("stop for idle,")), expect, "{}", account.log);
}

#[test]
fn above_either_limit_no_instance_is_stopped() {
    check(&mut many(10, 90, ENFORCED), (0, 9));
    check(&mut many(11, 90, ENFORCED), (11, 0));
    check(&mut many(2, 8, ENFORCED), (0, 1));
    check(&mut many(3, 7, ENFORCED), (3, 0));
    check(&mut many(9, 0, ENFORCED), (0, 8));
    check(&mut many(1, 0, "mode = \"enforce\"\n[limits]\nactions_max = 0"), (1, 0));
}

#[test]
fn held_actions_are_notified_once_a_day_until_the_limit_is_raised() {
    let small = "mode = \"enforce\"\n[limits]\nactions_max = 1\n";
    let mut account = many(2, 0, small);
    account.run("01 12:00").run("01 13:00").run("01 13:05").run("02 12:55").run("02 13:00");
    account.config("mode = \"enforce\"\n[limits]\nactions_max = 2\n").run("02 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 i-000 mark idle=stop@01T13:00, i-001 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 i-000 stop for idle (not reached), i-001 stop for idle (not reached) | notified vision (error)
    01 13:05 i-000 stop for idle (not reached), i-001 stop for idle (not reached)
    02 12:55 i-000 stop for idle (not reached), i-001 stop for idle (not reached)
    02 13:00 i-000 stop for idle (not reached), i-001 stop for idle (not reached) | notified vision (error)
    02 13:05 i-000 stop for idle, i-001 stop for idle | notified vision (action)
    ");
}

#[test]
fn deadlines_of_owners_are_neither_counted_nor_held() {
    let mut account = many(3, 0, "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
    account.run("01 12:00");
    account.aws.instances[0].tags.insert("curfew:expires-at".to_owned(), "2026-09-01T12:30:00Z".to_owned());
    account.run("01 12:05").run("01 13:00");
    assert_snapshot!(account.log, @"
    01 12:00 i-000 mark idle=stop@01T13:00, i-001 mark idle=stop@01T13:00, i-002 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 i-000 skipped marked, i-001 skipped marked, i-002 skipped marked
    01 13:00 i-000 stop for expired, i-001 stop for idle (not reached), i-002 stop for idle (not reached) | notified vision (error)
    ");
}

#[test]
fn a_held_action_does_not_hide_the_owners_own_deadline() {
    let mut account =
        enforcing_account(instance().tag("curfew:hours", OFFICE), "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
    account.run("01 18:00").run("01 19:00").run("01 19:30").run("01 19:35").run("01 20:00");
    assert_snapshot!(account.log, @"
    01 18:00 mark idle=stop@01T19:00 | notified vision (warning)
    01 19:00 stop for idle (not reached) | notified vision (error)
    01 19:30 mark idle=stop@01T19:00 hours=stop@01T20:00 | notified vision (warning)
    01 19:35 stop for idle (not reached)
    01 20:00 stop for hours | notified vision (info)
    ");
}

#[test]
fn a_held_action_does_not_prevent_another_withdrawal() {
    let both =
        "mode = \"enforce\"\n[lifetime]\naction = \"stop\"\nmax = \"1d\"\ngrace = \"1h\"\n[limits]\nactions_max = 0";
    let mut account = enforcing_account(instance(), both);
    account.run("01 12:05").run("01 13:05");
    account.tag("curfew:expires-at", "2026-09-02T12:00:00Z").run("01 13:10").run("01 13:15");
    assert_eq!(account.tag_of(MARKED), Some("idle=stop@2026-09-01T13:05:00Z"));
    assert_snapshot!(account.log, @"
    01 12:05 mark idle=stop@01T13:05 lifetime=stop@01T13:05 | notified vision (warning)
    01 13:05 stop for idle (not reached) | notified vision (error)
    01 13:10 unmark lifetime leaving idle=stop@01T13:05 | notified vision (info)
    01 13:15 stop for idle (not reached)
    ");
}
