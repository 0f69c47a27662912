//! Money is set aside for a job before it is launched, and given back when nothing is launched, and when the job has ended.
//!
//! Both work on one document that was just read, which is then written over that very version and no other. A job reserves
//! with its team first, then with the account; where the account refuses, it gives back what the team gave. The reservations of a job are
//! numbered: one that comes late never takes the place of a later one, nor does its release end that.
//!
//! So at the moment of a launch, what is spent and what is reserved exceed the budget by no more than what was spent since the
//! beat that the document is of by what reserves nothing: people's own instances. An attempt that takes the place of another
//! one of its job counts anew; what that one spent since the beat is not known until the next.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::ResourceId;
use model::money::Amount;

use super::{Budget, BudgetHolder, BudgetLimit, BudgetMonth, BudgetReservation, BudgetTerms, STALE_AFTER};

/// Reservation that a job requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRequest {
    /// `<team>/<job>`.
    pub job: String,
    /// Number of this reservation among those that the job has requested.
    pub number: u32,
    /// The most that it may cost from now on: price times the time that is left, of all that it may run.
    pub usd: Amount,
    /// Latest end of the job.
    pub until: Timestamp,
}

/// Reason for a refused reservation, in words for the job's owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservationRefusal {
    /// The money is not there.
    #[error("{0}")]
    TooMuch(String),
    /// The money would be there without the reservations of launches that are still under way.
    #[error("{0}")]
    InFlight(String),
    /// The available money is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The job has reserved anew since.
    #[error("the job has reserved anew since")]
    Overtaken,
}

/// Outcome of a granted reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationOutcome {
    Fits,
    /// The reservation does not fit, or that is unknown; but the configuration lets jobs run, or only observes.
    Anyway(ReservationRefusal),
}

/// Reserves for a job on one budget document of this month. It replaces the job's earlier reservation. The current configuration counts, not that
/// of the last beat.
///
/// # Errors
///
/// The budget holds launches and has no room for it, or its status is unknown: the document is empty, of another month, or stale, or a running
/// resource was not observed for long; or the job has reserved anew since. Then nothing changes.
pub fn reserve(
    document: &mut Budget,
    holder: &BudgetHolder,
    wanted: &ReservationRequest,
    terms: BudgetTerms<'_>,
    now: Timestamp,
) -> Result<ReservationOutcome, ReservationRefusal> {
    if document.reservations.get(&wanted.job).is_some_and(|there| there.number > wanted.number) {
        return Err(ReservationRefusal::Overtaken);
    }
    let month = BudgetMonth::containing(now, terms.config).month;
    let limit = terms.limit(holder);
    let objection = limit.and_then(|limit| objection(document, holder, wanted, &limit, &month, now).err());
    if let (Some(limit), Some(objection)) = (limit, &objection)
        && limit.holds_launches()
    {
        return Err(objection.clone());
    }
    if document.month.is_empty() {
        document.month = month;
    }
    let reservation = BudgetReservation {
        number: wanted.number,
        usd: wanted.usd,
        spent_usd: Amount::ZERO,
        since: now,
        instances: BTreeSet::new(),
        until: wanted.until,
        ended: None,
    };
    document.reservations.insert(wanted.job.clone(), reservation);
    document.count_reservations();
    Ok(objection.map_or(ReservationOutcome::Fits, ReservationOutcome::Anyway))
}

/// Instances were launched for a job: from the next beat on their cost replaces the reservation. Returns whether there was one. If a month has begun
/// since, both months' documents get it, the previous month's first, as with [`release`].
pub fn launched(document: &mut Budget, job: &str, instances: &[ResourceId]) -> bool {
    let reservation = document.reservations.get_mut(job);
    reservation.map(|one| one.instances.extend(instances.iter().cloned())).is_some()
}

/// Gives back what a job has reserved, up to the reservation of this number; whether there was anything. Where an instance was launched by
/// it, the most that the job can have `cost` stays until the first beat after this: until then its last spend is unknown. It is released in
/// the month before first, then in this one: in the other order a beat in between would carry it over again.
pub fn release(document: &mut Budget, job: &str, number: u32, cost: Amount, now: Timestamp) -> bool {
    let reservation = document.reservations.get_mut(job).filter(|reservation| reservation.number <= number);
    let Some(reservation) = reservation else { return false };
    if reservation.instances.is_empty() {
        document.reservations.remove(job);
    } else {
        reservation.usd = reservation.usd.min(cost);
        reservation.ended = reservation.ended.or(Some(now));
    }
    document.count_reservations();
    true
}

fn objection(
    document: &Budget,
    holder: &BudgetHolder,
    wanted: &ReservationRequest,
    limit: &BudgetLimit,
    month: &str,
    now: Timestamp,
) -> Result<(), ReservationRefusal> {
    let whose = match holder {
        BudgetHolder::Account => "the account's budget".to_owned(),
        BudgetHolder::Team(team) => format!("the budget of team {team}"),
    };
    let unknown =
        |why: String| Err(ReservationRefusal::Unknown(format!("it is unknown how much of {whose} is spent: {why}")));
    let Some(as_of) = document.as_of.filter(|_| document.month == month) else {
        return unknown(format!(
            "there are no figures for {month} yet; enforce-budgets writes them every quarter of an hour"
        ));
    };
    let is_old = |at: Timestamp| now.duration_since(at).abs() > STALE_AFTER;
    if is_old(as_of) {
        return unknown(format!("it was last counted at {as_of}, more than an hour ago; enforce-budgets does not run"));
    }
    if let Some(blind) = document.blind_since.filter(|blind| is_old(*blind)) {
        return unknown(format!("something that runs was last seen at {blind}; see the gaps of enforce-budgets"));
    }
    let others = || document.reservations.iter().filter(|(job, _)| **job != wanted.job).map(|(_, one)| one);
    let reserved: Amount = others().map(BudgetReservation::outstanding).sum();
    let left = document.left_of(limit.budget, reserved);
    if wanted.usd <= left {
        return Ok(());
    }
    let uncertain = match document.uncertain_usd {
        Amount::ZERO => String::new(),
        uncertain => format!(", {uncertain} more may be"),
    };
    let elsewhere = match document.counted_others() {
        Amount::ZERO => String::new(),
        elsewhere => format!(" ({elsewhere} of it in accounts that share it)"),
    };
    let launched = others().filter(|one| !one.instances.is_empty()).map(BudgetReservation::outstanding).sum();
    let is_in_flight = wanted.usd <= document.left_of(limit.budget, launched);
    let refusal = if is_in_flight { ReservationRefusal::InFlight } else { ReservationRefusal::TooMuch };
    Err(refusal(format!(
        "{} may cost up to {}, but {whose} has {left} left: {} for {month}, less {} spent{elsewhere}{uncertain} and {reserved} reserved, as of {as_of}",
        wanted.job,
        wanted.usd,
        limit.budget,
        document.counted_usd()
    )))
}
