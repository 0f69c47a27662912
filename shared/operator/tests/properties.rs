//! What must hold for every fleet, every tag, every configuration and every memory. The generators know by themselves
//! whom nobody may touch, and the marks are read by a few lines of this file, so that a mistake in the policies is not
//! repeated by the judge.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a property that fails says so by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::hours::{Hours, HoursPosition};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PrepaidCapacity, PurchaseOption};
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::Observation;
use model::rule::{ResourceAction, Rule};
use model::usage::{BusyEvidence, IdleEvidence, MetricSignal, UnknownUsage, Usage};
use notify::{late_notifications, messages, notifications, update_log};
use plan::report::{AuditRecord, OutcomeKind, Report, Response, StepOutcome};
use plan::{Action, Evidence, ObservedResource, Plan, SkipReason, Step, still_holds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use reaping::explain::{Explanation, PlanDecision, RuleExplanation, RuleVerdict};
use reaping::instances::{decide, explain};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
const REGIONS: [&str; 2] = ["eu-central-1", "us-east-1"];

/// One instance, and what its maker knows about it.
#[derive(Debug, Clone)]
struct GeneratedInstance {
    instance: Instance,
    usage: Option<Usage>,
    /// Protected, kept, unreadable or foreign-owned.
    untouchable: bool,
    shadow_mark: Option<String>,
    unwritten_mark: Option<String>,
}

#[derive(Debug, Clone)]
struct GeneratedAccount {
    now: Timestamp,
    fleet: Vec<GeneratedInstance>,
    config: GeneratedConfig,
    ceiling: Mode,
}

/// What a configuration says, beside its text.
#[derive(Debug, Clone)]
struct GeneratedConfig {
    text: String,
    mode: Mode,
    untagged: Mode,
    vision: Option<Mode>,
    spare_busy: bool,
    actions_max: usize,
    share_max: usize,
}

/// What a tag does to whoever carries it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TagEffect {
    None,
    Untouchable,
}

/// In whole seconds, as AWS and people write moments.
fn before(now: Timestamp, minutes: i64) -> Timestamp {
    Timestamp::from_second(now.as_second() - minutes * 60).unwrap()
}

fn moment() -> impl Strategy<Value = Timestamp> {
    // Two weeks from Tuesday, 2026-09-01; whole hours are likely, where hours begin and end.
    let start: Timestamp = "2026-09-01T00:00:00Z".parse().unwrap();
    (0_i64..14 * 24, prop_oneof![2 => Just(0_i64), 3 => 0_i64..60], prop_oneof![3 => Just(0_i64), 1 => 0_i64..60_000])
        .prop_map(move |(hours, minutes, millis)| {
            start + SignedDuration::from_mins(hours * 60 + minutes) + SignedDuration::from_millis(millis)
        })
}

/// Minutes ago at which things happened: around every duration that the configurations know.
fn minutes_ago() -> impl Strategy<Value = i64> {
    select(vec![-1500, -61, -30, -5, 0, 1, 5, 20, 29, 31, 60, 61, 125, 600, 1441, 3000, 8000, 10_079, 10_081, 15_000])
}

fn mark(own: ResourceId, now: Timestamp) -> impl Strategy<Value = String> {
    let entry = (select(Rule::OF_INSTANCES.to_vec()), select(vec!["stop", "terminate"]), minutes_ago());
    (prop::bool::weighted(0.9), vec(entry, 1..4)).prop_map(move |(is_own, entries)| {
        let id = if is_own { own.as_str() } else { "i-copied" };
        let entries: BTreeMap<Rule, String> = entries
            .into_iter()
            .map(|(rule, ending, minutes)| (rule, format!(" {rule}={ending}@{}", before(now, minutes))))
            .collect();
        format!("{id}{}", entries.into_values().collect::<String>())
    })
}

type GeneratedTag = (&'static str, String, TagEffect);

fn tag(own: ResourceId, now: Timestamp, launched_at: Timestamp) -> impl Strategy<Value = GeneratedTag> {
    let fixed = |key, values: &[(&str, TagEffect)]| {
        let values: Vec<GeneratedTag> =
            values.iter().map(|(value, effect)| (key, (*value).to_owned(), *effect)).collect();
        select(values)
    };
    let bad = TagEffect::Untouchable;
    let good = TagEffect::None;
    let expiry = minutes_ago().prop_map(move |minutes| {
        let at = before(now, minutes);
        ("curfew:expires-at", at.to_string(), if at < launched_at { bad } else { good })
    });
    let kept = minutes_ago().prop_map(move |minutes| {
        let until = before(now, minutes);
        ("curfew:keep-until", until.to_string(), if now < until { bad } else { good })
    });
    let kept_date = (-3_i64..3).prop_map(move |days| {
        let date = (now + SignedDuration::from_hours(24 * days)).strftime("%Y-%m-%d").to_string();
        ("curfew:keep-until", date, if days >= 0 { bad } else { good })
    });
    let stopped = (select(vec!["idle", "hours", "untagged", "expired", "budget"]), minutes_ago())
        .prop_map(move |(rule, minutes)| ("curfew:stopped", format!("{rule} {}", before(now, minutes)), good));
    let foreign = select(vec![
        ("aws:autoscaling:groupName", "workers".to_owned(), bad),
        ("eks:cluster-name", "ml".to_owned(), bad),
        ("kubernetes.io/cluster/ml", "owned".to_owned(), bad),
        ("ours", String::new(), bad),
        ("Name", "eks:test".to_owned(), good),
    ]);
    let misspelt = select(vec!["Curfew:Protected", "curfew:keep-untill", "CURFEW", "curfew-mode", "cUrFeW:mode"])
        .prop_map(move |key| (key, "observe".to_owned(), bad));
    prop_oneof![
        3 => fixed("curfew:mode", &[("enforce", good), ("observe", good), ("Enforce", bad)]),
        2 => fixed("curfew:idle-after", &[("30m", good), ("off", good), ("0s", good), ("soon", bad)]),
        2 => fixed("curfew:on-idle", &[("stop", good), ("terminate", good), ("notify", good), ("kill", bad)]),
        2 => fixed("curfew:local-disk", &[("keep", good), ("expendable", good), ("", bad)]),
        3 => fixed("curfew:hours", &[
            ("Mon-Fri 08:00-20:00 UTC", good), ("Mon-Sun 22:00-06:00 Europe/Berlin", good),
            ("Sat,Sun 00:00-24:00 UTC", good), ("9 to 5", bad),
        ]),
        1 => fixed("curfew:protected", &[("", bad), ("false", bad)]),
        1 => fixed("curfew:job", &[("vision/llama-0123abcd", good)]),
        1 => misspelt,
        1 => foreign,
        3 => expiry,
        1 => kept,
        1 => kept_date,
        2 => stopped,
        8 => mark(own, now).prop_map(move |value| ("curfew:marked", value, good)),
        1 => fixed("curfew:marked", &[("yes", bad), ("i-0 idle", bad)]),
    ]
}

fn usage(now: Timestamp) -> impl Strategy<Value = Option<Usage>> {
    let quiet = move |reserved| IdleEvidence {
        from: now - SignedDuration::from_mins(75),
        to: now - SignedDuration::from_mins(15),
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: 0.0,
        cpu_max_vcpus: 0.1,
        network_max_mbps: 0.1,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved,
    };
    prop_oneof![
        6 => Just(Some(Usage::Idle(quiet(false)))),
        1 => Just(Some(Usage::Idle(quiet(true)))),
        2 => Just(Some(Usage::Busy(BusyEvidence { until: now - SignedDuration::from_mins(5), shown: None }))),
        1 => Just(None),
        2 => select(vec![
            UnknownUsage::NotAsked,
            UnknownUsage::Young,
            UnknownUsage::NoMetric,
            UnknownUsage::Uninstrumented { reporting: 7, devices: 8 },
            UnknownUsage::TooFewSamples(MetricSignal::Cpu),
        ]).prop_map(|unknown| Some(Usage::Unknown(unknown))),
    ]
}

fn purchase() -> impl Strategy<Value = PurchaseOption> {
    prop_oneof![
        8 => Just(PurchaseOption::OnDemand),
        2 => Just(PurchaseOption::SpotOneTime),
        1 => Just(PurchaseOption::SpotPersistent),
        1 => Just(PurchaseOption::SpotUnknown),
        1 => Just(PurchaseOption::CapacityBlock),
    ]
}

fn made(place: usize, now: Timestamp) -> impl Strategy<Value = GeneratedInstance> {
    let state = prop_oneof![
        12 => Just(InstanceState::Running),
        3 => Just(InstanceState::Stopped),
        1 => select(vec![InstanceState::Pending, InstanceState::Stopping, InstanceState::ShuttingDown, InstanceState::Unknown]),
    ];
    let operator = prop::option::weighted(0.05, Just("eks.amazonaws.com".to_owned()));
    let storage = select(vec![0_u64, 0, 250]);
    let prepaid = prop::option::weighted(0.1, Just(PrepaidCapacity::CapacityReservation));
    let of_machine = (state, purchase(), operator, storage, prepaid, select(REGIONS.to_vec()));
    (of_machine, minutes_ago(), usage(now)).prop_flat_map(move |(of_machine, minutes, usage)| {
        let id = ResourceId::new(format!("i-{place:02}"));
        let launched_at = before(now, minutes.abs());
        let tags = vec(tag(id.clone(), now, launched_at), 0..4);
        let marks = prop::option::weighted(0.15, mark(id.clone(), now));
        let other_marks = prop::option::weighted(0.15, mark(id.clone(), now));
        let owned = (prop::option::weighted(0.8, select(vec!["vision", "nlp"])), prop::bool::weighted(0.8));
        (tags, owned, marks, other_marks).prop_map(move |(tags, (team, has_owner), shadow_mark, unwritten_mark)| {
            let (state, purchase, operator, storage, prepaid, region) = of_machine.clone();
            let mut effects: BTreeMap<&str, (String, TagEffect)> = BTreeMap::new();
            effects.extend(tags.into_iter().map(|(key, value, effect)| (key, (value, effect))));
            let untouchable = effects.values().any(|(_, effect)| *effect == TagEffect::Untouchable)
                || operator.is_some()
                || purchase == PurchaseOption::CapacityBlock;
            let mut tags: BTreeMap<String, String> =
                effects.into_iter().map(|(key, (value, _))| (key.to_owned(), value)).collect();
            tags.extend(team.map(|team| ("Team".to_owned(), team.to_owned())));
            tags.extend(has_owner.then(|| ("Owner".to_owned(), "ada".to_owned())));
            let instance = Instance {
                id: id.clone(),
                region: region.into(),
                instance_type: "g5.xlarge".into(),
                state,
                launched_at,
                tags,
                purchase,
                root_on_instance_storage: false,
                operator,
                prepaid,
                zone: None,
                plain_linux: true,
                host: None,
                state_reason: None,
                machine: InstanceTypeFacts {
                    accelerator: Accelerator::Nvidia,
                    accelerators: 1,
                    vcpus: 4,
                    instance_storage_gb: storage,
                },
            };
            GeneratedInstance { instance, usage: usage.clone(), untouchable, shadow_mark, unwritten_mark }
        })
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![1 => Just(Mode::Observe), 3 => Just(Mode::Enforce)]
}

fn show_mode(mode: Mode) -> &'static str {
    if mode == Mode::Enforce { "enforce" } else { "observe" }
}

fn configured() -> impl Strategy<Value = GeneratedConfig> {
    let grace = || select(vec!["0s", "5m", "1h", "24h"]);
    let action = || select(vec!["stop", "stop", "terminate", "notify"]);
    let modes = (mode(), mode(), prop::option::of(mode()));
    let limits = (select(vec![0_usize, 1, 2, 10]), select(vec![0_usize, 20, 100]));
    let untagged = (grace(), action(), any::<bool>());
    let idle = (grace(), action(), select(vec!["keep", "expendable"]));
    let lifetime = (grace(), action(), select(vec!["0s", "1h", "7d"]));
    (modes, limits, untagged, idle, lifetime).prop_map(
        |((mode, untagged_mode, vision), (actions_max, share_max), untagged, idle, lifetime)| {
            let of_vision = vision.map_or(String::new(), |mode| format!("mode = \"{}\"", show_mode(mode)));
            let (untagged_grace, untagged_action, spare_busy) = untagged;
            let (idle_grace, idle_action, local_disk) = idle;
            let (lifetime_grace, lifetime_action, lifetime_max) = lifetime;
            let text = format!(
                "mode = \"{}\"\n[managed]\ntag_keys = [\"ours\"]\n\
                 [untagged]\nmode = \"{}\"\ngrace = \"{untagged_grace}\"\naction = \"{untagged_action}\"\nspare_busy = {spare_busy}\n\
                 [idle]\ngrace = \"{idle_grace}\"\naction = \"{idle_action}\"\nlocal_disk = \"{local_disk}\"\n\
                 [lifetime]\nmax = \"{lifetime_max}\"\ngrace = \"{lifetime_grace}\"\naction = \"{lifetime_action}\"\n\
                 [limits]\nactions_max = {actions_max}\nfleet_share_max_percent = {share_max}\n[teams.vision]\n{of_vision}\n",
                show_mode(mode),
                show_mode(untagged_mode),
            );
            GeneratedConfig { text, mode, untagged: untagged_mode, vision, spare_busy, actions_max, share_max }
        },
    )
}

fn given() -> impl Strategy<Value = GeneratedAccount> {
    (moment(), 1_usize..14).prop_flat_map(|(now, size)| {
        let fleet: Vec<_> = (0..size).map(|place| made(place, now)).collect();
        (fleet, configured(), mode()).prop_map(move |(fleet, config, ceiling)| GeneratedAccount {
            now,
            fleet,
            config,
            ceiling,
        })
    })
}

impl GeneratedAccount {
    fn policy(&self) -> Policy {
        let config = Config::read(&self.config.text).unwrap_or_else(|error| panic!("{error}\n{}", self.config.text));
        Policy {
            config,
            ceiling: self.ceiling,
            prices: PriceBook::dated(),
            budgets: BudgetStatuses::default(),
            jobs: JobStates::default(),
        }
    }

    fn world(&self) -> PropertyWorld {
        let mut memory = NotificationLogs::from(REGIONS.map(|region| (region.into(), NotificationLog::default())));
        for made in &self.fleet {
            let notices = memory.get_mut(&made.instance.region).unwrap();
            let id = &made.instance.id;
            notices.shadow_marks.extend(made.shadow_mark.iter().map(|mark| (id.clone(), mark.parse().unwrap())));
            notices.unwritten_marks.extend(made.unwritten_mark.iter().map(|mark| (id.clone(), mark.parse().unwrap())));
        }
        let usages = self.fleet.iter().filter_map(|made| Some((made.instance.id.clone(), made.usage.clone()?)));
        PropertyWorld {
            instances: self.fleet.iter().map(|made| made.instance.clone()).collect(),
            usages: usages.collect(),
            memory,
            policy: self.policy(),
            now: self.now,
            deaf: BTreeSet::new(),
        }
    }

    fn made(&self, step: &Step) -> &GeneratedInstance {
        self.fleet.iter().find(|made| made.instance.id == step.target.resource).unwrap()
    }

    /// The effective mode, by DESIGN's order: own tag, an end of the owner's own, the account for untagged ones, team, account.
    fn mode(&self, instance: &Instance, rule: Rule) -> Mode {
        let tag = |key: &str| instance.tags.get(key).map(String::as_str);
        let of_team = if tag("Team") == Some("vision") { self.config.vision } else { None };
        let lacks_a_tag = tag("Team").is_none() || tag("Owner").is_none();
        let mode = match (tag("curfew:mode"), rule) {
            (Some("enforce"), _) | (None, Rule::Expired | Rule::Hours) => Mode::Enforce,
            (Some(_), _) => Mode::Observe,
            (None, Rule::Untagged) => self.config.untagged,
            (None, _) if lacks_a_tag => self.config.untagged,
            (None, _) => of_team.unwrap_or(self.config.mode),
        };
        mode.min(self.ceiling)
    }
}

/// An account, over which runs are made.
#[derive(Clone)]
struct PropertyWorld {
    instances: Vec<Instance>,
    usages: BTreeMap<ResourceId, Usage>,
    memory: NotificationLogs,
    policy: Policy,
    now: Timestamp,
    /// Teams whose messages are not taken.
    deaf: BTreeSet<&'static str>,
}

/// What one run wrote and told.
struct RunEffects {
    plan: Plan,
    writes: Vec<String>,
    told: Vec<String>,
    /// Announcements that were taken, as marks say them: `i-01 idle=stop@…`.
    announced: Vec<String>,
}

impl PropertyWorld {
    fn plan(&self) -> Plan {
        let seen = Observation { items: self.instances.clone(), gaps: Vec::new() };
        decide(&seen, &self.usages, &self.memory, &self.policy, self.now)
    }

    /// Plans and carries out, in the order of the contract: act, tell, mark, remember.
    fn run(&mut self) -> RunEffects {
        let plan = self.plan();
        let home = Region::from(REGIONS[0]);
        let regions = REGIONS.map(Region::from).to_vec();
        let mut report =
            Report::from_plan(plan.clone(), "reap-instances", "run".into(), self.now, Mode::Enforce, regions);
        let mut writes = Vec::new();
        for (step, outcome) in &mut report.steps {
            if !matches!(step.action, Action::Mark(_)) {
                *outcome = self.carry_out(step, &mut writes);
            }
        }
        let told = notifications(&report, &self.memory, &home, self.now);
        let sent = messages(&report, &told, &self.memory).into_iter().map(|message| message.team);
        let delivered: BTreeSet<String> = sent.filter(|team| !self.deaf.contains(team.as_str())).collect();
        let mut announced = Vec::new();
        for (step, outcome) in &mut report.steps {
            let team = step.target.team.as_ref().map_or("untagged", |team| team.as_str());
            if let Action::Mark(mark) = &step.action
                && (step.already_notified || delivered.contains(team))
            {
                let said = |(rule, said): (&Rule, &AnnouncedAction)| {
                    format!("{} {rule}={}@{}", mark.resource, said.ending, said.deadline)
                };
                announced.extend(mark.entries.iter().map(said).filter(|_| !step.already_notified));
                *outcome = self.carry_out(step, &mut writes);
            }
        }
        let late = late_notifications(&report, &told, &self.memory, &home, self.now);
        self.memory = update_log(&self.memory, &report, &told, &late, &delivered, self.now);
        serde_json::to_string(&Response::from_report(&report)).unwrap();
        serde_json::to_string(&AuditRecord::from_report(&report)).unwrap();
        let told = told.iter().filter(|one| delivered.contains(&one.team));
        let told = told.map(|one| format!("{:?} {}", one.resource, one.text)).collect();
        RunEffects { plan, writes, told, announced }
    }

    fn carry_out(&mut self, step: &Step, writes: &mut Vec<String>) -> StepOutcome {
        if let Some(held) = step.held {
            return StepOutcome::with(OutcomeKind::NotReached, held.to_string());
        }
        if step.mode == Mode::Observe {
            return StepOutcome::from_kind(OutcomeKind::Observed);
        }
        if step.action != Action::Notify {
            writes.push(format!("{} {:?}", step.target.resource, step.action));
        }
        let instance = self.instances.iter_mut().find(|instance| instance.id == step.target.resource).unwrap();
        let marked = || "curfew:marked".to_owned();
        match &step.action {
            Action::Notify | Action::Hold => {}
            Action::Mark(mark) => drop(instance.tags.insert(marked(), mark.to_string())),
            Action::Unmark { remaining, also } => {
                instance.tags.remove("curfew:marked");
                instance.tags.extend(remaining.iter().map(|mark| (marked(), mark.to_string())));
                if also.is_some() {
                    instance.tags.remove("curfew:stopped");
                }
            }
            Action::Stop { stopped, .. } => {
                instance.state = InstanceState::Stopped;
                instance.tags.remove("curfew:marked");
                instance.tags.insert("curfew:stopped".to_owned(), stopped.clone());
            }
            Action::Terminate { .. } => instance.state = InstanceState::ShuttingDown,
            Action::Start => {
                instance.state = InstanceState::Pending;
                instance.launched_at = self.now;
            }
            Action::Date { .. } | Action::Snapshot { .. } | Action::Delete { .. } => {
                panic!("an instance takes no {}", step.action.as_str())
            }
        }
        StepOutcome::from_kind(OutcomeKind::Done)
    }
}

fn instance(step: &Step) -> &Instance {
    step.seen.instance().unwrap()
}

/// What a mark on an instance says of a rule: ending and deadline. Nothing where it is another's.
fn said(instance: &Instance, rule: Rule) -> Option<(&str, Timestamp)> {
    let mut words = instance.tags.get("curfew:marked")?.split(' ');
    if words.next() != Some(instance.id.as_str()) {
        return None;
    }
    let entry = words.find_map(|word| word.strip_prefix(rule.as_str())?.strip_prefix('='))?;
    let (ending, deadline) = entry.split_once('@').unwrap();
    Some((ending, deadline.parse().unwrap()))
}

fn ending(action: &Action) -> Option<ResourceAction> {
    match action {
        Action::Stop { .. } => Some(ResourceAction::Stop),
        Action::Terminate { .. } => Some(ResourceAction::Terminate),
        _ => None,
    }
}

/// An end that was carried out was announced on the resource, as harshly at least, for this life, and is due.
fn check_announced(step: &Step, now: Timestamp) {
    let Some(ending) = ending(&step.action) else { return };
    let rule = step.evidence.rule();
    if step.mode == Mode::Observe || rule == Rule::Expired {
        return;
    }
    let Some((announced, deadline)) = said(instance(step), rule) else {
        panic!("{} is ended for {rule}, which is not on it: {:?}", step.target.resource, step.seen.tags())
    };
    assert!(announced == ending.as_str() || announced == "terminate", "announced {announced}, and is to {ending}");
    assert!(deadline <= now, "{deadline} lies ahead of {now}");
    assert!(deadline >= instance(step).launched_at, "{deadline} is of an earlier life");
    assert!(now.duration_since(deadline) <= WEEK, "{deadline} is long forgotten");
}

/// An end has its reason in what is known of the instance, whatever its mode.
fn check_reason(step: &Step, usage: Option<&Usage>, spare_busy: bool, now: Timestamp) {
    if ending(&step.action).is_none() {
        return;
    }
    assert_eq!(instance(step).state, InstanceState::Running);
    if matches!(step.evidence, Evidence::Repeated(_)) {
        assert_eq!(step.mode, Mode::Observe, "nothing is ended without fresh evidence");
        return;
    }
    let tag = |key: &str| step.seen.tags().get(key);
    match step.evidence.rule() {
        Rule::Idle => assert!(matches!(usage, Some(Usage::Idle(quiet)) if !quiet.reserved), "{usage:?}"),
        Rule::Untagged => {
            assert!(tag("Team").is_none() || tag("Owner").is_none());
            let may_work = matches!(usage, None | Some(Usage::Busy(_) | Usage::Unknown(UnknownUsage::NotAsked)));
            assert!(!spare_busy || !may_work, "{usage:?}");
        }
        Rule::Expired => assert!(tag("curfew:expires-at").unwrap().parse::<Timestamp>().unwrap() <= now),
        Rule::Hours => {
            let hours = Hours::read(tag("curfew:hours").unwrap()).unwrap();
            assert!(matches!(hours.position(now), HoursPosition::Outside { .. }), "within its hours");
        }
        Rule::Lifetime => assert_eq!(tag("curfew:expires-at"), None),
        Rule::OverBudget => panic!("nobody has a budget"),
        Rule::Orphaned => panic!("an instance is no volume"),
    }
}

fn check_limits(plan: &Plan, fleet: usize, config: &GeneratedConfig) {
    let inferred = |step: &&Step| !matches!(step.evidence.rule(), Rule::Expired | Rule::Hours);
    let ends = plan.steps.iter().filter(|step| step.mode == Mode::Enforce && ending(&step.action).is_some());
    let ended = ends.clone().filter(inferred).filter(|step| step.held.is_none()).count();
    assert!(ended <= config.actions_max, "{ended} ends, {} at most", config.actions_max);
    assert!(fleet < 10 || ended * 100 <= fleet * config.share_max, "{ended} of {fleet}, {} %", config.share_max);
    assert!(ends.filter(|step| !inferred(step)).all(|step| step.held.is_none()), "an owner's own end is held");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_is_in_the_plan_once_and_the_untouchable_are_spared(given in given()) {
        let plan = given.world().plan();
        let in_steps = plan.steps.iter().map(|step| &step.target.resource);
        let mut found: Vec<&ResourceId> = in_steps.chain(plan.skipped.iter().map(|one| &one.target.resource)).collect();
        found.sort();
        let expected: Vec<&ResourceId> = given.fleet.iter().map(|made| &made.instance.id).collect();
        prop_assert_eq!(found, expected);
        for step in &plan.steps {
            let made = given.made(step);
            prop_assert!(!made.untouchable, "{} {:?}", step.target.resource, step.action);
            prop_assert_eq!(instance(step), &made.instance);
            prop_assert_eq!(still_holds(step, &ObservedResource::Instance(made.instance.clone())), Ok(()));
        }
    }

    #[test]
    fn only_what_is_enforced_is_written(given in given()) {
        for step in given.world().plan().steps {
            let made = given.made(&step);
            prop_assert_eq!(step.mode, given.mode(&made.instance, step.evidence.rule()), "{:?}", step);
            if let (Mode::Enforce, Action::Mark(mark)) = (step.mode, &step.action) {
                prop_assert!(mark.entries.keys().all(|rule| given.mode(&made.instance, *rule) == Mode::Enforce));
                prop_assert_eq!(&mark.resource, &made.instance.id);
            }
        }
    }

    #[test]
    fn every_end_has_a_reason_an_announcement_and_room_within_the_limits(given in given()) {
        let plan = given.world().plan();
        for step in &plan.steps {
            check_reason(step, given.made(step).usage.as_ref(), given.config.spare_busy, given.now);
            check_announced(step, given.now);
            if step.action == Action::Start {
                prop_assert_eq!(instance(step).state, InstanceState::Stopped);
                prop_assert!(step.seen.tags().contains_key("curfew:stopped"));
                let hours = Hours::read(&step.seen.tags()["curfew:hours"]).unwrap();
                let within = matches!(hours.position(given.now), HoursPosition::Inside { .. });
                prop_assert!(within);
            }
        }
        check_limits(&plan, given.fleet.len(), &given.config);
    }

    /// What nobody can judge keeps what was announced for idleness, as long as that binds.
    #[test]
    fn the_unknown_is_never_unmarked(given in given()) {
        for step in given.world().plan().steps {
            let (Action::Mark(_) | Action::Unmark { .. }, Mode::Enforce) = (&step.action, step.mode) else { continue };
            let made = given.made(&step);
            let tag = |key: &str| made.instance.tags.get(key).map(String::as_str);
            let unknown = matches!(made.usage, None | Some(Usage::Unknown(_))) && made.usage != Some(Usage::Unknown(UnknownUsage::Young));
            let Some((_, deadline)) = said(&made.instance, Rule::Idle).filter(|_| unknown) else { continue };
            let binds = deadline >= made.instance.launched_at && given.now.duration_since(deadline) <= WEEK;
            let judged = given.mode(&made.instance, Rule::Idle) == Mode::Enforce && tag("curfew:idle-after") != Some("off");
            if binds && judged && tag("curfew:keep-until").is_none() {
                let after = match &step.action {
                    Action::Mark(mark) => Some(mark),
                    Action::Unmark { remaining, .. } => remaining.as_ref(),
                    _ => None,
                };
                let kept = after.is_some_and(|mark| mark.entries.contains_key(&Rule::Idle));
                prop_assert!(kept, "{:?}", step.action);
            }
        }
    }

    #[test]
    fn the_same_observation_gives_the_same_plan(given in given(), turn in 0_usize..14) {
        let world = given.world();
        let mut shuffled = world.clone();
        shuffled.instances.reverse();
        let middle = turn % shuffled.instances.len();
        shuffled.instances.rotate_left(middle);
        prop_assert_eq!(world.plan(), shuffled.plan());
        prop_assert_eq!(world.plan(), world.plan());
    }

    /// Repeated at one instant, runs settle: nothing is written or told twice, and soon nothing is written or told at all.
    #[test]
    fn planning_again_repeats_nothing(given in given()) {
        let mut world = given.world();
        let mut before: BTreeSet<String> = BTreeSet::new();
        let mut quiet = false;
        for run in 0..8 {
            let did = world.run();
            for one in did.writes.iter().chain(&did.told) {
                prop_assert!(before.insert(one.clone()), "again in run {run}: {one}");
            }
            quiet = did.writes.is_empty() && did.told.is_empty();
            if quiet {
                break;
            }
        }
        prop_assert!(quiet, "never settles");
    }
}

/// What happens between two runs of a history.
#[derive(Debug, Clone)]
struct HistoryStep {
    minutes: i64,
    usages: Vec<Option<Usage>>,
    tag: Option<(usize, GeneratedTag)>,
    untag: Option<(usize, &'static str)>,
    deaf: bool,
}

fn turn() -> impl Strategy<Value = HistoryStep> {
    let start: Timestamp = "2026-09-01T00:00:00Z".parse().unwrap();
    let tag = (0_usize..4).prop_flat_map(move |place| {
        let other = ResourceId::new("i-copied");
        (Just(place), tag(other, start, start).prop_filter("marks are Curfew's", |(key, ..)| *key != "curfew:marked"))
    });
    let removable = vec!["Team", "Owner", "curfew:mode", "curfew:keep-until", "curfew:protected", "curfew:hours"];
    (
        prop_oneof![4 => select(vec![5_i64, 10, 60, 65]), 1 => select(vec![600_i64, 1440, 1445, 11_000])],
        vec(usage(start), 4),
        prop::option::weighted(0.15, tag),
        prop::option::weighted(0.1, (0_usize..4, select(removable))),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(minutes, usages, tag, untag, deaf)| HistoryStep { minutes, usages, tag, untag, deaf })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over any history, nothing is ended of which its team has not heard before: this end, from that moment on.
    #[test]
    fn nobody_is_ended_unheard(config in configured(), ceiling in mode(), fleet in vec(made(0, history_start()), 4), turns in vec(turn(), 2..14)) {
        let mut given = GeneratedAccount { now: history_start(), fleet, config, ceiling };
        for (place, made) in given.fleet.iter_mut().enumerate() {
            made.instance.id = ResourceId::new(format!("i-{place:02}"));
            made.instance.tags.remove("curfew:marked");
            made.shadow_mark = None;
            made.unwritten_mark = None;
        }
        let mut world = given.world();
        let mut heard: BTreeSet<String> = BTreeSet::new();
        for turn in turns {
            world.now += SignedDuration::from_mins(turn.minutes);
            world.deaf = if turn.deaf { BTreeSet::from(["vision", "untagged"]) } else { BTreeSet::new() };
            for (instance, usage) in world.instances.iter_mut().zip(&turn.usages) {
                match usage {
                    Some(usage) => drop(world.usages.insert(instance.id.clone(), usage.clone())),
                    None => drop(world.usages.remove(&instance.id)),
                }
                if instance.state == InstanceState::Pending {
                    instance.state = InstanceState::Running;
                }
            }
            if let Some((place, (key, value, _))) = turn.tag {
                world.instances[place].tags.insert(key.to_owned(), value);
            }
            if let Some((place, key)) = turn.untag {
                world.instances[place].tags.remove(key);
            }
            let now = world.now;
            let usages = world.usages.clone();
            let did = world.run();
            check_limits(&did.plan, 4, &given.config);
            for step in &did.plan.steps {
                check_reason(step, usages.get(&step.target.resource), given.config.spare_busy, now);
                check_announced(step, now);
                let rule = step.evidence.rule();
                let ended = step.mode == Mode::Enforce && step.held.is_none() && ending(&step.action).is_some();
                if ended && rule != Rule::Expired {
                    let (announced, deadline) = said(instance(step), rule).unwrap();
                    let said = format!("{} {rule}={announced}@{deadline}", step.target.resource);
                    prop_assert!(heard.contains(&said), "nobody heard {said}; heard {heard:?}");
                }
            }
            heard.extend(did.announced);
        }
    }
}

impl PropertyWorld {
    /// What is said of one of its instances.
    fn explained(&self, instance: &Instance) -> Explanation {
        let usage = self.usages.get(&instance.id);
        explain(instance, usage, &self.memory[&instance.region], &self.policy, self.now).unwrap()
    }
}

/// What is said of the rules is what the step does.
fn check_explained(explained: &Explanation, step: &Step, now: Timestamp) {
    let of = |rule: Rule| -> &RuleExplanation { explained.rules.iter().find(|row| row.rule == rule).unwrap() };
    match &step.action {
        Action::Mark(mark) => {
            for (rule, said) in mark.entries.iter().filter(|(rule, _)| of(**rule).mode.mode == step.mode) {
                let row = of(*rule);
                assert_eq!((row.action, row.deadline), (Some(said.ending.as_str()), Some(said.deadline)), "{row:?}");
                assert!(row.announced || row.verdict == RuleVerdict::Violated, "{row:?}");
            }
        }
        Action::Stop { .. } | Action::Terminate { .. } => {
            let row = of(step.evidence.rule());
            let not_asked_again = matches!(step.evidence, Evidence::Repeated(_));
            assert!(!not_asked_again || step.mode == Mode::Observe, "{step:?}");
            let finds = if not_asked_again { RuleVerdict::Unknown } else { RuleVerdict::Violated };
            assert_eq!((row.verdict, row.deadline, row.mode.mode), (finds, step.deadline, step.mode), "{row:?}");
            assert!(row.announced || row.rule == Rule::Expired, "{row:?}");
            assert!(row.deadline.unwrap() <= now, "{row:?}");
            assert_eq!(row.when.contains("by the next run"), step.mode == Mode::Enforce, "{row:?}");
        }
        Action::Notify => {
            let row = of(step.evidence.rule());
            assert_eq!(
                (row.verdict, row.notify_only, row.mode.mode),
                (RuleVerdict::Violated, step.notify_only, step.mode),
                "{row:?}"
            );
        }
        Action::Unmark { .. } | Action::Start => {}
        action => panic!("an instance takes no {}", action.as_str()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// What is explained of one is what the plan for all says of it, limits aside, which count all.
    #[test]
    fn what_is_explained_is_what_is_planned(given in given()) {
        let world = given.world();
        let plan = world.plan();
        for made in &given.fleet {
            let explained = world.explained(&made.instance);
            prop_assert_eq!(explained.skipped.is_some(), made.untouchable, "{:?}", explained);
            let rules: Vec<Rule> = explained.rules.iter().map(|row| row.rule).collect();
            prop_assert_eq!(rules, Rule::OF_INSTANCES);
            let step = plan.steps.iter().find(|step| step.target.resource == made.instance.id);
            let skipped = plan.skipped.iter().find(|skipped| skipped.target.resource == made.instance.id);
            match (&explained.decision, step, skipped) {
                (PlanDecision::Step(said), Some(step), None) => {
                    let (said, step) = (Step { held: None, ..Step::clone(said) }, Step { held: None, ..step.clone() });
                    prop_assert_eq!(&said, &step);
                    check_explained(&explained, &step, given.now);
                }
                (PlanDecision::Skipped(said), None, Some(skipped)) => {
                    prop_assert_eq!(said.as_ref(), skipped);
                    let announced = explained.rules.iter().any(|row| row.announced);
                    prop_assert!(skipped.reason != SkipReason::Marked || announced, "{:?}", explained);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    /// Each rule's mode is the one that the contract gives it, and each says everything that people read.
    #[test]
    fn every_rule_is_explained_in_its_mode(given in given()) {
        let world = given.world();
        for made in given.fleet.iter().filter(|made| !made.untouchable) {
            for row in world.explained(&made.instance).rules {
                prop_assert_eq!(row.mode.mode, given.mode(&made.instance, row.rule).min(given.ceiling), "{:?}", row);
                prop_assert!(!row.evidence.is_empty() && !row.when.is_empty(), "{:?}", row);
                // Nobody here can say anything of jobs, so what names one knows only its expiry.
                let names_a_job = made.instance.tags.contains_key("curfew:job") && row.rule != Rule::Expired;
                let is_judged = made.instance.state == InstanceState::Running && !names_a_job;
                prop_assert_eq!(row.verdict != RuleVerdict::NotJudged, is_judged, "{:?}", row);
            }
        }
    }
}

fn history_start() -> Timestamp {
    "2026-09-01T00:00:00Z".parse().unwrap()
}
