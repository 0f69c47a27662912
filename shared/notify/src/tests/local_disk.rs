//! The choice of `local_disk`, which is asked once.

use model::config::Config;
use reaping::instances::withheld_without_choice;

use super::*;

fn scratch() -> InstanceBuilder {
    instance().instance_storage(250)
}

/// The notification of a run over one idle instance.
fn asked(builder: InstanceBuilder, config: &str, memory: &NotificationLogs) -> Option<Notification> {
    let steps: Vec<Step> = planned(builder, &idle(), config).steps.into_iter().map(|(step, _)| step).collect();
    let config = Config::read(config).unwrap();
    local_disk_notification(&withheld_without_choice(&steps, &config), &home(), memory, time(NOW))
}

#[test]
fn only_a_choice_that_nobody_has_made_is_asked() {
    let is_asked = |builder, config: &str| asked(builder, config, &no_memory()).is_some();
    assert!(is_asked(scratch(), ENFORCED) && is_asked(scratch(), ""));
    assert!(!is_asked(instance(), ENFORCED), "without NVMe storage nothing is withheld");
    assert!(!is_asked(scratch().tag("curfew:local-disk", "keep"), ENFORCED));
    for chosen in
        ["[idle]\nlocal_disk = \"keep\"", "[idle]\nlocal_disk = \"24h\"", "[teams.vision]\nlocal_disk = \"keep\""]
    {
        assert!(!is_asked(scratch(), chosen), "{chosen}");
    }
    assert!(is_asked(scratch(), "[teams.nlp]\nlocal_disk = \"24h\""));
    assert!(!is_asked(scratch(), "[idle]\naction = \"notify\""));
}

#[test]
fn it_says_what_the_choice_withholds_and_comes_last() {
    let report = done(scratch(), &idle(), ENFORCED);
    let choice = asked(scratch(), ENFORCED, &no_memory()).unwrap();
    assert_snapshot!(choice.text.to_string(), @r#"Curfew only notifies of 1 idle instance, which costs $1.01/h ($734 a month; table of 2026-09-24), because a stop would erase its NVMe storage and nobody has chosen whether it may. Choose local_disk in [idle] of the configuration, or for a team: "keep" leaves such instances running; "24h" allows a stop a day after the announcement of what is lost; "expendable" allows it after the usual grace. Curfew says this once a week, until it is chosen."#);
    let all: Vec<Notification> = [choice]
        .into_iter()
        .chain(notify(&report))
        .map(|one| Notification { team: NO_TEAM.to_owned(), ..one })
        .collect();
    let sent = messages(&report, &all, &no_memory(), &[Audience::Team], None).remove(0);
    let paragraphs: Vec<&str> = sent.body.split("\n\n").collect();
    let place = |words: &str| paragraphs.iter().rposition(|paragraph| paragraph.contains(words));
    assert!(place("NVMe instance storage") < place("Choose local_disk"), "{paragraphs:?}");
    assert!(place("Choose local_disk").is_some() && place("i-0abc").is_some(), "{paragraphs:?}");
}

#[test]
fn it_is_said_once_a_week() {
    let report = planned(scratch(), &idle(), ENFORCED);
    let choice = [asked(scratch(), ENFORCED, &no_memory()).unwrap()];
    let delivery = once::deliver(&report, &choice, &no_memory(), &[]);
    let mut memory = update_log(&no_memory(), &report, &choice, &[], &delivery, None, time(NOW));
    for day in 1..=7 {
        assert_eq!(asked(scratch(), ENFORCED, &memory), None, "day {day}");
        let now = time(NOW) + SignedDuration::from_hours(24 * day);
        memory = update_log(&memory, &report, &[], &[], &delivery, None, now);
    }
    assert!(asked(scratch(), ENFORCED, &memory).is_some());
}
