//! The state machine over several runs: marks, actions, notifications and the log from one run to the next.

mod channels;
mod earlier_announcements;
mod failures;
mod gangs;
mod limits_hold;
mod mark_wait_act;
mod modes;
mod of_jobs;
mod readers;
mod refused_for_good;
mod several_rules;
mod skipped_ones;
mod untagged_ones;
mod working_hours;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use insta::assert_snapshot;
use model::ceiling::Ceiling;
use model::config::Config;
use model::curfew_tags::{MARKED, STOPPED};
use model::gang::Gangs;
use model::id::ResourceId;
use model::instance::{InstanceState, PurchaseOption};
use model::mark::{AnnouncedAction, Mark};
use model::mode::Mode;
use model::notification_log::{CarriedOut, ResourceRecord};
use model::observation::{Gap, GapKind, Observation};
use model::rule::{ResourceAction, Rule};
use model::usage::{UnknownUsage, Usage};
use plan::report::{OutcomeKind, Report};
use plan::{Action, AnnouncedActions, Announcement, InstanceAction, Plan, Step, Target};
use reaping::fixture::{InstanceBuilder, NOW, busy, enforcing, idle, instance, reserved, time, unknown, untagged};
use reaping::instances::decide;
use reaping::policy::Policy;

use crate::aws::{AwsInMemory, RefusedCall};

const NOT_ASKED: Usage = Usage::Unknown(UnknownUsage::NotAsked);
const ENFORCED: &str = "mode = \"enforce\"\n";
const UNTAGGED_ENFORCED: &str = "[untagged]\nmode = \"enforce\"\n";
const OFFICE: &str = "Mon-Fri 08:00-20:00 UTC";

/// An account for several runs, with a log of what each run did and notified.
struct Account {
    aws: AwsInMemory,
    usages: BTreeMap<ResourceId, Usage>,
    policy: Policy,
    gaps: Vec<Gap>,
    log: String,
}

/// One instance of the configuration, idle.
fn enforcing_account(of: InstanceBuilder, config: &str) -> Account {
    fleet([of], config)
}

fn fleet(of: impl IntoIterator<Item = InstanceBuilder>, config: &str) -> Account {
    let instances = of.into_iter().map(InstanceBuilder::build).collect();
    let mut account = Account {
        aws: AwsInMemory::new(instances, Vec::new(), time(NOW)),
        usages: BTreeMap::new(),
        policy: enforcing(config),
        gaps: Vec::new(),
        log: String::new(),
    };
    account.all_are(&idle());
    account
}

impl Account {
    fn all_are(&mut self, usage: &Usage) -> &mut Self {
        self.usages = self.aws.instances.iter().map(|instance| (instance.id.clone(), usage.clone())).collect();
        self
    }

    fn tag(&mut self, key: &str, value: &str) -> &mut Self {
        for instance in &mut self.aws.instances {
            instance.tags.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    fn state(&mut self, state: InstanceState) -> &mut Self {
        for instance in &mut self.aws.instances {
            instance.state = state;
        }
        self
    }

    fn config(&mut self, text: &str) -> &mut Self {
        self.policy.config = Config::read(text).unwrap();
        self
    }

    fn tag_of(&self, key: &str) -> Option<&str> {
        self.aws.instances[0].tags.get(key).map(String::as_str)
    }

    /// What the log says about each instance in its present life.
    fn remember(&mut self, record: &ResourceRecord) -> &mut Self {
        for instance in &self.aws.instances {
            let since = ResourceRecord::about(instance.launched_at).since;
            let record = ResourceRecord { since, ..record.clone() };
            let log = self.aws.memory.entry(instance.region.clone()).or_default();
            log.resources.insert(instance.id.clone(), record);
        }
        self
    }

    /// An earlier run announced it to each.
    fn announced(&mut self, rule: Rule, announced: AnnouncedAction) -> &mut Self {
        self.remember(&ResourceRecord { announced: BTreeMap::from([(rule, announced)]), ..ResourceRecord::default() })
    }

    /// Curfew stopped each for its hours then.
    fn stopped_for_hours(&mut self, at: &str) -> &mut Self {
        let stopped = CarriedOut { rule: Rule::Hours, action: ResourceAction::Stop, at: time(at) };
        self.remember(&ResourceRecord { carried_out: Some(stopped), ..ResourceRecord::default() })
    }

    fn plan(&self) -> Plan {
        let seen = Observation { items: self.aws.instances.clone(), gaps: self.gaps.clone() };
        let gangs = Gangs::find(&seen.items, &self.policy.config);
        let policy = Policy { gangs, ..self.policy.clone() };
        decide(&seen, &self.usages, &self.aws.memory, &policy, self.aws.now)
    }

    /// One run at `day hour:minute` of September 2026.
    fn run(&mut self, at: &str) -> &mut Self {
        let (day, clock) = at.split_once(' ').unwrap();
        self.aws.now = time(&format!("2026-09-{day}T{clock}:00Z"));
        let plan = self.plan();
        let report = self.aws.carry_out(plan, &self.policy);
        self.write_down(at, &report);
        self
    }

    /// `01 12:00 mark idle=stop@01T13:00 | notified vision (warning)`; ids only in a fleet.
    fn write_down(&mut self, at: &str, report: &Report) {
        let mut did: Vec<String> = Vec::new();
        let alone = report.seen == 1;
        let who = |target: &Target| if alone { String::new() } else { format!("{} ", target.resource) };
        for (step, outcome) in &report.steps {
            did.push(format!("{}{}{}", who(&step.target), show(step), show_outcome(outcome.kind)));
        }
        for skipped in report.skipped.iter().filter(|_| report.seen < 5) {
            let reason = serde_json::to_value(skipped.reason).unwrap();
            did.push(format!("{}skipped {}", who(&skipped.target), reason.as_str().unwrap()));
        }
        let delivered: BTreeMap<&str, &str> =
            self.aws.messages.iter().map(|message| (message.team.as_str(), message.severity)).collect();
        let told: Vec<String> = delivered.iter().map(|(team, severity)| format!("{team} ({severity})")).collect();
        let told = if told.is_empty() { String::new() } else { format!(" | notified {}", told.join(", ")) };
        let _ = writeln!(self.log, "{at} {}{told}", did.join(", "));
    }
}

fn show(step: &Step) -> String {
    let rule = step.evidence.rule();
    let Action::Instance(_, action) = &step.action else { panic!("only instances were seen: {step:?}") };
    match action {
        InstanceAction::Announce(Announcement::Mark(mark)) => format!("mark{}", show_announced(mark)),
        InstanceAction::Announce(Announcement::Unmark { remaining, also }) => {
            let remaining = remaining.as_ref().map(|mark| format!(" leaving{}", show_mark(mark))).unwrap_or_default();
            format!("unmark {rule}{remaining}{}", if also.is_some() { " and stopped" } else { "" })
        }
        InstanceAction::Announce(Announcement::Notify) => {
            format!("notify {rule}, {}", step.notify_only.map(|why| format!("{why:?}")).unwrap_or_default())
        }
        InstanceAction::Stop { mark, .. } | InstanceAction::Terminate { mark } => {
            let mark = mark.as_ref().map(|mark| format!("mark{} and ", show_mark(mark))).unwrap_or_default();
            format!("{mark}{} for {rule}", step.action.as_str())
        }
        InstanceAction::Start => "start".to_owned(),
    }
}

fn show_mark(Mark { rule, ending, deadline }: &Mark) -> String {
    format!(" {rule}={ending}@{}", deadline.strftime("%dT%H:%M"))
}

fn show_announced(actions: &AnnouncedActions) -> String {
    let mark = |(rule, announced): (&Rule, &AnnouncedAction)| Mark::earliest([(*rule, *announced)]);
    actions.iter().filter_map(mark).map(|mark| show_mark(&mark)).collect()
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
