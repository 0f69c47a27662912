//! The state machine over several runs: what is marked, ended, told and remembered from one run to the next.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use insta::assert_snapshot;
use jiff::SignedDuration;

use super::*;
use crate::config::Config;
use crate::fixture::{InstanceBuilder, NOW, busy, enforcing, idle, instance, reserved, time, unknown, untagged};
use crate::instance::Purchase;
use crate::mark::Announced;
use crate::news::{NewsKind, late_news, messages, news, remember};
use crate::observed::{Gap, GapKind};
use crate::report::{Outcome, OutcomeKind, Report};
use crate::vocabulary::{MARKED, STOPPED};

const ENFORCED: &str = "mode = \"enforce\"\n";
const UNTAGGED_ENFORCED: &str = "[untagged]\nmode = \"enforce\"\n";
const OFFICE: &str = "Mon-Fri 08:00-20:00 UTC";

/// An account that runs are made over, with a log of what each run did and told.
struct Account {
    instances: Vec<Instance>,
    usages: BTreeMap<ResourceId, Usage>,
    memory: Memory,
    policy: Policy,
    now: Timestamp,
    /// Teams whose messages SNS does not take.
    deaf: BTreeSet<&'static str>,
    /// What AWS answers to every write, where it refuses them.
    refuses: Option<&'static str>,
    gaps: Vec<Gap>,
    log: String,
}

/// One instance of the configuration, idle.
fn account(of: InstanceBuilder, config: &str) -> Account {
    fleet([of], config)
}

fn fleet(of: impl IntoIterator<Item = InstanceBuilder>, config: &str) -> Account {
    let mut account = Account {
        instances: of.into_iter().map(InstanceBuilder::build).collect(),
        usages: BTreeMap::new(),
        memory: Memory::from([("us-east-1".into(), Notices::default())]),
        policy: enforcing(config),
        now: time(NOW),
        deaf: BTreeSet::new(),
        refuses: None,
        gaps: Vec::new(),
        log: String::new(),
    };
    account.all_are(&idle());
    account
}

impl Account {
    fn all_are(&mut self, usage: &Usage) -> &mut Self {
        self.usages = self.instances.iter().map(|instance| (instance.id.clone(), usage.clone())).collect();
        self
    }

    fn tag(&mut self, key: &str, value: &str) -> &mut Self {
        for instance in &mut self.instances {
            instance.tags.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    fn state(&mut self, state: State) -> &mut Self {
        for instance in &mut self.instances {
            instance.state = state;
        }
        self
    }

    fn config(&mut self, text: &str) -> &mut Self {
        self.policy.config = Config::read(text).unwrap();
        self
    }

    fn tag_of(&self, key: &str) -> Option<&str> {
        self.instances[0].tags.get(key).map(String::as_str)
    }

    /// One run at `day hour:minute` of September 2026: decide, act, tell, mark, remember.
    fn run(&mut self, at: &str) -> &mut Self {
        let (day, clock) = at.split_once(' ').unwrap();
        self.now = time(&format!("2026-09-{day}T{clock}:00Z"));
        let seen = Observed { items: self.instances.clone(), gaps: self.gaps.clone() };
        let plan = decide(&seen, &self.usages, &self.memory, &self.policy, self.now);
        let home = Region::from("us-east-1");
        let mut report =
            Report::of(plan, "reap-instances", "run-1".into(), self.now, self.policy.ceiling, vec![home.clone()]);
        self.act(&mut report, |step| !matches!(step.action, Action::Mark(_)));
        let news = news(&report, &self.memory, &home, self.now);
        let messages = messages(&report, &news, &self.memory);
        let taken = messages.into_iter().filter(|message| !self.deaf.contains(message.team.as_str()));
        let delivered: BTreeMap<String, &str> = taken.map(|message| (message.team, message.severity)).collect();
        let heard = |step: &Step| {
            let team = step.target.team.as_ref().map_or("untagged", |team| team.as_str());
            matches!(step.action, Action::Mark(_)) && (step.told_before || delivered.contains_key(team))
        };
        self.act(&mut report, heard);
        let late = late_news(&report, &news, &self.memory, &home, self.now);
        let teams = delivered.keys().cloned().collect();
        self.memory = remember(&self.memory, &report, &news, &late, &teams, self.now);
        self.write_down(at, &report, &delivered);
        self
    }

    fn act(&mut self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        for (step, outcome) in report.steps.iter_mut().filter(|(step, _)| wanted(step)) {
            *outcome = match (step.held, step.mode, self.refuses) {
                (Some(held), ..) => Outcome::with(OutcomeKind::NotReached, held.to_string()),
                (None, Mode::Observe, _) => Outcome::of(OutcomeKind::Observed),
                (None, Mode::Enforce, Some(error)) if step.action != Action::Notify => {
                    Outcome::with(OutcomeKind::Failed, error)
                }
                (None, Mode::Enforce, _) => {
                    self.write(step);
                    Outcome::of(OutcomeKind::Done)
                }
            };
        }
    }

    /// What EC2 holds after a step was done.
    fn write(&mut self, step: &Step) {
        let place = self.instances.iter().position(|instance| instance.id == step.target.resource).unwrap();
        let instance = &mut self.instances[place];
        match &step.action {
            Action::Notify => {}
            Action::Mark(mark) => drop(instance.tags.insert(MARKED.to_owned(), mark.to_string())),
            Action::Unmark { remaining, clear_stopped } => {
                instance.tags.remove(MARKED);
                instance.tags.extend(remaining.iter().map(|mark| (MARKED.to_owned(), mark.to_string())));
                if *clear_stopped {
                    instance.tags.remove(STOPPED);
                }
            }
            Action::Stop { stopped, .. } => {
                instance.state = State::Stopped;
                instance.tags.remove(MARKED);
                instance.tags.insert(STOPPED.to_owned(), stopped.clone());
            }
            Action::Terminate { .. } => drop(self.instances.remove(place)),
            Action::Start => {
                instance.state = State::Running;
                instance.launched_at = self.now;
            }
        }
    }

    /// `01 12:00 mark idle=stop@01T13:00 | told vision (warning)`; ids only in a fleet.
    fn write_down(&mut self, at: &str, report: &Report, delivered: &BTreeMap<String, &str>) {
        let mut did: Vec<String> = Vec::new();
        let alone = report.seen == 1;
        let who = |target: &Target| if alone { String::new() } else { format!("{} ", target.resource) };
        for (step, outcome) in &report.steps {
            did.push(format!("{}{}{}", who(&step.target), show(step), show_outcome(outcome.kind)));
        }
        for spared in report.spared.iter().filter(|_| report.seen < 5) {
            let because = serde_json::to_value(spared.because).unwrap();
            did.push(format!("{}spared {}", who(&spared.target), because.as_str().unwrap()));
        }
        let told: Vec<String> = delivered.iter().map(|(team, severity)| format!("{team} ({severity})")).collect();
        let told = if told.is_empty() { String::new() } else { format!(" | told {}", told.join(", ")) };
        let _ = writeln!(self.log, "{at} {}{told}", did.join(", "));
    }
}

fn show(step: &Step) -> String {
    let rule = step.because.rule();
    match &step.action {
        Action::Mark(mark) => format!("mark{}", show_mark(mark)),
        Action::Unmark { remaining, clear_stopped } => {
            let remaining = remaining.as_ref().map(|mark| format!(" leaving{}", show_mark(mark))).unwrap_or_default();
            format!("unmark {rule}{remaining}{}", if *clear_stopped { " and stopped" } else { "" })
        }
        Action::Notify => {
            format!("notify {rule}, {}", step.only_told.map(|why| format!("{why:?}")).unwrap_or_default())
        }
        Action::Stop { mark, .. } | Action::Terminate { mark } => {
            format!("{}{} for {rule}", if mark.is_some() { "mark and " } else { "" }, step.action.as_str())
        }
        Action::Start => "start".to_owned(),
    }
}

fn show_mark(mark: &Mark) -> String {
    let show =
        |(rule, said): (&Rule, &Announced)| format!(" {rule}={}@{}", said.ending, said.deadline.strftime("%dT%H:%M"));
    mark.entries.iter().map(show).collect::<Vec<_>>().concat()
}

fn show_outcome(outcome: OutcomeKind) -> &'static str {
    match outcome {
        OutcomeKind::Done => "",
        OutcomeKind::Observed => " (observed)",
        OutcomeKind::AlreadyGone => " (already gone)",
        OutcomeKind::Changed => " (changed)",
        OutcomeKind::NotReached => " (not reached)",
        OutcomeKind::Failed => " (failed)",
    }
}

mod mark_wait_act {
    use super::*;

    #[test]
    fn tells_marks_waits_and_stops() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").run("01 12:05").run("01 12:55").run("01 13:00").run("01 13:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:05 spared marked
        01 12:55 spared marked
        01 13:00 stop for idle | told vision (action)
        01 13:05 spared not-running
        ");
        assert_eq!(account.tag_of(STOPPED), Some("idle 2026-09-01T13:00:00Z"));
        assert_eq!(account.tag_of(MARKED), None);
    }

    #[test]
    fn what_is_mended_is_unmarked_and_begins_anew() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").all_are(&busy()).run("01 12:30").run("01 12:35");
        account.all_are(&idle()).run("01 14:00");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:30 unmark idle | told vision (info)
        01 12:35 spared busy
        01 14:00 mark idle=stop@01T15:00 | told vision (warning)
        ");
    }

    #[test]
    fn unknown_neither_acts_nor_unmarks() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").all_are(&unknown()).run("01 12:30").run("01 13:30");
        account.usages.clear();
        account.run("01 13:35").all_are(&idle()).run("01 13:40");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:30 spared marked | told vision (info)
        01 13:30 spared marked
        01 13:35 spared marked
        01 13:40 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn no_grace_still_takes_two_runs() {
        let mut account = account(instance(), &format!("{ENFORCED}[idle]\ngrace = \"0s\""));
        account.run("01 12:00").run("01 12:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T12:00 | told vision (warning)
        01 12:05 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn what_was_stopped_and_started_by_hand_begins_anew() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").run("01 13:00");
        account.state(State::Running).instances[0].launched_at = time("2026-09-01T14:00:00Z");
        account.run("01 16:00").run("01 16:05").run("01 17:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle | told vision (action)
        01 16:00 mark idle=stop@01T17:00 | told vision (warning)
        01 16:05 unmark idle leaving idle=stop@01T17:00 and stopped
        01 17:05 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn expired_is_marked_and_ended_in_one_run() {
        let mut account = account(instance().tag("curfew:expires-at", "2026-09-01T12:00:00Z"), "");
        account.all_are(&busy()).run("01 11:55").run("01 12:00").run("01 12:05");
        assert_snapshot!(account.log, @"
        01 11:55 spared busy
        01 12:00 mark and stop for expired | told vision (action)
        01 12:05 spared not-running
        ");
    }

    #[test]
    fn one_time_spot_is_told_or_terminated() {
        let spot = || instance().purchase(Purchase::SpotOneTime);
        let mut told = account(spot(), ENFORCED);
        told.run("01 12:00").run("01 13:00").run("02 13:00");
        assert_snapshot!(told.log, @"
        01 12:00 notify idle, CannotBeStopped | told vision (warning)
        01 13:00 spared told
        02 13:00 spared told
        ");
        let mut ended = account(spot().tag("curfew:on-idle", "terminate"), ENFORCED);
        ended.run("01 12:00").run("01 13:00").run("01 13:05");
        assert_snapshot!(ended.log, @"
        01 12:00 mark idle=terminate@01T13:00 | told vision (warning)
        01 13:00 terminate for idle | told vision (action)
        01 13:05
        ");
    }
}

mod modes {
    use super::*;

    #[test]
    fn observe_says_once_what_would_be_done_and_enforcing_begins_anew() {
        let mut account = account(instance(), "");
        account.run("01 12:00").run("01 12:05").run("01 13:00").run("01 13:05").run("01 13:10");
        assert_eq!(account.tag_of(MARKED), None);
        account.config(ENFORCED).run("01 13:15").run("01 13:20").run("01 14:15");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (observed) | told vision (info)
        01 12:05 spared marked
        01 13:00 stop for idle (observed) | told vision (info)
        01 13:05 stop for idle (observed)
        01 13:10 stop for idle (observed)
        01 13:15 mark idle=stop@01T14:15 | told vision (warning)
        01 13:20 spared marked
        01 14:15 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn what_was_called_off_while_nothing_could_be_written_stays_called_off() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").policy.ceiling = Mode::Observe;
        account.all_are(&busy()).run("01 12:05");
        account.all_are(&idle()).run("01 13:30").policy.ceiling = Mode::Enforce;
        account.run("01 13:35").run("01 14:35");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:05 spared busy
        01 13:30 mark idle=stop@01T14:30 (observed) | told vision (info)
        01 13:35 mark idle=stop@01T14:35 | told vision (warning)
        01 14:35 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn a_ceiling_of_observe_stops_everything() {
        let mut account = account(instance().tag("curfew:mode", "enforce").tag("curfew:hours", OFFICE), ENFORCED);
        account.policy.ceiling = Mode::Observe;
        account.run("01 12:00").run("01 13:00").run("01 13:05").run("01 19:30").run("01 20:00").run("01 20:05");
        let seen = account.instances[0].tags.keys().filter(|key| *key == MARKED || *key == STOPPED).count();
        assert_eq!(seen, 0);
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (observed) | told vision (info)
        01 13:00 stop for idle (observed) | told vision (info)
        01 13:05 stop for idle (observed)
        01 19:30 mark idle=stop@01T13:00 hours=stop@01T20:00 (observed) | told vision (info)
        01 20:00 stop for hours (observed) | told vision (info)
        01 20:05 stop for hours (observed)
        ");
    }

    #[test]
    fn a_second_rule_is_told_while_another_is_observed_as_due() {
        let mut account = account(instance(), "[lifetime]\naction = \"stop\"\nmax = \"25h\"");
        account.run("01 12:00").run("01 13:00").run("01 13:05").run("01 13:10");
        account.run("02 13:05").run("02 13:10");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (observed) | told vision (info)
        01 13:00 stop for idle (observed) | told vision (info)
        01 13:05 mark idle=stop@01T13:00 lifetime=stop@02T13:05 (observed) | told vision (info)
        01 13:10 stop for idle (observed)
        02 13:05 stop for idle (observed)
        02 13:10 stop for idle (observed)
        ");
    }

    #[test]
    fn without_a_required_tag_the_teams_mode_does_not_count() {
        let of_team = "[teams.vision]\nmode = \"enforce\"\n";
        let ownerless = || untagged().tag("Team", "vision");
        let mut observed = account(ownerless(), of_team);
        observed.run("01 12:00").run("02 12:00").run("02 12:05");
        assert_snapshot!(observed.log, @"
        01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 (observed) | told vision (info)
        02 12:00 stop for idle (observed) | told vision (info)
        02 12:05 stop for idle (observed)
        ");
        let mut enforced = account(ownerless(), "[untagged]\nmode = \"enforce\"\n[teams.vision]\nmode = \"observe\"");
        enforced.run("01 12:00").run("01 13:00");
        assert_snapshot!(enforced.log, @"
        01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn its_own_tag_comes_first() {
        let mut out = account(
            instance().tag("curfew:mode", "observe").tag("curfew:expires-at", "2026-09-01T11:00:00Z"),
            ENFORCED,
        );
        out.run("01 12:00").run("01 12:05");
        assert_snapshot!(out.log, @"
        01 12:00 stop for expired (observed) | told vision (info)
        01 12:05 mark expired=stop@01T11:00 idle=stop@01T13:05 (observed) | told vision (info)
        ");
        let mut opted_in = account(instance().tag("curfew:mode", "enforce"), "");
        opted_in.run("01 12:00").run("01 13:00");
        assert_snapshot!(opted_in.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle | told vision (action)
        ");
    }
}

mod stale_marks {
    use super::*;

    /// What an idle instance that carries `mark` and was launched at noon of August 31st gets at noon, and later at 13:00.
    fn check(mark: &str, usage: &Usage, expect: &str) {
        let mut account = account(instance().tag(MARKED, mark), ENFORCED);
        account.all_are(usage).run("01 12:00");
        assert_eq!(account.log.trim_end(), expect, "{mark}");
    }

    const TOLD_ANEW: &str = "01 12:00 mark idle=stop@01T13:00 | told vision (warning)";

    #[test]
    fn a_fresh_one_binds() {
        check("i-0abc idle=stop@2026-09-01T11:55:00Z", &idle(), "01 12:00 stop for idle | told vision (action)");
        check("i-0abc idle=stop@2026-09-01T12:05:00Z", &idle(), "01 12:00 spared marked");
    }

    #[test]
    fn one_of_another_resource_is_told_anew_or_taken_away_silently() {
        check("i-0other idle=stop@2026-09-01T11:55:00Z", &idle(), TOLD_ANEW);
        check("i-0other idle=stop@2026-09-01T11:55:00Z", &busy(), "01 12:00 unmark idle");
    }

    #[test]
    fn one_of_an_earlier_life_is_told_anew() {
        check("i-0abc idle=stop@2026-08-31T11:59:59Z", &idle(), TOLD_ANEW);
        check("i-0abc idle=stop@2026-08-31T11:59:59Z", &busy(), "01 12:00 unmark idle");
    }

    #[test]
    fn one_of_another_rule_is_told_anew() {
        check("i-0abc lifetime=stop@2026-09-01T11:55:00Z", &idle(), TOLD_ANEW);
    }

    #[test]
    fn one_that_announced_something_milder_is_told_anew() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").tag("curfew:on-idle", "terminate").run("01 12:30").run("01 13:00").run("01 13:30");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:30 mark idle=terminate@01T13:30 | told vision (warning)
        01 13:00 spared marked
        01 13:30 terminate for idle | told vision (action)
        ");
    }

    #[test]
    fn one_that_announced_something_harsher_ends_mildly() {
        check("i-0abc idle=terminate@2026-09-01T11:55:00Z", &idle(), "01 12:00 stop for idle | told vision (action)");
    }

    #[test]
    fn one_older_than_a_week_is_told_anew() {
        let old = instance().launched("2026-08-01T00:00:00Z");
        let mut account = account(old.tag(MARKED, "i-0abc idle=stop@2026-08-25T11:59:59Z"), ENFORCED);
        account.run("01 12:00");
        assert_snapshot!(account.log, @"01 12:00 mark idle=stop@01T13:00 | told vision (warning)");
    }

    #[test]
    fn one_overtaken_by_keep_until_is_told_anew() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00").tag("curfew:keep-until", "2026-09-01T18:00:00Z");
        account.run("01 13:00").run("01 17:55").run("01 18:00").run("01 19:00");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 spared kept
        01 17:55 spared kept
        01 18:00 mark idle=stop@01T19:00 | told vision (warning)
        01 19:00 stop for idle | told vision (action)
        ");
    }
}

mod several_rules {
    use super::*;

    const BOTH: &str = "mode = \"enforce\"\n[lifetime]\naction = \"terminate\"\nmax = \"1d\"\ngrace = \"30m\"";

    #[test]
    fn each_keeps_its_own_deadline_and_the_earliest_acts() {
        let mut account = account(instance(), BOTH);
        account.run("01 11:55").run("01 12:05").run("01 12:30").run("01 12:35").run("01 12:40");
        assert_snapshot!(account.log, @"
        01 11:55 mark idle=stop@01T12:55 | told vision (warning)
        01 12:05 mark idle=stop@01T12:55 lifetime=terminate@01T12:35 | told vision (warning)
        01 12:30 spared marked
        01 12:35 terminate for lifetime | told vision (action)
        01 12:40
        ");
    }

    #[test]
    fn one_is_mended_and_the_other_stays() {
        let mut account = account(instance(), BOTH);
        account.run("01 11:55").run("01 12:05").all_are(&busy()).run("01 12:10").run("01 12:35");
        assert_snapshot!(account.log, @"
        01 11:55 mark idle=stop@01T12:55 | told vision (warning)
        01 12:05 mark idle=stop@01T12:55 lifetime=terminate@01T12:35 | told vision (warning)
        01 12:10 unmark idle leaving lifetime=terminate@01T12:35 | told vision (info)
        01 12:35 terminate for lifetime | told vision (action)
        ");
    }

    #[test]
    fn one_that_is_only_told_hides_no_other_and_is_told_once() {
        let mut account = account(instance(), "mode = \"enforce\"\n[lifetime]\nmax = \"1h\"");
        account.run("01 12:00").run("01 12:05").run("01 12:10").run("01 13:00").run("01 13:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 12:05 notify lifetime, Configured | told vision (warning)
        01 12:10 spared marked
        01 13:00 stop for idle | told vision (action)
        01 13:05 spared not-running
        ");
    }

    #[test]
    fn a_held_memory_is_told_once_and_told_anew_after_work() {
        let mut account = account(instance(), ENFORCED);
        account.all_are(&reserved()).run("01 12:00").run("01 12:05").run("02 13:00");
        account.all_are(&busy()).run("02 13:05").all_are(&reserved()).run("02 15:00");
        assert_snapshot!(account.log, @"
        01 12:00 notify idle, Reserved | told vision (warning)
        01 12:05 spared told
        02 13:00 spared told
        02 13:05 spared busy
        02 15:00 notify idle, Reserved | told vision (warning)
        ");
    }
}

mod untagged_ones {
    use super::*;

    #[test]
    fn work_defers_what_was_announced() {
        let mut account = account(untagged(), UNTAGGED_ENFORCED);
        account.all_are(&unknown()).run("01 12:00").all_are(&busy()).run("01 12:05").run("02 12:00").run("02 12:05");
        account.all_are(&unknown()).run("02 13:10");
        assert_snapshot!(account.log, @"
        01 12:00 mark untagged=stop@02T12:00 | told untagged (warning)
        01 12:05 spared marked
        02 12:00 spared marked
        02 12:05 spared marked
        02 13:10 stop for untagged | told untagged (action)
        ");
    }

    #[test]
    fn work_is_told_once_where_nothing_was_announced() {
        let mut account = account(untagged(), UNTAGGED_ENFORCED);
        account.all_are(&busy()).run("01 12:00").run("01 12:05").run("02 12:05");
        assert_snapshot!(account.log, @"
        01 12:00 notify untagged, Busy | told untagged (warning)
        01 12:05 spared told
        02 12:05 spared told
        ");
    }

    #[test]
    fn a_gap_in_the_metrics_is_no_reason_to_end_what_may_be_at_work() {
        let mut account = account(untagged(), UNTAGGED_ENFORCED);
        account.all_are(&unknown()).run("01 12:00");
        account.usages.clear();
        account.run("02 12:00");
        account.all_are(&busy()).run("02 12:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark untagged=stop@02T12:00 | told untagged (warning)
        02 12:00 spared marked
        02 12:05 spared marked
        ");
    }

    #[test]
    fn tags_call_it_off() {
        let mut account = account(untagged(), UNTAGGED_ENFORCED);
        account.all_are(&busy());
        account.config("[untagged]\nmode = \"enforce\"\nspare_busy = false").run("01 12:00");
        account.tag("Team", "vision").tag("Owner", "ada").run("01 12:05").run("01 12:10");
        assert_snapshot!(account.log, @"
        01 12:00 mark untagged=stop@02T12:00 | told untagged (warning)
        01 12:05 unmark untagged | told vision (info)
        01 12:10 spared busy
        ");
    }
}

mod limits_hold {
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
    fn above_either_limit_none_is_ended() {
        check(&mut many(10, 90, ENFORCED), (0, 9));
        check(&mut many(11, 90, ENFORCED), (11, 0));
        check(&mut many(2, 8, ENFORCED), (0, 1));
        check(&mut many(3, 7, ENFORCED), (3, 0));
        check(&mut many(9, 0, ENFORCED), (0, 8));
        check(&mut many(1, 0, "mode = \"enforce\"\n[limits]\nactions_max = 0"), (1, 0));
    }

    #[test]
    fn held_ends_are_told_once_a_day_until_the_limit_is_raised() {
        let small = "mode = \"enforce\"\n[limits]\nactions_max = 1\n";
        let mut account = many(2, 0, small);
        account.run("01 12:00").run("01 13:00").run("01 13:05").run("02 12:55").run("02 13:00");
        account.config("mode = \"enforce\"\n[limits]\nactions_max = 2\n").run("02 13:05");
        assert_snapshot!(account.log, @"
        01 12:00 i-000 mark idle=stop@01T13:00, i-001 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 i-000 stop for idle (not reached), i-001 stop for idle (not reached) | told vision (error)
        01 13:05 i-000 stop for idle (not reached), i-001 stop for idle (not reached)
        02 12:55 i-000 stop for idle (not reached), i-001 stop for idle (not reached)
        02 13:00 i-000 stop for idle (not reached), i-001 stop for idle (not reached) | told vision (error)
        02 13:05 i-000 stop for idle, i-001 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn ends_that_owners_wrote_down_are_neither_counted_nor_held() {
        let mut account = many(3, 0, "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
        account.run("01 12:00");
        account.instances[0].tags.insert("curfew:expires-at".to_owned(), "2026-09-01T12:30:00Z".to_owned());
        account.run("01 13:00");
        assert_snapshot!(account.log, @"
        01 12:00 i-000 mark idle=stop@01T13:00, i-001 mark idle=stop@01T13:00, i-002 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 i-000 mark and stop for expired, i-001 stop for idle (not reached), i-002 stop for idle (not reached) | told vision (error)
        ");
    }

    #[test]
    fn an_end_that_is_held_does_not_hide_one_that_its_owner_wrote_down() {
        let mut account =
            account(instance().tag("curfew:hours", OFFICE), "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
        account.run("01 18:00").run("01 19:00").run("01 19:30").run("01 19:35").run("01 20:00");
        assert_snapshot!(account.log, @"
        01 18:00 mark idle=stop@01T19:00 | told vision (warning)
        01 19:00 stop for idle (not reached) | told vision (error)
        01 19:30 mark idle=stop@01T19:00 hours=stop@01T20:00 | told vision (warning)
        01 19:35 stop for idle (not reached)
        01 20:00 stop for hours | told vision (action)
        ");
    }
}

mod working_hours {
    use super::*;

    fn office() -> Account {
        let mut account = account(instance().tag("curfew:hours", OFFICE), "");
        account.all_are(&busy());
        account
    }

    #[test]
    fn marked_stopped_and_started_in_the_morning() {
        let mut account = office();
        account.run("01 19:25").run("01 19:30").run("01 19:55").run("01 20:00").run("01 20:05").run("02 07:55");
        account.run("02 08:00").run("02 08:05").run("02 08:10");
        assert_snapshot!(account.log, @"
        01 19:25 spared busy
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 19:55 spared marked
        01 20:00 stop for hours | told vision (action)
        01 20:05 spared not-running
        02 07:55 spared not-running
        02 08:00 start | told vision (action)
        02 08:05 unmark hours and stopped
        02 08:10 spared busy
        ");
    }

    #[test]
    fn a_start_that_fails_is_told_once_a_day_and_tried_again() {
        let mut account = office();
        account.run("01 19:30").run("01 20:00");
        account.refuses = Some("InsufficientInstanceCapacity");
        account.run("02 08:00").run("02 08:05").run("02 19:55").run("02 20:00").run("03 08:00").run("03 08:05");
        account.refuses = None;
        account.run("03 08:10").run("03 08:15");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 20:00 stop for hours | told vision (action)
        02 08:00 start (failed) | told vision (error)
        02 08:05 start (failed)
        02 19:55 start (failed)
        02 20:00 spared not-running
        03 08:00 start (failed) | told vision (error)
        03 08:05 start (failed)
        03 08:10 start | told vision (action)
        03 08:15 unmark hours and stopped
        ");
    }

    #[test]
    fn a_start_that_comes_to_nothing_is_told_once_a_day() {
        let mut account = office();
        account.run("01 19:30").run("01 20:00").run("02 08:00");
        account.state(State::Stopped).instances[0].state_reason = Some("Client.InternalError".to_owned());
        account.run("02 08:05");
        account.state(State::Pending).run("02 08:10");
        account.state(State::Stopped).run("02 08:15");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 20:00 stop for hours | told vision (action)
        02 08:00 start | told vision (action)
        02 08:05 start | told vision (error)
        02 08:10 spared young
        02 08:15 start
        ");
    }

    #[test]
    fn hours_that_are_moved_a_little_are_not_cut_short() {
        let mut account = office();
        account.run("01 19:45").tag("curfew:hours", "Mon-Fri 08:00-20:15 UTC").run("01 19:50").run("01 20:00");
        account.run("01 20:15");
        assert_snapshot!(account.log, @"
        01 19:45 mark hours=stop@01T20:00 | told vision (warning)
        01 19:50 mark hours=stop@01T20:15 | told vision (warning)
        01 20:00 spared marked
        01 20:15 stop for hours | told vision (action)
        ");
    }

    #[test]
    fn an_announcement_of_yesterday_does_not_end_today_early() {
        let mut account = office();
        account.run("01 19:30").run("02 19:40").run("02 20:00");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        02 19:40 mark hours=stop@02T20:00 | told vision (warning)
        02 20:00 stop for hours | told vision (action)
        ");
    }

    #[test]
    fn hours_that_are_prolonged_call_the_end_off() {
        let mut account = office();
        account.run("01 19:30").tag("curfew:hours", "Mon-Fri 08:00-22:00 UTC").run("01 19:35").run("01 21:30");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 19:35 unmark hours | told vision (info)
        01 21:30 mark hours=stop@01T22:00 | told vision (warning)
        ");
    }

    #[test]
    fn stopped_by_hand_it_stays_stopped() {
        let mut account = office();
        account.state(State::Stopped).run("02 08:00");
        assert_snapshot!(account.log, @"02 08:00 spared not-running");
    }

    #[test]
    fn what_idled_is_not_started_by_the_hours_that_began_with_its_stop() {
        let mut account = account(instance().tag("curfew:hours", "Mon-Fri 13:00-20:00 UTC"), ENFORCED);
        account.instances[0].launched_at = time("2026-08-31T21:00:00Z");
        account.run("01 12:00").run("01 13:00").run("01 13:05").run("02 13:00");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle | told vision (action)
        01 13:05 spared not-running
        02 13:00 start | told vision (action)
        ");
    }

    #[test]
    fn what_people_stop_again_within_its_hours_stays_stopped() {
        let mut account = office();
        account.run("01 19:30").run("01 20:00").run("02 08:00").state(State::Stopped).run("02 08:05").run("02 12:00");
        account.run("03 08:00");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 20:00 stop for hours | told vision (action)
        02 08:00 start | told vision (action)
        02 08:05 spared not-running
        02 12:00 spared not-running
        03 08:00 spared not-running
        ");
    }

    #[test]
    fn what_people_started_and_stopped_in_between_is_not_curfews_to_start() {
        let mut account = office();
        account.run("01 19:30").run("01 20:00").instances[0].launched_at = time("2026-09-01T21:00:00Z");
        account.run("02 08:00");
        assert_snapshot!(account.log, @"
        01 19:30 mark hours=stop@01T20:00 | told vision (warning)
        01 20:00 stop for hours | told vision (action)
        02 08:00 spared not-running
        ");
    }

    #[test]
    fn observed_starts_are_told_once_a_morning() {
        let mut account = account(
            instance().tag("curfew:hours", OFFICE).tag(STOPPED, "hours 2026-08-31T20:00:00Z").state(State::Stopped),
            "",
        );
        account.policy.ceiling = Mode::Observe;
        account.run("01 08:00").run("01 08:05").run("02 08:00");
        assert_snapshot!(account.log, @"
        01 08:00 start (observed) | told vision (info)
        01 08:05 start (observed)
        02 08:00 start (observed) | told vision (info)
        ");
    }
}

mod spared_ones {
    use super::*;

    #[test]
    fn foreign_owned_is_told_once_and_never_marked() {
        let mut account = account(instance().tag("aws:autoscaling:groupName", "workers"), ENFORCED);
        account.run("01 12:00").run("01 13:00").run("02 14:00");
        account.all_are(&unknown()).run("02 14:05").all_are(&idle()).run("02 14:10");
        account.all_are(&busy()).run("02 14:15").all_are(&idle()).run("02 16:00");
        assert_eq!(account.tag_of(MARKED), None);
        assert_snapshot!(account.log, @"
        01 12:00 spared foreign-owned | told vision (info)
        01 13:00 spared foreign-owned
        02 14:00 spared foreign-owned
        02 14:05 spared foreign-owned
        02 14:10 spared foreign-owned
        02 14:15 spared foreign-owned
        02 16:00 spared foreign-owned | told vision (info)
        ");
    }

    #[test]
    fn unreadable_is_told_once_and_anew_when_it_changes() {
        let mut account = account(instance().tag("curfew:idle-after", "soon"), ENFORCED);
        account.run("01 12:00").run("01 13:00").run("03 13:00");
        account.tag("curfew:idle-after", "later").run("03 13:05").run("03 13:10");
        account.tag("curfew:idle-after", "1h").run("03 13:15");
        assert_snapshot!(account.log, @"
        01 12:00 spared unreadable | told vision (warning)
        01 13:00 spared unreadable
        03 13:00 spared unreadable
        03 13:05 spared unreadable | told vision (warning)
        03 13:10 spared unreadable
        03 13:15 mark idle=stop@03T14:15 | told vision (warning)
        ");
    }

    #[test]
    fn protected_and_kept_are_left_alone_without_a_word() {
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
        01 12:00 i-1 spared protected, i-2 spared kept, i-3 spared unreadable | told vision (warning)
        01 23:55 i-1 spared protected, i-2 spared kept, i-3 spared unreadable
        02 00:00 i-2 mark and stop for expired, i-1 spared protected, i-3 spared unreadable | told vision (action)
        ");
    }

    #[test]
    fn an_uninstrumented_gpu_is_told_once_even_beside_another_finding() {
        let mut alone = account(instance(), ENFORCED);
        alone.all_are(&unknown()).run("01 12:00").run("01 12:05").run("02 13:00");
        assert_snapshot!(alone.log, @"
        01 12:00 spared usage-unknown | told vision (info)
        01 12:05 spared usage-unknown
        02 13:00 spared usage-unknown
        ");
        let mut old = account(instance(), "mode = \"enforce\"\n[lifetime]\nmax = \"1h\"");
        old.all_are(&unknown()).run("01 12:00").run("01 12:05").run("01 12:10");
        assert_snapshot!(old.log, @"
        01 12:00 notify lifetime, Configured | told vision (warning)
        01 12:05 spared told
        01 12:10 spared told
        ");
    }
}

mod failures {
    use super::*;

    #[test]
    fn a_message_that_is_not_taken_leaves_nothing_marked() {
        let mut account = account(instance(), ENFORCED);
        account.deaf.insert("vision");
        account.run("01 12:00").run("01 12:05");
        account.deaf.clear();
        account.run("01 12:10").run("01 13:10");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (not reached)
        01 12:05 mark idle=stop@01T13:05 (not reached)
        01 12:10 mark idle=stop@01T13:10 | told vision (warning)
        01 13:10 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn a_mark_that_could_not_be_written_is_written_later_and_only_the_failure_is_told_besides() {
        let mut account = account(instance(), ENFORCED);
        account.refuses = Some("UnauthorizedOperation: ec2:CreateTags");
        account.run("01 12:00").run("01 12:05").run("01 13:05");
        account.refuses = None;
        account.run("01 13:10").run("01 13:15");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (failed) | told vision (warning)
        01 12:05 mark idle=stop@01T13:00 (failed) | told vision (error)
        01 13:05 mark idle=stop@01T13:00 (failed)
        01 13:10 mark idle=stop@01T13:00
        01 13:15 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn what_was_done_and_could_not_be_told_is_owed() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00");
        account.deaf.insert("vision");
        account.run("01 13:00").run("01 13:05");
        account.deaf.clear();
        account.run("01 13:10").run("01 13:15");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle
        01 13:05 spared not-running
        01 13:10 spared not-running | told vision (action)
        01 13:15 spared not-running
        ");
    }

    #[test]
    fn a_stop_that_fails_is_told_once_a_day_and_tried_in_every_run() {
        let mut account = account(instance(), ENFORCED);
        account.run("01 12:00");
        account.refuses = Some("UnauthorizedOperation");
        account.run("01 13:00").run("01 13:05").run("02 13:00");
        account.refuses = None;
        account.run("02 13:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 | told vision (warning)
        01 13:00 stop for idle (failed) | told vision (error)
        01 13:05 stop for idle (failed)
        02 13:00 stop for idle (failed) | told vision (error)
        02 13:05 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn an_old_stop_is_taken_off_what_runs_again() {
        let mut account = account(instance().tag(STOPPED, "idle 2026-08-30T12:00:00Z"), ENFORCED);
        account.all_are(&busy()).run("01 12:00").run("01 12:05");
        assert_snapshot!(account.log, @"
        01 12:00 unmark idle and stopped
        01 12:05 spared busy
        ");
    }

    #[test]
    fn what_is_called_off_is_told_even_beside_a_stale_entry() {
        let old = instance().launched("2026-08-01T00:00:00Z").tag("curfew:expires-at", "2026-12-01T00:00:00Z");
        let mark = "i-0abc idle=stop@2026-09-01T12:30:00Z untagged=stop@2026-08-10T00:00:00Z";
        let mut account = account(old.tag(MARKED, mark), ENFORCED);
        account.all_are(&busy()).run("01 12:00");
        assert_snapshot!(account.log, @"01 12:00 unmark idle | told vision (info)");
    }

    #[test]
    fn a_stale_mark_on_the_resource_does_not_stand_in_for_one_that_could_not_be_written() {
        let mut account = account(instance().tag(MARKED, "i-0abc idle=stop@2026-08-31T00:00:00Z"), ENFORCED);
        account.refuses = Some("UnauthorizedOperation: ec2:CreateTags");
        account.run("01 12:00");
        account.refuses = None;
        account.run("01 13:00").run("01 13:05");
        assert_snapshot!(account.log, @"
        01 12:00 mark idle=stop@01T13:00 (failed) | told vision (warning)
        01 13:00 mark idle=stop@01T13:00 | told vision (error)
        01 13:05 stop for idle | told vision (action)
        ");
    }

    #[test]
    fn a_gap_is_told_once_a_day() {
        let mut account = account(instance(), "");
        account.all_are(&busy()).gaps = vec![Gap {
            region: "eu-west-1".into(),
            call: "ec2:DescribeInstances".to_owned(),
            error: "RequestLimitExceeded".to_owned(),
            kind: GapKind::Region,
        }];
        account.run("01 12:00").run("01 12:05").run("02 11:55").run("02 12:00");
        account.gaps[0].kind = GapKind::ForbiddenRegion;
        account.run("02 12:05").run("03 12:05").run("09 12:05");
        assert_snapshot!(account.log, @"
        01 12:00 spared busy | told untagged (error)
        01 12:05 spared busy
        02 11:55 spared busy
        02 12:00 spared busy | told untagged (error)
        02 12:05 spared busy | told untagged (error)
        03 12:05 spared busy
        09 12:05 notify lifetime, Configured (observed) | told vision (info)
        ");
    }
}

#[test]
fn announcements_and_events_are_no_lasting_states() {
    let seen = Observed { items: vec![instance().build()], gaps: Vec::new() };
    let usages = BTreeMap::from([("i-0abc".into(), idle())]);
    let now = time(NOW);
    let plan = decide(&seen, &usages, &Memory::new(), &enforcing(ENFORCED), now);
    let report = Report::of(plan, "reap-instances", "run-1".into(), now, Mode::Enforce, vec!["us-east-1".into()]);
    let told = news(&report, &Memory::new(), &"us-east-1".into(), now);
    assert_eq!(told[0].kind, NewsKind::Announcement);
    assert_eq!(report.steps[0].0.deadline, Some(now + SignedDuration::from_hours(1)));
}
