//! Idle time of instances before a person, or Curfew, ended it.

use std::collections::BTreeMap;

use billing::ledger::{Ledger, TimeSpan};
use billing::savings::EndingAction;
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::known_sum::KnownSum;
use model::money::Amount;
use plan::report::OutcomeKind;

use crate::DayActions;
use crate::spend::team_label;

/// Idle time that Curfew announced, of one team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IdleTime {
    pub(crate) seconds: u64,
    pub(crate) cost: KnownSum<Amount>,
}

/// Returns the idle time by team: from the first announcement that an instance is idle until the mark is removed, the instance is stopped,
/// or the span ends. Idle time before the announcement is not counted.
pub(crate) fn idle_times(days: &[DayActions], ledgers: &[Ledger], span: TimeSpan) -> BTreeMap<String, IdleTime> {
    let spans = announced_spans(days, span.to);
    let mut all: BTreeMap<String, IdleTime> = BTreeMap::new();
    for run in ledgers.iter().flat_map(Ledger::runs) {
        let idle_spans = run.region.and_then(|region| spans.get(&(region, run.resource)));
        for idle in idle_spans.into_iter().flatten() {
            for share in run.shares(idle.within(span)) {
                let team_idle = all.entry(team_label(share.team)).or_default();
                team_idle.seconds = team_idle.seconds.saturating_add(run.running_time(share.span).least_seconds);
                team_idle.cost = team_idle.cost + run.spent(share.span).priced_sum();
            }
        }
    }
    all.retain(|_, idle| idle.seconds > 0);
    all
}

/// Returns the spans in which each resource of a region was announced as idle. A mark of an earlier month is not known here.
fn announced_spans(days: &[DayActions], now: Timestamp) -> BTreeMap<(&Region, &ResourceId), Vec<TimeSpan>> {
    let mut actions: Vec<_> = days.iter().flat_map(|day| &day.actions).collect();
    actions.sort_by_key(|action| action.first_at);
    let mut spans: BTreeMap<(&Region, &ResourceId), Vec<TimeSpan>> = BTreeMap::new();
    for action in actions {
        let resource_spans = spans.entry((&action.region, &action.resource)).or_default();
        let open = resource_spans.last_mut().filter(|span| span.to == now);
        let has_ended = action.outcome == OutcomeKind::Done && EndingAction::read(&action.action).is_some();
        match (open, has_ended || action.action == "unmark") {
            (Some(span), true) => span.to = action.first_at,
            (None, false) if action.rule == "idle" => resource_spans.push(TimeSpan { from: action.first_at, to: now }),
            _ => {}
        }
    }
    spans
}
