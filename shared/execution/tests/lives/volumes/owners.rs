//! Who owns a volume, and so which mode applies.

use super::*;

fn host(id: &str, tags: &[(&str, &str)]) -> VolumeHost {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    VolumeHost { id: id.into(), region: "us-east-1".into(), tags, stopped: false, stopped_at: None }
}

fn team(account: &Account) -> String {
    let plan = decide(
        &account.aws.storage,
        &account.uses(),
        &account.live_jobs,
        &account.aws.memory,
        &account.policy,
        account.aws.now,
    );
    let targets = plan.steps.iter().map(|step| &step.target).chain(plan.skipped.iter().map(|skipped| &skipped.target));
    let team = |target: &Target| target.team.as_ref().map_or("none", |team| team.as_str()).to_owned();
    targets.map(team).collect::<Vec<_>>().join(" ")
}

const VISION: [(&str, &str); 2] = [("Team", "vision"), ("Owner", "ada")];

#[test]
fn it_belongs_to_the_owner_of_its_last_instance_even_if_that_is_gone() {
    let mut account = enforcing_account([volume().untagged().on("i-1")], "[teams.vision]\nmode = \"enforce\"\n");
    account.aws.storage.hosts = vec![host("i-1", &VISION)];
    account.run("09-01 12:00");
    assert_eq!(team(&account), "vision");
    account.aws.storage.hosts.clear();
    account.detach().run("09-02 12:00").run("09-16 12:00");
    assert_eq!(team(&account), "vision");
    assert!(account.messages_text[0].contains("last attached to i-1"), "{:?}", account.messages_text);
    account.run("09-19 12:00").run("09-19 13:00").run("10-19 14:00");
    assert!(account.messages_text[0].contains("owner \"ada\""), "{:?}", account.messages_text);
    assert_snapshot!(account.log, @r"
    09-01 12:00 skipped attached
    09-02 12:00 curfew:unattached-since=2026-09-02T12:00:00Z
    09-16 12:00 mark orphaned=snapshot-and-delete@2026-09-19T12:00:00Z | notified
    09-19 12:00 snapshot | notified
    09-19 13:00 vol-0abc delete, kept by snap-1, snap-1 skipped volume-exists | notified
    10-19 14:00 delete | notified
    ");
}

#[test]
fn its_own_tags_come_first_then_its_instance_then_its_source() {
    let mut account = enforcing_account([volume().tag("Owner", " ").on("i-1")], ENFORCED);
    account.volume().from_snapshot = Some("snap-9".into());
    account.aws.storage.sources =
        BTreeMap::from([("snap-9".into(), host("", &[("Team", "platform"), ("Owner", "bo")]).tags)]);
    account.aws.storage.hosts = vec![host("i-1", &[("Team", "audio")])];
    assert_eq!(team(&account), "vision");
    account.volume().tags.clear();
    assert_eq!(team(&account), "audio");
    account.aws.storage.hosts.clear();
    assert_eq!(team(&account), "platform");
    account.aws.storage.sources.clear();
    assert_eq!(team(&account), "none");
}

#[test]
fn a_volume_without_owner_has_the_mode_of_untagged_ones() {
    for (config, expect) in [
        (ENFORCED, "09-01 12:00 skipped young\n"),
        ("[untagged]\nmode = \"enforce\"\n", "09-01 12:00 curfew:unattached-since=2026-09-01T12:00:00Z\n"),
    ] {
        let mut account = enforcing_account([volume().untagged()], config);
        account.run("09-01 12:00");
        assert_eq!(account.log, expect, "{config}");
    }
}

#[test]
fn only_snapshots_that_may_name_the_owner_are_read() {
    let config = Config::default();
    assert!(wants_its_source(&volume().untagged().build(), &config));
    assert!(wants_its_source(&volume().tag("Owner", "").build(), &config));
    assert!(!wants_its_source(&volume().build(), &config));
    assert!(!wants_its_source(&volume().untagged().on("i-1").build(), &config));
}

#[test]
fn the_details_of_a_volume_in_quiet_use_are_not_kept() {
    let config = Config::default();
    let check = |volume: VolumeBuilder, host: VolumeHost, memory: &NotificationLogs, expect: bool| {
        let hosts = BTreeMap::from([(host.id.clone(), host)]);
        assert_eq!(is_of_interest(&volume.build(), &hosts, memory, &config), expect);
    };
    let nothing = NotificationLogs::new();
    let vision = || host("i-1", &VISION);
    check(volume().on("i-1"), vision(), &nothing, false);
    check(volume().untagged().on("i-1"), host("i-1", &[("Name", "x")]), &nothing, false);
    check(volume().untagged().on("i-1"), vision(), &nothing, true);
    check(volume().on("i-1"), VolumeHost { stopped: true, ..vision() }, &nothing, true);
    check(volume().tag(" Curfew:x", "").on("i-1"), vision(), &nothing, true);
    check(volume(), vision(), &nothing, true);
    check(volume().on("i-1").with(|volume| volume.state = VolumeState::Available), vision(), &nothing, true);
    let mut told = NotificationLog::default();
    told.resources.insert("vol-0abc".into(), ResourceRecord::about(time(NOW)));
    check(volume().on("i-1"), vision(), &NotificationLogs::from([("us-east-1".into(), told)]), true);
}

#[test]
fn the_snapshot_names_the_owner_of_a_deleted_volume() {
    let orphan = volume().untagged().with(|volume| {
        volume.from_snapshot = Some("snap-9".into());
    });
    let account = enforcing_account([orphan], "[teams.vision]\nmode = \"enforce\"\n");
    let mut account = account.unattached_since("2026-08-01T12:00:00Z");
    account.aws.storage.sources = BTreeMap::from([("snap-9".into(), host("", &VISION).tags)]);
    account.run("09-01 12:00").run("09-04 12:00").run("09-04 13:00");
    account.aws.storage.sources.clear();
    account.run("10-04 14:00");
    assert!(
        account.messages_text[0].contains("team vision") || account.messages_text[0].contains("owner \"ada\""),
        "{:?}",
        account.messages_text
    );
    assert_eq!(account.aws.storage.snapshots, []);
}
