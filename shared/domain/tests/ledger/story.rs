//! A made-up account around the end of a month, and the beats that see it.

use domain::id::Region;
use domain::ledger::{Beat, Facts, Kind, Life as Seen, Sighting, Tariff, Terms};
use domain::money::Rate;
use fastrand::Rng;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const HOUR: i64 = 3_600;
const BEAT: i64 = 900;
const TARIFFS: usize = 3;

/// Midnight in Berlin after a month with a change of clocks, or none.
const BOUNDARIES: [&str; 3] = ["2026-10-31T23:00:00Z", "2027-03-31T22:00:00Z", "2026-12-31T23:00:00Z"];

pub(crate) fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

pub(crate) fn region() -> Region {
    "eu-central-1".into()
}

pub(crate) fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Stopped,
    /// By its own shutdown: EC2 says no time.
    StoppedUnsaid,
    Terminated,
    TerminatedUnsaid,
    Reclaimed,
    ReclaimedUnsaid,
    /// Stopped, and terminated more than an hour later.
    StoppedThenTerminated(i64),
    /// A volume that is detached.
    Detached,
}

#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) id: String,
    pub(crate) volume: bool,
    pub(crate) spot: bool,
    pub(crate) tariff: usize,
    pub(crate) began: i64,
    /// `None`: it runs on.
    pub(crate) end: Option<i64>,
    pub(crate) ending: Ending,
}

#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) boundary: i64,
    pub(crate) until: i64,
    /// Of each resource, its lives in order.
    resources: Vec<Vec<Life>>,
    /// By tariff: from when on, micro-USD an hour.
    pub(crate) prices: Vec<Vec<(i64, u64)>>,
    /// All of them, in order; the last sees everything.
    pub(crate) beats: Vec<Beat>,
    well_told: bool,
    chance: Rng,
}

impl Story {
    /// With whatever may happen.
    pub(crate) fn of(seed: u64) -> Self {
        Self::new(seed, false)
    }

    /// In which EC2 says when each instance ended, and beats are regular.
    pub(crate) fn well_told(seed: u64) -> Self {
        Self::new(seed, true)
    }

    fn new(seed: u64, well_told: bool) -> Self {
        let mut chance = Rng::with_seed(seed);
        let boundary: Timestamp = BOUNDARIES[chance.usize(..BOUNDARIES.len())].parse().unwrap();
        let boundary = boundary.as_second();
        let (from, until) = (boundary - chance.i64(1..5) * HOUR, boundary + chance.i64(1..5) * HOUR);
        let mut prices = Vec::new();
        for _ in 0..TARIFFS {
            let mut changes = vec![(from - 60 * 24 * HOUR, chance.u64(1..50_000_000))];
            for _ in 0..chance.usize(..6) {
                changes.push((chance.i64(from..until), chance.u64(1..50_000_000)));
            }
            changes.sort_unstable();
            changes.dedup_by_key(|(at, _)| *at);
            prices.push(changes);
        }
        let count = chance.usize(1..7);
        let resources = (0..count).map(|number| lives(&mut chance, number, from, until, well_told)).collect();
        let mut story = Self { boundary, until, resources, prices, beats: Vec::new(), well_told, chance };
        story.look(from);
        story
    }

    pub(crate) fn lives(&self) -> impl Iterator<Item = &Life> {
        self.resources.iter().flatten()
    }

    fn look(&mut self, from: i64) {
        let mut at = from;
        while at < self.until {
            let jitter = if self.well_told { 0 } else { self.chance.i64(-400..400) };
            let beat = self.beat((at + jitter).min(self.until - 1));
            self.beats.push(beat);
            at += BEAT;
        }
        // The last one sees all, and by a witness of each tariff the prices until then.
        let mut last = self.beat(self.until);
        last.whole = true;
        for tariff in 0..TARIFFS {
            let witness = Life {
                id: format!("i-witness-{tariff}"),
                volume: true,
                spot: false,
                tariff,
                began: self.until,
                end: None,
                ending: Ending::Detached,
            };
            last.items.extend(self.sighting(&witness, None, self.until));
            self.resources.push(vec![witness]);
        }
        self.beats.push(last);
    }

    fn beat(&self, at: i64) -> Beat {
        let seen = self.resources.iter().filter_map(|lives| {
            let place = lives.iter().rposition(|life| life.began <= at)?;
            self.sighting(&lives[place], lives.get(place + 1), at)
        });
        Beat { at: second(at), region: region(), whole: true, items: seen.collect() }
    }

    /// What EC2 shows at that moment.
    fn sighting(&self, life: &Life, next: Option<&Life>, at: i64) -> Option<Sighting> {
        let over = life.end.filter(|end| *end <= at);
        let seen = match (over, life.ending) {
            (None, _) => Seen::Live,
            (Some(_), Ending::Detached) => return None,
            (Some(end), ending) => ended(end, ending, at)?,
        };
        // The type of what is stopped may have been changed for the next life already.
        let changed_at = |next: &Life| over.unwrap_or(at).midpoint(next.began);
        let next = next.filter(|next| seen != Seen::Live && !self.well_told && changed_at(next) <= at);
        let tariff = next.map_or(life.tariff, |next| next.tariff);
        let known = self.prices[tariff].iter().filter(|(from, _)| *from <= at);
        let known = known.map(|(from, rate)| (second(*from), Rate::from_usd_micros_per_hour(*rate)));
        let mut prices: Vec<_> = known.collect();
        // One that was learnt for another tariff.
        if tariff != life.tariff {
            prices.truncate(1);
        }
        Some(Sighting {
            resource: life.id.as_str().into(),
            began: second(life.began),
            facts: Facts {
                kind: if life.volume { Kind::Volume } else { Kind::Instance },
                team: Some(if at % 2 == 0 { "vision" } else { "nlp" }.into()),
                owner: None,
                name: (life.tariff == 1).then(|| "named".to_owned()),
                what: format!("type {tariff}"),
                terms: if life.spot { Terms::Spot } else { Terms::OnDemand },
                job: None,
                attached_to: life.volume.then(|| "i-0".into()),
                tariff: Tariff::new(format!("type {tariff}")),
            },
            life: seen,
            prices,
        })
    }

    /// What arrives of the beats, in the order in which it does; the last comes last.
    pub(crate) fn arrivals(&mut self) -> Vec<Beat> {
        let (chance, last) = (&mut self.chance, self.beats.len() - 1);
        let loses = [0.0, 0.1, 0.6][chance.usize(..3)];
        let mut arrived: Vec<Beat> = Vec::new();
        for beat in &self.beats[..last] {
            if chance.f64() < loses {
                continue;
            }
            let mut beat = beat.clone();
            if chance.f64() < 0.2 {
                beat.whole = false;
                beat.items.retain(|_| chance.bool());
            }
            for _ in 0..chance.usize(1..3) {
                arrived.push(beat.clone());
            }
        }
        if chance.bool() {
            chance.shuffle(&mut arrived);
        }
        arrived.push(self.beats[last].clone());
        arrived
    }
}

fn ended(end: i64, ending: Ending, at: i64) -> Option<Seen> {
    let (gone, said, terminated, reclaimed) = match ending {
        Ending::Stopped => (i64::MAX, Some(end), false, false),
        Ending::StoppedUnsaid => (i64::MAX, None, false, false),
        Ending::Terminated => (end + HOUR, Some(end), true, false),
        Ending::TerminatedUnsaid => (end + HOUR, None, true, false),
        Ending::Reclaimed => (end + HOUR, Some(end), true, true),
        Ending::ReclaimedUnsaid => (end + HOUR, None, true, true),
        Ending::StoppedThenTerminated(at_last) if at < at_last => (at_last, Some(end), false, false),
        Ending::StoppedThenTerminated(at_last) => (at_last + HOUR, Some(at_last), true, false),
        Ending::Detached => return None,
    };
    (at < gone).then(|| Seen::Ended { at: said.map(second), terminated, reclaimed })
}

impl Life {
    pub(crate) fn stopped_before(&self) -> bool {
        matches!(self.ending, Ending::StoppedThenTerminated(_))
    }
}

/// The lives of one resource: some of a second, some of hours; what was terminated has no other.
fn lives(chance: &mut Rng, number: usize, from: i64, until: i64, well_told: bool) -> Vec<Life> {
    let volume = !well_told && chance.f64() < 0.2;
    let spot = !volume && chance.bool();
    let mut at = from - chance.i64(0..3 * HOUR);
    let mut lives = Vec::new();
    if well_told {
        at = from + chance.i64(1..HOUR);
    }
    loop {
        // Stopped and started again between two beats: nobody sees when it was stopped.
        let pause = if well_told { BEAT } else { 1 };
        at += if lives.is_empty() { 0 } else { chance.i64(pause..2 * HOUR) };
        if at >= until {
            break;
        }
        let lasts = [chance.i64(1..90), chance.i64(1..HOUR), chance.i64(HOUR - 5..HOUR + 5), chance.i64(1..6 * HOUR)];
        let end = Some(at + lasts[chance.usize(..lasts.len())]).filter(|end| *end < until);
        let endings: &[Ending] = match (volume, spot, well_told) {
            (true, ..) => &[Ending::Detached],
            (_, true, true) => &[Ending::Stopped, Ending::Terminated, Ending::Reclaimed],
            (_, false, true) => &[Ending::Stopped, Ending::Terminated],
            (_, true, false) => {
                &[Ending::Terminated, Ending::TerminatedUnsaid, Ending::Reclaimed, Ending::ReclaimedUnsaid]
            }
            (_, false, false) => &[
                Ending::Stopped,
                Ending::Stopped,
                Ending::StoppedUnsaid,
                Ending::Terminated,
                Ending::TerminatedUnsaid,
                Ending::StoppedThenTerminated(0),
            ],
        };
        let mut ending = endings[chance.usize(..endings.len())];
        if let (Ending::StoppedThenTerminated(_), Some(end)) = (ending, end) {
            ending = Ending::StoppedThenTerminated(end + HOUR + chance.i64(1..3 * HOUR));
        }
        let id = format!("{}-{number}", if volume { "vol" } else { "i" });
        lives.push(Life { id, volume, spot, tariff: chance.usize(..TARIFFS), began: at, end, ending });
        let Some(end) = end else { break };
        at = end;
        if !matches!(ending, Ending::Stopped | Ending::StoppedUnsaid | Ending::Detached) {
            break;
        }
    }
    lives
}
