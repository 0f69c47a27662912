//! Advice about a budget: the resources whose stop would bring its holder back under it. Those come first whose stop harms the least, and busy
//! ones last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::foreign_text::{describe_name, quoted_unless_word, shell_word};
use model::id::{Region, ResourceId};
use model::moment::after;
use model::money::{Amount, Rate};

use super::{Budget, BudgetMonth, SavingAction, Spend, others};

/// The most running resources that a remedy names.
const NAMED_MAX: usize = 5;

/// Facts of a running machine that a ledger does not have. By default nothing is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    pub usage: LastUsage,
    /// Reason that Curfew does not stop it for idleness.
    pub exemption: Option<IdleExemption>,
    /// NVMe instance storage in GB, which a stop loses.
    pub scratch_gb: u64,
    /// Command that gives up the capacity reservation it runs in.
    pub release_command: Option<String>,
}

/// Usage of a machine when reap-instances queried it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastUsage {
    /// Idle at that time.
    Idle(Timestamp),
    /// Unknown, or known too long ago.
    #[default]
    Unknown,
    /// At work until that time.
    Busy(Timestamp),
}

/// Reason that Curfew does not stop an idle machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdleExemption {
    /// `curfew:keep-until`.
    Kept,
    /// `curfew:protected`.
    Protected,
    /// Tag, configuration, or its kind.
    NotifyOnly,
    /// Another controller, which may replace it.
    Managed(String),
}

/// Place of a machine in the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Idle,
    Exempt,
    Unknown,
    Busy,
}

/// A running resource whose stop saves its rate; or of prepaid capacity, its rate alone.
struct RunningSpend<'a> {
    spend: &'a Spend,
    rate: Rate,
    facts: &'a MachineFacts,
}

/// Returns the steps that would bring the holder back under its budget, or says that none does. Empty if nothing has to change, or without
/// a budget.
pub(super) fn remedy(
    budget: &Budget,
    spends: &[&Spend],
    machines: Option<&BTreeMap<ResourceId, MachineFacts>>,
    period: &BudgetMonth,
    now: Timestamp,
) -> Vec<String> {
    let Some(limit) = budget.budget_usd else { return Vec::new() };
    let unknown = MachineFacts::default();
    let running = |is: &dyn Fn(&Spend) -> bool| {
        let with_rate = spends.iter().copied().filter(|spend| is(spend)).filter_map(|spend| {
            let facts = machines.and_then(|machines| machines.get(&spend.resource)).unwrap_or(&unknown);
            Some(RunningSpend { spend, rate: spend.rate?, facts })
        });
        let mut running: Vec<RunningSpend<'_>> = with_rate.collect();
        running.sort_by_key(|one| (one.place(), one.facts.exemption.is_some(), Reverse(one.rate)));
        running
    };
    let endable = running(&|spend| spend.ends != SavingAction::Nothing);
    let reserved = running(&|spend| spend.ends == SavingAction::Nothing && spend.on.is_none());
    let counted = budget.counted_usd();
    if counted >= limit {
        return remedy_of_spent(counted.saturating_sub(limit), &endable, &reserved, period);
    }
    let burn: Rate = spends.iter().filter_map(|one| one.rate).sum();
    let left = limit.saturating_sub(counted).saturating_sub(budget.reserved_usd);
    let Some(affordable) = left.spread_over(period.seconds_left(now)).filter(|affordable| burn > *affordable) else {
        return Vec::new();
    };
    let lasts = i64::try_from(left.lasts_at(burn).unwrap_or_default()).unwrap_or(i64::MAX);
    let spent_at = after(now, SignedDuration::from_secs(lasts));
    let at_latest = if budget.has_uncounted_spend() { " at the latest" } else { "" };
    let pace = format!(
        "What runs now costs {burn}, which uses up the rest by {spent_at}{at_latest}; {affordable} would last until the month ends at {}.",
        period.to
    );
    let mut rest = burn;
    let is_needed = |one: &&RunningSpend<'_>| {
        let is_needed = rest > affordable;
        rest = rest.less(if is_needed { one.rate } else { Rate::ZERO });
        is_needed
    };
    let chosen = &endable[..endable.iter().take_while(is_needed).count()];
    let ends = match rest > affordable {
        _ if chosen.is_empty() => {
            let none =
                "Stopping instances saves none of that: it is for volumes, or for capacity that is paid for anyway.";
            [none.to_owned()].into_iter().chain(describe_reserved(&reserved)).collect()
        }
        // All of them, and yet too much goes on.
        true => ending("Nothing keeps it until then; to spend it later,", chosen)
            .into_iter()
            .chain(describe_reserved(&reserved))
            .collect(),
        false => ending("To stay within it,", chosen),
    };
    [pace].into_iter().chain(ends).collect()
}

/// Explains that only a larger budget or the next month brings a spent budget back under its limit.
fn remedy_of_spent(
    over: Amount,
    running: &[RunningSpend<'_>],
    reserved: &[RunningSpend<'_>],
    period: &BudgetMonth,
) -> Vec<String> {
    let over = if over.is_a_cent() { format!("it is {over} over") } else { "all of it is spent".to_owned() };
    let nothing = format!(
        "Nothing brings it back under its budget this month: {over}. The next month begins at {}; a larger budget is set by \
         monthly_budget_usd in config/curfew.toml.",
        period.to
    );
    let ends = if running.is_empty() { Vec::new() } else { ending("To spend no more,", running) };
    [nothing].into_iter().chain(ends).chain(describe_reserved(reserved)).collect()
}

/// Names the resources to stop, and the commands that stop them: the last sentences, so that they can be copied.
fn ending(to: &str, running: &[RunningSpend<'_>]) -> Vec<String> {
    let named = &running[..running.len().min(NAMED_MAX)];
    let mut sentences = vec![format!("{to} stop {}.", list(running).join(", "))];
    let ends_by = |action| named.iter().any(|one| one.spend.ends == action && one.spend.job.is_none());
    if ends_by(SavingAction::Terminating) {
        sentences.push(
            "A Spot instance of a one-time request can only be terminated; of a persistent one, cancel the request first."
                .to_owned(),
        );
    }
    if ends_by(SavingAction::EndingSageMaker) {
        sentences.push("Endpoints and apps of SageMaker can only be deleted.".to_owned());
    }
    for (place, label) in [
        (Place::Idle, "The command"),
        (Place::Exempt, "For what is not stopped for idleness, once its owner agrees"),
        (Place::Unknown, "For what is of unknown use, once you have looked at it"),
        (Place::Busy, "For what is busy, if its loss is acceptable"),
    ] {
        let commands = commands(named.iter().filter(|one| one.place() == place));
        sentences.extend((!commands.is_empty()).then(|| format!("{label}: {}", commands.join("; "))));
    }
    sentences
}

/// The commands that stop machines, one a region, and those that end jobs. Another controller would replace what it manages.
fn commands<'a>(running: impl Iterator<Item = &'a RunningSpend<'a>>) -> Vec<String> {
    let mut ids_by_region: BTreeMap<&Region, Vec<&str>> = BTreeMap::new();
    let mut jobs: BTreeSet<&str> = BTreeSet::new();
    for RunningSpend { spend, facts, .. } in running {
        if let Some(job) = &spend.job {
            jobs.insert(job);
        } else if spend.ends == SavingAction::Stopping && !matches!(facts.exemption, Some(IdleExemption::Managed(_))) {
            ids_by_region.entry(&spend.region).or_default().push(spend.resource.as_str());
        }
    }
    let stops = ids_by_region
        .into_iter()
        .map(|(region, ids)| format!("aws ec2 stop-instances --region {region} --instance-ids {}", ids.join(" ")));
    stops.chain(jobs.into_iter().map(|job| format!("curfew cancel {}", shell_word(job)))).collect()
}

/// Prepaid capacity by its cost, and the commands that give it up.
fn describe_reserved(reserved: &[RunningSpend<'_>]) -> Vec<String> {
    if reserved.is_empty() {
        return Vec::new();
    }
    let mut sentences = vec![format!(
        "A stop saves nothing of what runs in a capacity reservation until that is given up: {}.",
        list(reserved).join(", ")
    )];
    let named = reserved.iter().take(NAMED_MAX);
    let commands: BTreeSet<&str> = named.filter_map(|one| one.facts.release_command.as_deref()).collect();
    let commands = Vec::from_iter(commands).join("; ");
    sentences.extend((!commands.is_empty()).then(|| format!("To give it up: {commands}")));
    sentences
}

/// The first ones by their names, and the number of the others.
fn list(running: &[RunningSpend<'_>]) -> Vec<String> {
    let (named, rest) = running.split_at(running.len().min(NAMED_MAX));
    let mut words: Vec<String> = named.iter().map(RunningSpend::describe).collect();
    if !rest.is_empty() {
        let rate: Rate = rest.iter().map(|one| one.rate).sum();
        let busy = rest.iter().filter(|one| one.place() == Place::Busy).count();
        let busy = if busy == 0 { String::new() } else { format!("; {busy} busy") };
        words.push(format!("{} ({rate}{busy})", others(rest.len())));
    }
    words
}

impl RunningSpend<'_> {
    fn place(&self) -> Place {
        match (self.facts.usage, &self.facts.exemption) {
            _ if self.works_by_its_kind() => Place::Busy,
            (LastUsage::Busy(_), _) => Place::Busy,
            (LastUsage::Unknown, _) => Place::Unknown,
            (LastUsage::Idle(_), None) => Place::Idle,
            (LastUsage::Idle(_), Some(_)) => Place::Exempt,
        }
    }

    /// `true` for a machine of a job, and for a job of `SageMaker`: no query says that it is idle.
    fn works_by_its_kind(&self) -> bool {
        let id = self.spend.resource.as_str();
        self.spend.job.is_some() || id.starts_with("training-job/") || id.starts_with("processing-job/")
    }

    /// `i-0abc (g5.xlarge on Spot "bench", us-east-1, $0.40/h; idle at 2026-11-22T11:40:00Z)`.
    fn describe(&self) -> String {
        let Self { spend, rate, facts } = self;
        let spot = if spend.ends == SavingAction::Terminating { " on Spot" } else { "" };
        let name = describe_name(spend.name.as_deref());
        let usage = match (&spend.job, facts.usage) {
            (Some(job), _) => format!("busy with the job {}", quoted_unless_word(job)),
            (None, _) if self.works_by_its_kind() => "busy".to_owned(),
            (None, LastUsage::Idle(at)) => format!("idle at {at}"),
            (None, LastUsage::Busy(until)) => format!("busy until {until}"),
            (None, LastUsage::Unknown) => "use unknown".to_owned(),
        };
        let exemption = facts.exemption.as_ref().map(IdleExemption::describe).unwrap_or_default();
        let work = (self.place() == Place::Busy).then(|| "its work since its last checkpoint".to_owned());
        let scratch = (facts.scratch_gb > 0).then(|| format!("its NVMe scratch ({} GB)", facts.scratch_gb));
        let losses: Vec<String> = work.into_iter().chain(scratch).collect();
        let losses = if losses.is_empty() { String::new() } else { format!(", loses {}", losses.join(" and ")) };
        let Spend { resource, what, region, .. } = spend;
        format!("{resource} ({what}{spot}{name}, {region}, {rate}; {usage}{exemption}{losses})")
    }
}

impl IdleExemption {
    fn describe(&self) -> String {
        match self {
            Self::Kept => ", kept by its owner".to_owned(),
            Self::Protected => ", protected".to_owned(),
            Self::NotifyOnly => ", notify only".to_owned(),
            Self::Managed(controller) => format!(", managed by {controller}: change it there"),
        }
    }
}
