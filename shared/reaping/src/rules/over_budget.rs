//! **Over budget**, if and only if
//! - the configuration says `over_budget = "stop"` for the team of an instance, or of a resource of `SageMaker`, or for the account,
//! - and that budget is spent this month, by a beat of this month no older than [`STALE_AFTER`], both by the budget at that beat and by
//!   the present one: a raised budget counts before the next beat.
//!
//! Without such a beat it is unknown.
//!
//! Its mode is at most that of the budget's holder: the budget of an account in observe mode stops nothing of a team in enforce mode.
//! If only one of the two budgets is enforced, only that one is judged.
//!
//! What serves in `SageMaker` may be in production: while it is used, Curfew only notifies.

use billing::budget;
use billing::budget::{BudgetHolder, BudgetLimit, BudgetMonth, BudgetStatus, OverBudgetEvidence, STALE_AFTER};
use jiff::Timestamp;
use model::ceiling::Ceiling;
use model::config::{OverBudget as OverBudgetAction, RuleAction};
use model::mode::Mode;
use model::money::Amount;
use model::ownership::team_of;
use model::rule::Rule;
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts};

use super::RunningRule;
use crate::policy::{ModeSource, Verdict, Violation};
use crate::subject::Subject;

pub(crate) struct OverBudget;

impl RunningRule for OverBudget {
    fn rule(&self) -> Rule {
        Rule::OverBudget
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let mut verdict = Verdict::Compliant;
        for (holder, limit) in stopping(subject) {
            match current_status(&holder, subject) {
                None => verdict = Verdict::Unknown,
                Some(status) if is_spent(status, &limit) => {
                    return subject.unless_serving(violation(&holder, &limit, status, subject));
                }
                Some(_) => {}
            }
        }
        verdict
    }

    fn compliant_because(&self, subject: Subject<'_>, _: &Verdict) -> String {
        describe_budgets(subject)
    }

    /// Nobody knows when a budget will be spent.
    fn violated_from(&self, _: Subject<'_>) -> Option<Timestamp> {
        None
    }

    /// The facts as they are: each has a name that people understand.
    fn summarize(&self, _: &RecordedEvidence, _: &str) -> Option<String> {
        None
    }
}

/// The evidence about a budget, with a sentence about a resource of its holder.
pub(crate) fn evidence(over: OverBudgetEvidence) -> Evidence {
    let sentence = format!(
        "its {} has spent {} of its budget of {} for {}, as of {}{}",
        over.holder_kind,
        over.spent_usd,
        over.budget_usd,
        over.month,
        over.as_of,
        elsewhere(over.others_usd)
    );
    Evidence::new(Rule::OverBudget, Facts::OverBudget(over), sentence).with_remedy("Ask for a larger budget.")
}

/// The part of the spend in other accounts that share the budget.
fn elsewhere(others: Amount) -> String {
    if others == Amount::ZERO { String::new() } else { format!("; {others} of it in accounts that share the budget") }
}

/// The budgets that may stop it, and how much of each is spent.
fn describe_budgets(subject: Subject<'_>) -> String {
    let month = BudgetMonth::containing(subject.now, subject.config).month;
    let describe = |(holder, limit): (BudgetHolder, BudgetLimit)| {
        let holder_noun = noun(&holder);
        match (current_status(&holder, subject), subject.budgets.0.get(&holder)) {
            (Some(BudgetStatus { spent, others, as_of, .. }), _) => {
                let (budget, elsewhere) = (limit.budget, elsewhere(*others));
                format!(
                    "its {holder_noun} has spent {spent} of its budget of {budget} for {month}, as of {as_of}{elsewhere}"
                )
            }
            (None, Some(BudgetStatus { as_of, .. })) => {
                format!("the spend of its {holder_noun} is unknown since {as_of}")
            }
            (None, None) => {
                format!("the spend of its {holder_noun} for {month} is unknown")
            }
        }
    };
    let sentences: Vec<String> = stopping(subject).map(describe).collect();
    if sentences.is_empty() {
        return "no budget of its team or of the account stops what runs".to_owned();
    }
    sentences.join("; ")
}

/// Its mode for this rule, before the ceiling, and what sets it: its own, at most that of the budgets that may stop it.
pub(crate) fn limited_mode(subject: Subject<'_>, (own, source): (Mode, ModeSource)) -> (Mode, ModeSource) {
    match stopping(subject).next() {
        Some((BudgetHolder::Team(name), limit)) if limit.mode < own => {
            let is_of_team = subject.config.team(&name).is_some_and(|team| team.mode.is_some());
            (limit.mode, if is_of_team { ModeSource::Team(name) } else { ModeSource::Account })
        }
        Some((BudgetHolder::Account, limit)) if limit.mode < own => (limit.mode, ModeSource::Account),
        _ => (own, source),
    }
}

/// The budgets of its team and of the account that may stop it: those in enforce mode, or, if there are none, those in observe mode.
fn stopping(subject: Subject<'_>) -> impl Iterator<Item = (BudgetHolder, BudgetLimit)> {
    let stops = |holder: BudgetHolder| {
        let limit = BudgetLimit::from_config(&holder, subject.config, &Ceiling::fixed(Mode::Enforce))?;
        (limit.over_budget == OverBudgetAction::Stop).then_some((holder, limit))
    };
    let team = team_of(subject.tags, subject.config);
    let all = team.map(BudgetHolder::Team).into_iter().chain([BudgetHolder::Account]).filter_map(stops);
    let all: Vec<(BudgetHolder, BudgetLimit)> = all.collect();
    let strictest = all.iter().map(|(_, limit)| limit.mode).max();
    all.into_iter().filter(move |(_, limit)| Some(limit.mode) == strictest)
}

/// The status of a budget, if it is fresh and of this month.
fn current_status<'a>(holder: &BudgetHolder, subject: Subject<'a>) -> Option<&'a BudgetStatus> {
    let known = subject.budgets.0.get(holder);
    known.filter(|status| is_fresh(status, subject) && is_of_this_month(status, subject))
}

const fn noun(holder: &BudgetHolder) -> &'static str {
    match holder {
        BudgetHolder::Account => "account",
        BudgetHolder::Team(_) => "team",
    }
}

/// `true` if both the budget at the beat and the present one are spent.
fn is_spent(status: &BudgetStatus, limit: &BudgetLimit) -> bool {
    status.verdict == budget::BudgetVerdict::Stop && limit.verdict(status.spent) == budget::BudgetVerdict::Stop
}

fn is_fresh(status: &BudgetStatus, subject: Subject<'_>) -> bool {
    subject.now.duration_since(status.as_of).abs() <= STALE_AFTER
}

/// The last beat of a month does not count in the next one.
fn is_of_this_month(status: &BudgetStatus, subject: Subject<'_>) -> bool {
    status.month == BudgetMonth::containing(subject.now, subject.config).month
}

fn violation(holder: &BudgetHolder, limit: &BudgetLimit, status: &BudgetStatus, subject: Subject<'_>) -> Violation {
    let month_began = BudgetMonth::containing(subject.now, subject.config).from;
    let over = OverBudgetEvidence {
        month: status.month.clone(),
        holder_kind: noun(holder),
        budget_usd: limit.budget,
        spent_usd: status.spent,
        others_usd: status.others,
        reserved_usd: status.reserved,
        // A budget of $0 is spent.
        percent: status.spent.percent_of(limit.budget).unwrap_or(100),
        threshold_percent: budget::SPENT_PERCENT,
        over_budget: limit.over_budget,
        as_of: status.as_of,
        text: String::new(),
    };
    let due = subject.due_after(Rule::OverBudget, RuleAction::Stop, subject.config.account.over_budget_grace);
    Violation { evidence: evidence(over), due, since: Some(month_began) }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use model::instance::{PrepaidCapacity, PurchaseOption};
    use model::money::Amount;

    use super::*;
    use crate::fixture::{RuleInput, instance, time, untagged};
    use crate::policy::DueAction;
    use billing::budget::BudgetStatuses;
    use model::rule::ResourceAction;
    use plan::NotifyOnlyReason;

    const STOPS: &str = "[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\n";
    const ACCOUNT_STOPS: &str =
        "[account]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\nover_budget_grace = \"2h\"\n";

    /// The team's, as a beat of that moment left it.
    fn team(as_of: &str, verdict: budget::BudgetVerdict) -> (BudgetHolder, BudgetStatus) {
        let (spent, reserved) = (Amount::from_usd(120.0), Amount::from_usd(30.0));
        let status = BudgetStatus {
            verdict,
            as_of: time(as_of),
            month: "2026-09".to_owned(),
            spent,
            others: Amount::ZERO,
            reserved,
        };
        (BudgetHolder::Team("vision".into()), status)
    }

    fn team_in(verdict: budget::BudgetVerdict) -> (BudgetHolder, BudgetStatus) {
        team("2026-09-01T11:45:00Z", verdict)
    }

    fn account(as_of: &str, verdict: budget::BudgetVerdict) -> (BudgetHolder, BudgetStatus) {
        (BudgetHolder::Account, team(as_of, verdict).1)
    }

    fn judged<const N: usize>(
        input: impl Into<RuleInput>,
        config: &str,
        known: [(BudgetHolder, BudgetStatus); N],
    ) -> Verdict {
        let input: RuleInput = input.into();
        input.config(config).budgets(BudgetStatuses(known.into())).judge(|subject| OverBudget.judge(subject))
    }

    fn is_violated(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Violated(_))
    }

    #[test]
    fn a_team_that_spent_too_much_is_announced() {
        let verdict = judged(instance(), STOPS, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)]);
        let Verdict::Violated(Violation { evidence, due, .. }) = verdict else { panic!("{verdict:?}") };
        assert_eq!(due, DueAction::After(ResourceAction::Stop, time("2026-09-01T13:00:00Z")));
        assert_snapshot!(serde_json::to_string(&evidence).unwrap(), @r#"{"rule":"over-budget","month":"2026-09","of":"team","budget_usd":100.0,"spent_usd":120.0,"reserved_usd":30.0,"percent":120,"threshold_percent":100,"over_budget":"stop","as_of":"2026-09-01T11:45:00Z"}"#);
        assert_snapshot!(evidence.sentence, @"its team has spent $120.00 of its budget of $100.00 for 2026-09, as of 2026-09-01T11:45:00Z");
    }

    #[test]
    fn what_follows_is_the_verdict_of_a_young_document() {
        let check = |as_of, verdict, expect: Verdict| {
            assert_eq!(judged(instance(), STOPS, [team(as_of, verdict)]), expect, "{as_of} {verdict:?}");
        };
        check("2026-09-01T12:00:00Z", budget::BudgetVerdict::Ok, Verdict::Compliant);
        check("2026-09-01T11:00:00Z", budget::BudgetVerdict::Hold, Verdict::Compliant);
        check("2026-09-01T10:59:59Z", budget::BudgetVerdict::Ok, Verdict::Unknown);
        check("2026-09-01T10:59:59Z", budget::BudgetVerdict::Stop, Verdict::Unknown);
        check("2026-09-01T13:00:01Z", budget::BudgetVerdict::Stop, Verdict::Unknown);
        assert!(is_violated(&judged(instance(), STOPS, [team("2026-09-01T11:00:00Z", budget::BudgetVerdict::Stop)])));
    }

    #[test]
    fn a_raised_budget_counts_before_the_next_beat() {
        let check = |budget: &str, stops: bool| {
            let config = STOPS.replace("100", budget);
            let verdict = judged(instance(), &config, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)]);
            assert_eq!(
                (is_violated(&verdict), verdict == Verdict::Compliant),
                (stops, !stops),
                "{budget}: {verdict:?}"
            );
        };
        check("100", true);
        check("120", true);
        check("120.01", false);
        check("240", false);
        // A smaller budget stops nothing before a beat finds it spent.
        let smaller = STOPS.replace("100", "10");
        assert_eq!(
            judged(instance(), &smaller, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Ok)]),
            Verdict::Compliant
        );
    }

    #[test]
    fn the_evidence_is_of_the_budget_that_is_set_now() {
        let lowered = STOPS.replace("100", "60");
        let verdict = judged(instance(), &lowered, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)]);
        let Verdict::Violated(violation) = verdict else { panic!("{verdict:?}") };
        let Facts::OverBudget(over) = violation.evidence.facts else { panic!("{violation:?}") };
        assert_eq!((over.budget_usd, over.percent), (Amount::from_usd(60.0), 200));
    }

    #[test]
    fn without_a_document_the_rule_is_unknown() {
        assert_eq!(judged(instance(), STOPS, []), Verdict::Unknown);
        assert_eq!(judged(instance(), ACCOUNT_STOPS, []), Verdict::Unknown);
        let team_status = team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Ok);
        assert_eq!(judged(instance(), &format!("{STOPS}{ACCOUNT_STOPS}"), [team_status]), Verdict::Unknown);
    }

    #[test]
    fn what_is_known_of_one_is_enough() {
        let both = format!("{STOPS}{ACCOUNT_STOPS}");
        assert!(is_violated(&judged(
            instance(),
            &both,
            [account("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)]
        )));
        assert!(is_violated(&judged(instance(), &both, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)])));
    }

    #[test]
    fn a_budget_is_enforced_no_more_than_its_holder() {
        let (team_stops, account_stops) =
            ("[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\n", ACCOUNT_STOPS);
        let check = |account: &str, team: &str, tag: Option<&str>, budgets: &str, expect: (Mode, bool)| {
            let own = format!("mode = \"{team}\"\n");
            let section =
                if budgets.contains("[teams.vision]\n") { String::new() } else { "[teams.vision]\n".to_owned() };
            let budgets = format!("{budgets}{section}").replace("[teams.vision]\n", &format!("[teams.vision]\n{own}"));
            let config = format!("mode = \"{account}\"\n{budgets}");
            let one = tag.map_or_else(instance, |mode| instance().tag("curfew:mode", mode));
            let known =
                [team_in(budget::BudgetVerdict::Ok), (BudgetHolder::Account, team_in(budget::BudgetVerdict::Stop).1)];
            let input = RuleInput::from(one).config(&config).budgets(BudgetStatuses(known.into()));
            input.judge(|subject| {
                let verdict = OverBudget.judge(subject);
                assert_eq!((subject.mode(Rule::OverBudget), is_violated(&verdict)), expect, "{config}");
                verdict
            });
        };
        // The account alone stops, and only observes.
        check("observe", "enforce", None, account_stops, (Mode::Observe, true));
        check("observe", "enforce", Some("enforce"), account_stops, (Mode::Observe, true));
        check("enforce", "observe", None, account_stops, (Mode::Observe, true));
        check("enforce", "enforce", None, account_stops, (Mode::Enforce, true));
        check("enforce", "enforce", Some("observe"), account_stops, (Mode::Observe, true));
        // The team's is enforced, and not spent; that the account's is, has the account's own message.
        check("observe", "enforce", None, &format!("{account_stops}{team_stops}"), (Mode::Enforce, false));
        check("observe", "observe", None, &format!("{account_stops}{team_stops}"), (Mode::Observe, true));
        // Without a budget that stops, nothing is capped.
        check("observe", "enforce", None, "", (Mode::Enforce, false));
    }

    #[test]
    fn only_where_the_configuration_says_stop() {
        let spent = || {
            [
                team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop),
                account("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop),
            ]
        };
        for config in [
            "",
            "[teams.vision]\nmonthly_budget_usd = 100",
            "[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"hold\"",
            "[teams.vision]\nover_budget = \"stop\"",
            "[teams.audio]\nmonthly_budget_usd = 100\nover_budget = \"stop\"",
            "[account]\nover_budget = \"stop\"",
            "[account]\nmonthly_budget_usd = 100\nover_budget = \"hold\"",
        ] {
            assert_eq!(judged(instance(), config, spent()), Verdict::Compliant, "{config}");
        }
    }

    #[test]
    fn what_has_no_team_counts_for_the_account_alone() {
        let spent = || {
            [
                team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop),
                account("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop),
            ]
        };
        assert_eq!(judged(untagged(), STOPS, spent()), Verdict::Compliant);
        assert!(is_violated(&judged(untagged(), ACCOUNT_STOPS, spent())));
        let called_so = || untagged().tag("Team", "untagged");
        assert_eq!(judged(called_so(), &STOPS.replace("vision", "untagged"), spent()), Verdict::Compliant);
    }

    #[test]
    fn the_last_beat_of_a_month_does_not_count_in_the_next() {
        let check = |zone: &str, now: &str, as_of: &str, violation: bool| {
            let config = format!("{STOPS}[account]\ntime_zone = \"{zone}\"");
            let input = RuleInput::from(instance()).at_time(now);
            let verdict = judged(input, &config, [team(as_of, budget::BudgetVerdict::Stop)]);
            assert_eq!(verdict == Verdict::Unknown, !violation, "{zone} {now}: {verdict:?}");
        };
        check("UTC", "2026-09-30T23:59:59Z", "2026-09-30T23:45:00Z", true);
        check("UTC", "2026-10-01T00:00:00Z", "2026-09-30T23:45:00Z", false);
        check("Europe/Berlin", "2026-09-30T21:59:59Z", "2026-09-30T21:45:00Z", true);
        check("Europe/Berlin", "2026-09-30T22:00:00Z", "2026-09-30T21:45:00Z", false);
    }

    #[test]
    fn the_grace_is_the_accounts() {
        let due = |config: &str| match judged(
            instance(),
            config,
            [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)],
        ) {
            Verdict::Violated(violation) => violation.due,
            other => panic!("{other:?}"),
        };
        assert_eq!(due(STOPS), DueAction::After(ResourceAction::Stop, time("2026-09-01T13:00:00Z")));
        let slowly = format!("{STOPS}[account]\nover_budget_grace = \"2d\"");
        assert_eq!(due(&slowly), DueAction::After(ResourceAction::Stop, time("2026-09-03T12:00:00Z")));
    }

    #[test]
    fn an_impossible_or_useless_stop_is_notify_only() {
        let reason = |builder| match judged(builder, STOPS, [team("2026-09-01T11:45:00Z", budget::BudgetVerdict::Stop)])
        {
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(instance().purchase(PurchaseOption::SpotOneTime)), NotifyOnlyReason::CannotBeStopped);
        assert_eq!(reason(instance().purchase(PurchaseOption::SpotPersistent)), NotifyOnlyReason::PersistentSpot);
        assert_eq!(reason(instance().prepaid(PrepaidCapacity::CapacityReservation)), NotifyOnlyReason::SavesNothing);
        assert_eq!(
            reason(instance().instance_storage(600).tag("curfew:local-disk", "keep")),
            NotifyOnlyReason::LocalDisk
        );
    }
}
