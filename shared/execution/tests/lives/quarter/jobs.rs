//! Jobs reserve, are launched, end, and are released.

use billing::budget::{
    BudgetHolder, BudgetLimit, BudgetTerms, ReservationRefusal, ReservationRequest, launched, release, reserve,
};
use model::ceiling::Ceiling;
use model::mode::Mode;
use model::money::{Amount, Rate};

use super::{DAY, HOUR, QuarterJob, QuarterMachine, QuarterWorld, RATES, ROUNDED, SHORTEST, TEAMS, stamp};

impl QuarterWorld {
    /// A waiting job tries again.
    pub(super) fn somebody_wants(&mut self, now: i64) {
        for place in 0..self.jobs.len() {
            let after = self.machines.len();
            let job = &mut self.jobs[place];
            if job.released && job.next <= now {
                let name = format!("{}/job-{place}-{after}", TEAMS[job.team]);
                *job = QuarterJob { name, runs: None, released: false, ..job.clone() };
            }
        }
        let waiting: Vec<usize> = (0..self.jobs.len()).filter(|place| self.jobs[*place].runs.is_none()).collect();
        if !waiting.is_empty() {
            let place = waiting[self.chance.usize(0..waiting.len())];
            self.launch(place, now);
        }
    }

    /// Reserves with the team, then with the account, and launches. It requests exactly the rest of the budget, if it can use that.
    fn launch(&mut self, place: usize, now: i64) {
        let job = self.jobs[place].clone();
        let month = self.month(now);
        let holders = [BudgetHolder::Team(TEAMS[job.team].into()), BudgetHolder::Account];
        let rate = Rate::from_usd_micros_per_hour(RATES[job.kind].1);
        let binds = |holder: &&BudgetHolder| {
            BudgetLimit::from_config(holder, &self.config, &Ceiling::fixed(Mode::Enforce)).unwrap().holds_launches()
        };
        let left = holders.iter().filter(binds).filter_map(|holder| self.read(&month, holder).1.remaining_usd).min();
        let most = Amount::from_usd_micros(job.most * 1_000_000);
        let usd = left.map_or(most, |left| left.min(most)).max(Amount::from_rate(rate, SHORTEST.unsigned_abs()));
        self.tally.tight += u64::from(Some(usd) == left);
        let until = job.until(usd, now);
        let seconds = until - now - 60;
        let wanted = ReservationRequest { job: job.name.clone(), number: 1, usd, until: stamp(until) };
        for (nth, holder) in holders.iter().enumerate() {
            let reserved = loop {
                let (version, mut document) = self.read(&month, holder);
                let reserved = reserve(
                    &mut document,
                    holder,
                    &wanted,
                    BudgetTerms { config: &self.config, ceiling: &Ceiling::fixed(Mode::Enforce) },
                    stamp(now),
                );
                if reserved.is_err() || self.write(&month, holder, version, &document) {
                    break reserved;
                }
            };
            if let Err(refused) = reserved {
                self.tally.by_account += u64::try_from(nth).unwrap();
                match refused {
                    ReservationRefusal::TooMuch(_) | ReservationRefusal::InFlight(_) => self.tally.too_much += 1,
                    ReservationRefusal::Unknown(_) => self.tally.unknown += 1,
                    ReservationRefusal::Overtaken => unreachable!("it has reserved once"),
                }
                for holder in &holders[..nth] {
                    let (version, mut document) = self.read(&month, holder);
                    assert!(release(&mut document, &job.name, 1, usd, stamp(now)));
                    assert!(self.write(&month, holder, version, &document));
                }
                return;
            }
        }
        let began = now + self.chance.i64(1..60);
        let ended = began + self.chance.i64(seconds * 3 / 10..=seconds).max(SHORTEST.min(seconds));
        let id = format!("i-job-{}", self.machines.len());
        let lives = vec![(began, ended)];
        for holder in &holders {
            let (version, mut document) = self.read(&month, holder);
            assert!(launched(&mut document, &job.name, &[id.as_str().into()]));
            assert!(self.write(&month, holder, version, &document));
        }
        self.machines.push(QuarterMachine {
            id,
            team: job.team,
            kind: job.kind,
            job: Some(job.name),
            copies: None,
            lives,
        });
        self.jobs[place].runs = Some((usd, now, self.machines.len() - 1));
        self.tally.admitted += 1;
        self.tally.into_next_month += u64::from(self.month(ended) != month);
        for holder in holders.iter().filter(|holder| {
            BudgetLimit::from_config(holder, &self.config, &Ceiling::fixed(Mode::Enforce)).unwrap().holds_launches()
        }) {
            self.check_launch(holder, &month, now);
        }
    }

    /// An ended job is released, sooner or later.
    pub(super) fn release(&mut self, now: i64) {
        for place in 0..self.jobs.len() {
            let job = self.jobs[place].clone();
            let ended = job.runs.is_some_and(|(_, _, machine)| self.machines[machine].lives[0].1 <= now);
            if !ended || job.released || self.chance.u8(0..4) == 0 {
                continue;
            }
            self.jobs[place].released = true;
            let (_, since, machine) = job.runs.unwrap();
            let cost = self.machines[machine].spent(since, i64::MAX) + Amount::from_usd_micros(ROUNDED);
            self.jobs[place].next = now + self.chance.i64(HOUR..3 * DAY);
            for month in [self.month(now).previous(), self.month(now)] {
                for holder in [BudgetHolder::Team(TEAMS[job.team].into()), BudgetHolder::Account] {
                    let (version, mut document) = self.read(&month, &holder);
                    if release(&mut document, &job.name, 1, cost, stamp(now)) {
                        assert!(self.write(&month, &holder, version, &document));
                    }
                }
            }
        }
    }
}
