//! The invariants of every document, and of every launch.

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::CalendarMonth;
use model::money::Amount;

use super::{HOUR, QuarterJob, QuarterWorld, ROUNDED, stamp};

impl QuarterWorld {
    /// Every document that this beat has written.
    pub(super) fn check_documents(&mut self, now: i64) {
        let month = self.month(now);
        let documents = self.documents(&month);
        assert!(documents.contains_key(&BudgetHolder::Account), "at {now}: no beat has written the account's document");
        for (holder, document) in documents.iter().filter(|(_, one)| one.as_of == Some(stamp(now))) {
            self.check_document(holder, document, &month, now);
            self.tally.advised += u64::from(names_idle_before_busy(document));
        }
    }

    /// It has the true spend, up to the uncertainty that it states, and every reservation that is needed.
    fn check_document(&self, holder: &BudgetHolder, document: &Budget, month: &CalendarMonth, now: i64) {
        let truth = self.spent(holder, month.span().from.as_second(), now, |_| true);
        let rounding = Amount::from_usd_micros(ROUNDED);
        assert!(document.spent_usd <= truth + rounding, "{holder:?} at {now}: {} of {truth}", document.spent_usd);
        let most = document.spent_usd + document.uncertain_usd + rounding;
        assert!(truth <= most, "{holder:?} at {now}: {most} at most of {truth}");
        // An unreleased reservation expires once its job must have ended.
        let is_needed =
            |job: &&QuarterJob| !job.released && job.runs.is_some_and(|(usd, since, _)| job.until(usd, since) >= now);
        for job in self.jobs.iter().filter(|job| Self::is_of(job.team, holder)).filter(is_needed) {
            assert!(document.reservations.contains_key(&job.name), "{holder:?} at {now}: {} is forgotten", job.name);
        }
    }

    /// True spend plus true reservations stay within the budget, up to one beat's spend without a reservation.
    pub(super) fn check_launch(&self, holder: &BudgetHolder, month: &CalendarMonth, now: i64) {
        let begins = month.span().from.as_second();
        let (_, document) = self.read(month, holder);
        let as_of = document.as_of.unwrap().as_second();
        assert!(now - as_of <= HOUR, "{holder:?} at {now}: launched by a document of {as_of}");
        let spent = self.spent(holder, begins, now, |_| true);
        let of_holder = self.jobs.iter().filter(|job| Self::is_of(job.team, holder));
        let reserved: Amount = of_holder
            .filter_map(|job| {
                let (usd, since, machine) = job.runs?;
                let machine = &self.machines[machine];
                assert!(machine.spent(since, i64::MAX) <= usd, "{} costs more than it reserved", job.name);
                let runs = machine.lives[0].1 > now;
                runs.then(|| usd.saturating_sub(machine.spent(since, now)))
            })
            .sum();
        let burn = self.spent(holder, as_of, now, |machine| machine.job.is_none());
        let allowed = document.budget_usd.unwrap() + burn + Amount::from_usd_micros(ROUNDED);
        assert!(
            spent + reserved <= allowed,
            "{holder:?} at {now}: {spent} spent and {reserved} reserved, where {allowed} is allowed, {burn} of it by the last beat"
        );
    }
}

/// Whether the advice names something idle and something busy. What is idle comes first.
fn names_idle_before_busy(document: &Budget) -> bool {
    let Some(advice) = document.remedy.iter().find(|sentence| sentence.contains(" stop i-")) else { return false };
    let (last_idle, first_busy) = (advice.rfind("; idle at "), advice.find("; busy "));
    let (Some(last_idle), Some(first_busy)) = (last_idle, first_busy) else { return false };
    assert!(last_idle < first_busy, "{advice}");
    true
}
