//! A budget in words: where it stands, on what the money was spent, and what would bring its holder back under it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use model::config::OverBudget;
use model::duration;
use model::foreign_text::{describe_name, describe_owner, quoted_unless_word};
use model::id::{Region, ResourceId};
use model::mode::Mode;
use model::moment::after;
use model::money::{Amount, Rate};

use super::{Budget, BudgetHolder, BudgetMonth, BudgetVerdict, SavingAction, Spend, Spender, observation_gap};

/// The most running resources that a remedy names for a stop.
const NAMED_MAX: usize = 5;

/// The whole notification about a budget: one paragraph.
#[must_use]
pub fn describe_budget(holder: &BudgetHolder, budget: &Budget, percent: u64) -> String {
    let whose = match holder {
        BudgetHolder::Account => "The account".to_owned(),
        BudgetHolder::Team(team) => format!("Team {}", quoted_unless_word(team.as_str())),
    };
    let limit = budget.budget_usd.unwrap_or_default();
    let as_of = budget.as_of.map(|at| at.to_string()).unwrap_or_default();
    let mut text = format!(
        "{whose} has spent {} of its budget of {limit} for {} ({percent} %), as of {as_of}",
        budget.spent_usd, budget.month
    );
    if budget.reserved_usd.is_a_cent() {
        let _ = write!(text, "; {} more is reserved for jobs", budget.reserved_usd);
    }
    let left = budget.remaining_usd.unwrap_or_default();
    let at_least = if budget.uncertain_usd.is_a_cent() && left.is_a_cent() { "at least " } else { "" };
    let _ = write!(text, "; {at_least}{left} is left.");
    for sentence in consequence(budget).into_iter().chain(made_up_of(budget)).chain(unknown(budget)) {
        text.push(' ');
        text += &sentence;
    }
    if let Some(forecast) = budget.forecast_usd {
        let _ = write!(text, " By the end of the month, {forecast} will be spent: {}.", budget.forecast_method);
    }
    for sentence in &budget.remedy {
        text.push(' ');
        text += sentence;
    }
    text
}

/// Describes the action of a spent budget, now or later.
fn consequence(budget: &Budget) -> Option<String> {
    let observed = budget.mode == Mode::Observe;
    let is = if observed { "would be" } else { "is" };
    let stops = format!("what runs {is} stopped, each after its own announcement");
    match (budget.verdict, budget.over_budget?) {
        (BudgetVerdict::Ok, OverBudget::Hold) => Some(format!("Once it is spent, no further job {is} launched.")),
        (BudgetVerdict::Ok, OverBudget::Stop) => {
            Some(format!("Once it is spent, no further job {is} launched, and {stops}."))
        }
        (BudgetVerdict::Ok, OverBudget::Notify) | (BudgetVerdict::Notify, _) => None,
        (BudgetVerdict::Hold, _) => Some(format!("No further job {is} launched this month.")),
        (BudgetVerdict::Stop, _) => Some(format!("No further job {is} launched this month, and {stops}.")),
    }
}

/// The spenders, the dearest first.
fn made_up_of(budget: &Budget) -> Option<String> {
    if budget.top.is_empty() {
        return None;
    }
    let mut named: Vec<String> = budget.top.iter().map(spender).collect();
    if budget.others.count > 0 {
        named.push(format!("{} {}", others(budget.others.count), budget.others.usd));
    }
    Some(format!("The most was spent on {}.", named.join("; ")))
}

/// `i-0abc (g5.xlarge "bench", owner "ada", us-east-1) $12.30, still running at $1.01/h`.
fn spender(one: &Spender) -> String {
    let (name, owner) = (describe_name(one.name.as_deref()), describe_owner(one.owner.as_deref()));
    let runs = match (one.running, one.usd_per_hour) {
        (true, Some(usd)) => {
            format!(", still running at {}", Rate::from_usd_micros_per_hour(Amount::from_usd(usd).usd_micros()))
        }
        (true, None) => ", still running at an unknown price".to_owned(),
        (false, _) => String::new(),
    };
    format!("{} ({}{name}, {owner}, {}) {}{runs}", one.resource, one.what, one.region, one.usd)
}

/// Describes the gaps of the figures.
fn unknown(budget: &Budget) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((first, rest)) = budget.unpriced.split_first() {
        let time = SignedDuration::from_secs(i64::try_from(first.seconds).unwrap_or(i64::MAX));
        let others = if rest.is_empty() { String::new() } else { format!("; and {}", others(rest.len())) };
        found.push(format!(
            "Not counted, because the price is unknown: {} ({}, {}), which ran for {}{others}.",
            first.resource,
            first.what,
            first.region,
            duration::format_duration(time)
        ));
    }
    if !budget.tables.is_empty() {
        let tables: Vec<&str> = budget.tables.iter().map(String::as_str).collect();
        found.push(format!("Some prices are not from the Price List, but from the {}.", tables.join(", and of the ")));
    }
    if budget.uncertain_usd.is_a_cent() {
        found.push(format!(
            "Up to {} more may be spent, on resources with an unobserved stop, or not seen since.",
            budget.uncertain_usd
        ));
    }
    if let Some(blind) = budget.blind_since {
        found.push(format!("Something that runs was last seen at {blind}: what it cost since is not counted."));
    }
    found.extend(
        observation_gap::describe_gaps(&budget.observation_gaps).map(|gap| format!("Curfew did not observe {gap}.")),
    );
    found
}

/// `1 other`, `2 others`.
fn others(count: usize) -> String {
    if count == 1 { "1 other".to_owned() } else { format!("{count} others") }
}

/// Returns the steps that would bring the holder back under its budget, or says that none does. Empty if nothing has to change, or without
/// a budget.
pub(super) fn remedy(budget: &Budget, spends: &[&Spend], period: &BudgetMonth, now: Timestamp) -> Vec<String> {
    let Some(limit) = budget.budget_usd else { return Vec::new() };
    let burn: Rate = spends.iter().filter_map(|one| one.rate).sum();
    let endable = spends.iter().filter(|one| one.ends != SavingAction::Nothing);
    let mut running: Vec<(&Spend, Rate)> = endable.filter_map(|one| Some((*one, one.rate?))).collect();
    running.sort_by_key(|(_, rate)| std::cmp::Reverse(*rate));
    if budget.spent_usd >= limit {
        return remedy_of_spent(budget.spent_usd.saturating_sub(limit), &running, period);
    }
    let left = limit.saturating_sub(budget.spent_usd).saturating_sub(budget.reserved_usd);
    let Some(affordable) = left.spread_over(period.seconds_left(now)).filter(|affordable| burn > *affordable) else {
        return Vec::new();
    };
    let lasts = i64::try_from(left.lasts_at(burn).unwrap_or_default()).unwrap_or(i64::MAX);
    let spent_at = after(now, SignedDuration::from_secs(lasts));
    let pace = format!(
        "What runs now costs {burn}, which uses up the rest by {spent_at}; {affordable} would last until the month ends at {}.",
        period.to
    );
    let mut rest = burn;
    let enough = running.iter().copied().take_while(|(_, rate)| {
        let goes = rest > affordable;
        rest = rest.less(if goes { *rate } else { Rate::ZERO });
        goes
    });
    let chosen: Vec<(&Spend, Rate)> = enough.collect();
    let ends = match rest > affordable {
        _ if chosen.is_empty() => {
            vec![
                "Stopping instances saves none of that: it is for volumes, or for capacity that is paid for anyway."
                    .to_owned(),
            ]
        }
        // All of them, and yet too much goes on.
        true => ending("Nothing keeps it until then; to spend it later,", &chosen),
        false => ending("To stay within it,", &chosen),
    };
    [pace].into_iter().chain(ends).collect()
}

/// Explains that only a larger budget or the next month brings a spent budget back under its limit.
fn remedy_of_spent(over: Amount, running: &[(&Spend, Rate)], period: &BudgetMonth) -> Vec<String> {
    let over = if over.is_a_cent() { format!("it is {over} over") } else { "all of it is spent".to_owned() };
    let nothing = format!(
        "Nothing brings it back under its budget this month: {over}. The next month begins at {}; a larger budget is set by \
         monthly_budget_usd in config/curfew.toml.",
        period.to
    );
    let ends = if running.is_empty() { Vec::new() } else { ending("To spend no more,", running) };
    [nothing].into_iter().chain(ends).collect()
}

/// Names the resources to stop, and the commands that stop them: the last sentence, so that they can be copied.
fn ending(to: &str, running: &[(&Spend, Rate)]) -> Vec<String> {
    let (named, rest) = running.split_at(running.len().min(NAMED_MAX));
    let mut words: Vec<String> = named.iter().map(|(one, rate)| endable(one, *rate)).collect();
    if !rest.is_empty() {
        let rate: Rate = rest.iter().map(|(_, rate)| *rate).sum();
        words.push(format!("{} ({rate})", others(rest.len())));
    }
    let mut sentences = vec![format!("{to} stop {}.", words.join(", "))];
    if named.iter().any(|(one, _)| one.ends == SavingAction::Terminating) {
        sentences.push(
            "A Spot instance of a one-time request can only be terminated; of a persistent one, cancel the request first."
                .to_owned(),
        );
    }
    if named.iter().any(|(one, _)| one.ends == SavingAction::EndingSageMaker) {
        sentences.push("Endpoints and apps of SageMaker can only be deleted.".to_owned());
    }
    let mut by_region: BTreeMap<&Region, Vec<&ResourceId>> = BTreeMap::new();
    for (one, _) in named.iter().filter(|(one, _)| one.ends == SavingAction::Stopping) {
        by_region.entry(&one.region).or_default().push(&one.resource);
    }
    let command = |(region, ids): (&Region, Vec<&ResourceId>)| {
        let ids = ids.into_iter().map(ResourceId::as_str).collect::<Vec<_>>().join(" ");
        format!("aws ec2 stop-instances --region {region} --instance-ids {ids}")
    };
    let commands: Vec<String> = by_region.into_iter().map(command).collect();
    sentences.extend((!commands.is_empty()).then(|| format!("The command: {}", commands.join("; "))));
    sentences
}

/// `i-0abc (g5.xlarge on Spot, us-east-1, $0.40/h)`.
fn endable(one: &Spend, rate: Rate) -> String {
    let spot = if one.ends == SavingAction::Terminating { " on Spot" } else { "" };
    format!("{} ({}{spot}, {}, {rate})", one.resource, one.what, one.region)
}
