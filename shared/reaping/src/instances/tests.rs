//! The state machine over several runs: what is marked, ended, told and remembered from one run to the next.

mod failures;
mod limits_hold;
mod mark_wait_act;
mod modes;
mod of_jobs;
mod several_rules;
mod spared_ones;
mod stale_marks;
mod untagged_ones;
mod working_hours;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use insta::assert_snapshot;
use jiff::SignedDuration;
use model::config::Config;
use model::curfew_tags::{MARKED, STOPPED};
use model::id::Region;
use model::instance::PurchaseOption;
use model::mark::AnnouncedAction;
use model::notification_log::NotificationKind;
use model::observation::{Gap, GapKind};
use notify::{late_notifications, messages, notifications, update_log};
use plan::report::{OutcomeKind, Report, StepOutcome};

use super::*;
use crate::explain::PlanDecision;
use crate::fixture::{InstanceBuilder, NOW, busy, enforcing, idle, instance, reserved, time, unknown, untagged};

const ENFORCED: &str = "mode = \"enforce\"\n";
const UNTAGGED_ENFORCED: &str = "[untagged]\nmode = \"enforce\"\n";
const OFFICE: &str = "Mon-Fri 08:00-20:00 UTC";

/// An account that runs are made over, with a log of what each run did and told.
struct Account {
    instances: Vec<Instance>,
    usages: BTreeMap<ResourceId, Usage>,
    memory: NotificationLogs,
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
fn enforcing_account(of: InstanceBuilder, config: &str) -> Account {
    fleet([of], config)
}

fn fleet(of: impl IntoIterator<Item = InstanceBuilder>, config: &str) -> Account {
    let mut account = Account {
        instances: of.into_iter().map(InstanceBuilder::build).collect(),
        usages: BTreeMap::new(),
        memory: NotificationLogs::from([("us-east-1".into(), NotificationLog::default())]),
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

    fn state(&mut self, state: InstanceState) -> &mut Self {
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

    /// What would be explained of each is what is planned, limits aside, which count all.
    fn is_explained_as(&self, plan: &Plan) {
        for instance in &self.instances {
            let nothing_told = NotificationLog::default();
            let notices = self.memory.get(&instance.region).unwrap_or(&nothing_told);
            let explained = explain(instance, self.usages.get(&instance.id), notices, &self.policy, self.now).unwrap();
            match explained.decision {
                PlanDecision::Step(said) => {
                    let step = plan.steps.iter().find(|step| step.target.resource == instance.id).unwrap();
                    assert_eq!(Step { held: None, ..*said }, Step { held: None, ..step.clone() });
                }
                PlanDecision::Skipped(said) => assert!(plan.skipped.contains(&said), "{said:?}"),
            }
        }
    }

    /// One run at `day hour:minute` of September 2026: decide, act, tell, mark, remember.
    fn run(&mut self, at: &str) -> &mut Self {
        let (day, clock) = at.split_once(' ').unwrap();
        self.now = time(&format!("2026-09-{day}T{clock}:00Z"));
        let seen = Observation { items: self.instances.clone(), gaps: self.gaps.clone() };
        let plan = decide(&seen, &self.usages, &self.memory, &self.policy, self.now);
        self.is_explained_as(&plan);
        let home = Region::from("us-east-1");
        let mut report = Report::from_plan(
            plan,
            "reap-instances",
            "run-1".into(),
            self.now,
            self.policy.ceiling,
            vec![home.clone()],
        );
        self.act(&mut report, |step| !matches!(step.action, Action::Mark(_)));
        let news = notifications(&report, &self.memory, &home, self.now);
        let messages = messages(&report, &news, &self.memory);
        let taken = messages.into_iter().filter(|message| !self.deaf.contains(message.team.as_str()));
        let delivered: BTreeMap<String, &str> = taken.map(|message| (message.team, message.severity)).collect();
        let heard = |step: &Step| {
            let team = step.target.team.as_ref().map_or("untagged", |team| team.as_str());
            matches!(step.action, Action::Mark(_)) && (step.already_notified || delivered.contains_key(team))
        };
        self.act(&mut report, heard);
        let late = late_notifications(&report, &news, &self.memory, &home, self.now);
        let teams = delivered.keys().cloned().collect();
        self.memory = update_log(&self.memory, &report, &news, &late, &teams, self.now);
        self.write_down(at, &report, &delivered);
        self
    }

    fn act(&mut self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        for (step, outcome) in report.steps.iter_mut().filter(|(step, _)| wanted(step)) {
            *outcome = match (step.held, step.mode, self.refuses) {
                (Some(held), ..) => StepOutcome::with(OutcomeKind::NotReached, held.to_string()),
                (None, Mode::Observe, _) => StepOutcome::from_kind(OutcomeKind::Observed),
                (None, Mode::Enforce, Some(error)) if step.action != Action::Notify => {
                    StepOutcome::with(OutcomeKind::Failed, error)
                }
                (None, Mode::Enforce, _) => {
                    self.write(step);
                    StepOutcome::from_kind(OutcomeKind::Done)
                }
            };
        }
    }

    /// What EC2 holds after a step was done.
    fn write(&mut self, step: &Step) {
        let place = self.instances.iter().position(|instance| instance.id == step.target.resource).unwrap();
        let instance = &mut self.instances[place];
        match &step.action {
            Action::Notify | Action::Hold => {}
            Action::Mark(mark) => drop(instance.tags.insert(MARKED.to_owned(), mark.to_string())),
            Action::Unmark { remaining, also } => {
                instance.tags.remove(MARKED);
                instance.tags.extend(remaining.iter().map(|mark| (MARKED.to_owned(), mark.to_string())));
                if also.is_some() {
                    instance.tags.remove(STOPPED);
                }
            }
            Action::Stop { stopped, .. } => {
                instance.state = InstanceState::Stopped;
                instance.tags.remove(MARKED);
                instance.tags.insert(STOPPED.to_owned(), stopped.clone());
            }
            Action::Terminate { .. } => drop(self.instances.remove(place)),
            Action::Start => {
                instance.state = InstanceState::Running;
                instance.launched_at = self.now;
            }
            Action::Date { .. } | Action::Snapshot { .. } | Action::Delete { .. } => {
                panic!("an instance takes no {}", step.action.as_str())
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
        for skipped in report.skipped.iter().filter(|_| report.seen < 5) {
            let reason = serde_json::to_value(skipped.reason).unwrap();
            did.push(format!("{}spared {}", who(&skipped.target), reason.as_str().unwrap()));
        }
        let told: Vec<String> = delivered.iter().map(|(team, severity)| format!("{team} ({severity})")).collect();
        let told = if told.is_empty() { String::new() } else { format!(" | told {}", told.join(", ")) };
        let _ = writeln!(self.log, "{at} {}{told}", did.join(", "));
    }
}

fn show(step: &Step) -> String {
    let rule = step.evidence.rule();
    match &step.action {
        Action::Hold => "hold".to_owned(),
        Action::Mark(mark) => format!("mark{}", show_mark(mark)),
        Action::Unmark { remaining, also } => {
            let remaining = remaining.as_ref().map(|mark| format!(" leaving{}", show_mark(mark))).unwrap_or_default();
            format!("unmark {rule}{remaining}{}", if also.is_some() { " and stopped" } else { "" })
        }
        Action::Notify => {
            format!("notify {rule}, {}", step.notify_only.map(|why| format!("{why:?}")).unwrap_or_default())
        }
        Action::Stop { mark, .. } | Action::Terminate { mark } => {
            let mark = mark.as_ref().map(|mark| format!("mark{} and ", show_mark(mark))).unwrap_or_default();
            format!("{mark}{} for {rule}", step.action.as_str())
        }
        Action::Start => "start".to_owned(),
        Action::Date { .. } | Action::Snapshot { .. } | Action::Delete { .. } => {
            panic!("an instance takes no {}", step.action.as_str())
        }
    }
}

fn show_mark(mark: &Mark) -> String {
    let show = |(rule, said): (&Rule, &AnnouncedAction)| {
        format!(" {rule}={}@{}", said.ending, said.deadline.strftime("%dT%H:%M"))
    };
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

#[test]
fn announcements_and_events_are_no_lasting_states() {
    let seen = Observation { items: vec![instance().build()], gaps: Vec::new() };
    let usages = BTreeMap::from([("i-0abc".into(), idle())]);
    let now = time(NOW);
    let plan = decide(&seen, &usages, &NotificationLogs::new(), &enforcing(ENFORCED), now);
    let report =
        Report::from_plan(plan, "reap-instances", "run-1".into(), now, Mode::Enforce, vec!["us-east-1".into()]);
    let told = notifications(&report, &NotificationLogs::new(), &"us-east-1".into(), now);
    assert_eq!(told[0].kind, NotificationKind::Announcement);
    assert_eq!(report.steps[0].0.deadline, Some(now + SignedDuration::from_hours(1)));
}
