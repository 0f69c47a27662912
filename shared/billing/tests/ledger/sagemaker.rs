//! `SageMaker` beside EC2 in one ledger: lives whose beats are lost, repeated, late or partial, each of the two by itself. No run is counted twice,
//! none ends because the other service was seen, and the truth, second by second, is what the ledger says.

use std::collections::BTreeMap;

use billing::ledger::{
    BillingState, FoldLimits, Ledger, LedgerBeat, PurchaseTerms, RunCost, RunFacts, RunKind, SageMakerObservation,
    Sighting, Tariff, TimeSpan,
};
use fastrand::Rng;
use jiff::SignedDuration;
use model::config::Config;
use model::fixture::{app, endpoint, notebook, training_job};
use model::money::{Amount, Rate};
use model::sagemaker::{SageMakerResource, SageMakerStatus};
use proptest::prelude::*;

use crate::story::{region, second};
use crate::{LedgerPair, by_team};

const HOUR: i64 = 3_600;
const BEAT: i64 = 900;
/// Midnight in Berlin.
const BOUNDARY: i64 = 1_793_487_600;
/// For so long the list of jobs has one that ended.
const LISTED: i64 = 90 * 60;
/// Of one machine, in micro-USD: 1,000 a second.
const RATE: u64 = 3_600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Notebook,
    App,
    Endpoint,
    Job,
    /// Its billable seconds.
    ManagedSpot(i64),
    /// Of EC2, which says when it was stopped.
    Instance,
}

#[derive(Debug, Clone)]
struct Life {
    id: String,
    kind: Kind,
    began: i64,
    end: i64,
    /// The number of its machines, from when on.
    counts: Vec<(i64, u32)>,
}

#[derive(Debug)]
struct Account {
    lives: Vec<Life>,
    until: i64,
    chance: Rng,
}

/// A beat of one of the two services.
#[derive(Debug, Clone)]
struct Arrival {
    is_sagemaker: bool,
    beat: LedgerBeat,
}

impl Account {
    fn from_seed(seed: u64) -> Self {
        let mut chance = Rng::with_seed(seed);
        let until = BOUNDARY + chance.i64(1..5) * HOUR;
        let lives = (0..chance.usize(1..8)).map(|number| {
            let began = BOUNDARY + chance.i64(-5 * HOUR..until - BOUNDARY);
            let end = began + [chance.i64(1..HOUR), chance.i64(1..20 * HOUR)][chance.usize(..2)];
            let spot = Kind::ManagedSpot(chance.i64(0..=end - began));
            let kinds = [Kind::Notebook, Kind::App, Kind::Endpoint, Kind::Job, spot, Kind::Instance];
            let kind = kinds[chance.usize(..kinds.len())];
            let mut counts = vec![(began, if kind == Kind::Endpoint { chance.u32(..4) } else { 1 })];
            for _ in 0..if kind == Kind::Endpoint { chance.usize(..6) } else { 0 } {
                counts.push((chance.i64(began..until), chance.u32(..4)));
            }
            counts.sort_unstable();
            Life { id: format!("{number}"), kind, began, end, counts }
        });
        let lives = lives.collect();
        Self { lives, until, chance }
    }

    /// What is seen of both services in each beat, as it arrives: the last sees everything. Others miss some, or could not read it.
    fn arrivals(&mut self) -> Vec<Arrival> {
        let (mut at, mut arrived) = (BOUNDARY - 5 * HOUR, Vec::new());
        let chance = &mut self.chance;
        // By EC2 and `SageMaker`: how often a beat is lost, and how often it is partial. One may be forbidden.
        let odds = [0, 1].map(|_| ([0.0, 0.3, 1.0][chance.usize(..3)], [0.0, 0.3][chance.usize(..2)]));
        while at < self.until {
            for (is_sagemaker, (loses, partial)) in [false, true].into_iter().zip(odds) {
                if chance.f64() < loses {
                    continue;
                }
                let mut beat = beat(&self.lives, is_sagemaker, at);
                if chance.f64() < partial {
                    beat.whole = false;
                    beat.items.retain(|_| chance.bool());
                } else if is_sagemaker {
                    let not_read = beat.items.extract_if(.., |_| chance.f64() < partial).map(|item| item.resource);
                    beat.unread.extend(not_read);
                }
                arrived.extend(vec![Arrival { is_sagemaker, beat }; chance.usize(1..3)]);
            }
            at += BEAT + chance.i64(-300..300);
        }
        if chance.bool() {
            chance.shuffle(&mut arrived);
        }
        let last = |is_sagemaker| Arrival { is_sagemaker, beat: beat(&self.lives, is_sagemaker, self.until) };
        arrived.into_iter().chain([last(false), last(true)]).collect()
    }
}

fn beat(lives: &[Life], is_sagemaker: bool, at: i64) -> LedgerBeat {
    let service_lives = lives.iter().filter(|life| (life.kind == Kind::Instance) != is_sagemaker && life.began <= at);
    if !is_sagemaker {
        let items = service_lives.map(|life| instance(life, at)).collect();
        return LedgerBeat {
            at: second(at),
            region: region(),
            whole: true,
            items,
            unread: std::collections::BTreeSet::new(),
        };
    }
    let resources = service_lives.filter_map(|life| resource(life, at)).collect();
    let rate = |resource: &SageMakerResource| {
        let count: u32 = resource.machines().unwrap_or_default().values().sum();
        vec![(second(0), Rate::from_usd_micros_per_hour(RATE * u64::from(count)))]
    };
    let look =
        SageMakerObservation { region: region(), whole: true, resources, unread: std::collections::BTreeSet::new() };
    look.to_beat(second(at), &Config::default(), rate)
}

/// What `SageMaker` lists then.
fn resource(life: &Life, at: i64) -> Option<SageMakerResource> {
    let ended = at >= life.end;
    let builder = match life.kind {
        Kind::Notebook => notebook(),
        Kind::App => app(),
        Kind::Endpoint => endpoint(),
        Kind::Job | Kind::ManagedSpot(_) => training_job(),
        Kind::Instance => return None,
    };
    let is_job = matches!(life.kind, Kind::Job | Kind::ManagedSpot(_));
    if ended && (!is_job || at > life.end + LISTED) {
        return None;
    }
    let builder =
        builder.id(&life.id).with(|resource| resource.region = region()).created(&second(life.began).to_string());
    let builder = builder.status(if ended { SageMakerStatus::Stopped } else { SageMakerStatus::Running });
    let builder =
        builder.facts(|facts| facts.machines = Some(BTreeMap::from([("g5.xlarge".into(), life.count_at(at))])));
    let builder = builder.billing(|billing| {
        billing.started_at = Some(second(life.began));
        billing.ended_at = ended.then(|| second(life.end));
        if let Kind::ManagedSpot(seconds) = life.kind {
            billing.is_managed_spot = true;
            billing.billable_seconds = u64::try_from(seconds).ok().filter(|_| ended);
        }
    });
    Some(builder.build())
}

fn instance(life: &Life, at: i64) -> Sighting {
    let ended = BillingState::Ended { at: Some(second(life.end)), terminated: false, reclaimed: false };
    Sighting {
        resource: life.id.as_str().into(),
        began: second(life.began),
        facts: RunFacts {
            kind: RunKind::Instance,
            team: Some("vision".into()),
            owner: None,
            name: None,
            what: "g5.xlarge".to_owned(),
            terms: PurchaseTerms::OnDemand,
            job: None,
            attached_to: None,
            tariff: Tariff::new("g5.xlarge on demand"),
        },
        life: if at >= life.end { ended } else { BillingState::Live },
        prices: vec![(second(0), Rate::from_usd_micros_per_hour(RATE))],
    }
}

impl Life {
    fn count_at(&self, at: i64) -> u32 {
        self.counts.iter().rev().find(|(from, _)| *from <= at).map_or(0, |(_, count)| *count)
    }

    /// By the beats that saw it running: a change counts from the one that saw it, and the first from the beginning.
    fn cost(&self, arrived: &[Arrival], window: TimeSpan) -> Amount {
        let end = match self.kind {
            Kind::ManagedSpot(seconds) => self.began + seconds,
            Kind::Instance => self.end.max(self.began + 60),
            _ => self.end,
        };
        let sighted = arrived.iter().filter(|one| self.is_seen_by(one, BillingState::Live));
        let mut seen: Vec<i64> = sighted.map(|one| one.beat.at.as_second()).collect();
        seen.sort_unstable();
        let mut machine_seconds = 0;
        for at in self.began.max(window.from.as_second())..end.min(window.to.as_second()) {
            let by = seen.iter().rev().find(|seen| **seen <= at).or(seen.first());
            machine_seconds += u64::from(by.map_or(1, |seen| self.count_at(*seen)));
        }
        Amount::from_rate(Rate::from_usd_micros_per_hour(RATE), machine_seconds)
    }

    fn is_seen_by(&self, one: &Arrival, state: BillingState) -> bool {
        let is_it = |item: &&Sighting| item.resource.as_str() == self.id;
        let item = one.beat.items.iter().find(is_it);
        item.is_some_and(|item| (item.life == BillingState::Live) == (state == BillingState::Live))
    }
}

fn books(arrived: &[Arrival], fold: Option<FoldLimits>) -> LedgerPair {
    let mut books = LedgerPair::around(BOUNDARY);
    for Arrival { is_sagemaker, beat } in arrived {
        let observe =
            |ledger: &mut Ledger| if *is_sagemaker { ledger.observe_sagemaker(beat) } else { ledger.observe(beat) };
        books.take_down(beat.at, observe);
        for ledger in &mut books.ledgers {
            if let Some(limits) = &fold {
                ledger.fold(limits);
            }
        }
    }
    books
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fuzz_each_service_is_counted_once_whatever_is_seen_of_the_other(seed in any::<u64>()) {
        let mut account = Account::from_seed(seed);
        let arrived = account.arrivals();
        let books = books(&arrived, None);
        for (ledger, month) in books.ledgers.iter().zip(&books.months) {
            let window = TimeSpan { to: second(account.until), ..month.span() }.within(month.span());
            let mut counted = 0;
            for life in &account.lives {
                let exact = life.cost(&arrived, window);
                let runs: Vec<_> = ledger.runs().filter(|run| run.resource.as_str() == life.id).collect();
                counted += runs.len();
                prop_assert!(runs.len() <= 1, "{life:?}: {runs:?}");
                let Some(run) = runs.first() else {
                    let says = |one: &Arrival| life.is_seen_by(one, BillingState::Live);
                    let was_seen = arrived.iter().any(|one| says(one) && window.from <= one.beat.at);
                    prop_assert!(exact == Amount::ZERO || !was_seen, "{life:?} is missing in {month}");
                    continue;
                };
                let spent = run.spent(window);
                let most = spent.amount + spent.uncertain;
                prop_assert!(spent.amount <= exact && exact <= most, "{life:?} in {month}: {exact:?} is not {spent:?}, {run:?}");
                let ended = BillingState::Ended { at: None, terminated: false, reclaimed: false };
                if arrived.iter().any(|one| life.is_seen_by(one, ended)) {
                    prop_assert_eq!(spent, RunCost { amount: exact, ..RunCost::default() }, "{:?} in {}", life, month);
                }
                let shares: RunCost = run.shares(window).iter().map(|share| run.spent(share.span)).sum();
                prop_assert_eq!(shares, spent);
            }
            prop_assert_eq!(ledger.runs().count(), counted);
        }
    }

    #[test]
    fn fuzz_the_order_of_beats_leaves_no_trace(seed in any::<u64>()) {
        let mut account = Account::from_seed(seed);
        let mut arrived = account.arrivals();
        let take_down = |arrived: &[Arrival]| {
            let mut ledgers = LedgerPair::around(BOUNDARY).ledgers;
            for Arrival { is_sagemaker, beat } in arrived {
                for ledger in &mut ledgers {
                    if *is_sagemaker { ledger.observe_sagemaker(beat) } else { ledger.observe(beat) };
                }
            }
            ledgers
        };
        let one = take_down(&arrived);
        account.chance.shuffle(&mut arrived);
        prop_assert_eq!(one, take_down(&arrived));
    }

    #[test]
    fn fuzz_a_fold_neither_loses_nor_repeats_a_run(seed in any::<u64>()) {
        let mut account = Account::from_seed(seed);
        let mut arrived = account.arrivals();
        arrived.sort_by_key(|one| one.beat.at);
        let limits = FoldLimits { bytes_max: 500, settled_after: SignedDuration::from_mins(15) };
        let (plain, mut folded) = (books(&arrived, None), books(&arrived, Some(limits)));
        // All of them once more, much too late.
        for Arrival { is_sagemaker, beat } in &arrived {
            for ledger in &mut folded.ledgers {
                if *is_sagemaker { ledger.observe_sagemaker(beat) } else { ledger.observe(beat) };
            }
        }
        for (one, other) in folded.ledgers.iter().zip(&plain.ledgers) {
            let window = TimeSpan { to: second(account.until), ..one.span() }.within(one.span());
            let micros = |ledger: &Ledger| {
                let sum: RunCost = by_team(ledger, window).into_values().sum();
                (sum.amount.usd_micros(), sum.uncertain.usd_micros())
            };
            let ((known, uncertain), (exact, unsure)) = (micros(one), micros(other));
            prop_assert!(known.abs_diff(exact) < 50 && uncertain.abs_diff(unsure) < 50, "{:?} {:?}", micros(one), micros(other));
        }
    }
}
