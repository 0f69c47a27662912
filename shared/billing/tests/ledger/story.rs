//! A made-up account around the end of a month, and the beats that see it.

use billing::ledger::{BillingState as Seen, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting, Tariff};
use fastrand::Rng;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::id::Region;
use model::money::Rate;

const HOUR: i64 = 3_600;
const BEAT: i64 = 900;
const TARIFFS: usize = 3;
const TEAMS: [&str; 3] = ["vision", "nlp", "audio"];

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifeEnd {
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
pub(crate) struct ResourceLife {
    pub(crate) id: String,
    pub(crate) volume: bool,
    pub(crate) spot: bool,
    pub(crate) tariff: usize,
    pub(crate) began: i64,
    /// `None`: it runs on.
    pub(crate) end: Option<i64>,
    pub(crate) ending: LifeEnd,
    /// Its team, from when on.
    retags: Vec<(i64, &'static str)>,
    /// Of a volume that is modified: its tariff, from when on.
    resizes: Vec<(i64, usize)>,
}

#[derive(Debug)]
pub(crate) struct LedgerStory {
    pub(crate) boundary: i64,
    pub(crate) until: i64,
    /// Of each resource, its lives in order.
    resources: Vec<Vec<ResourceLife>>,
    /// By tariff: from when on, micro-USD an hour.
    pub(crate) prices: Vec<Vec<(i64, u64)>>,
    /// All of them, in order; the last sees everything.
    pub(crate) beats: Vec<LedgerBeat>,
    well_told: bool,
    chance: Rng,
}

impl LedgerStory {
    /// With whatever may happen.
    pub(crate) fn from_seed(seed: u64) -> Self {
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
        story.add_beats(from);
        story
    }

    pub(crate) fn lives(&self) -> impl Iterator<Item = &ResourceLife> {
        self.resources.iter().flatten()
    }

    fn add_beats(&mut self, from: i64) {
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
            let witness = witness(format!("i-witness-{tariff}"), tariff, self.until);
            last.items.extend(self.sighting(&witness, None, self.until));
            self.resources.push(vec![witness]);
        }
        self.beats.push(last);
    }

    fn beat(&self, at: i64) -> LedgerBeat {
        let seen = self.resources.iter().filter_map(|lives| {
            let place = lives.iter().rposition(|life| life.began <= at)?;
            self.sighting(&lives[place], lives.get(place + 1), at)
        });
        LedgerBeat {
            at: second(at),
            region: region(),
            whole: true,
            items: seen.collect(),
            unread: std::collections::BTreeSet::new(),
        }
    }

    /// What EC2 shows at that moment.
    fn sighting(&self, life: &ResourceLife, next: Option<&ResourceLife>, at: i64) -> Option<Sighting> {
        let over = life.end.filter(|end| *end <= at);
        let seen = match (over, life.ending) {
            (None, _) => Seen::Live,
            (Some(_), LifeEnd::Detached) => return None,
            (Some(end), ending) => ended(end, ending, at)?,
        };
        // The type of what is stopped may have been changed for the next life already.
        let changed_at = |next: &ResourceLife| over.unwrap_or(at).midpoint(next.began);
        let next = next.filter(|next| seen != Seen::Live && !self.well_told && changed_at(next) <= at);
        let tariff = next.map_or_else(|| life.tariff_at(at), |next| next.tariff);
        let known = self.prices[tariff].iter().filter(|(from, _)| *from <= at);
        let known = known.map(|(from, rate)| (second(*from), Rate::from_usd_micros_per_hour(*rate)));
        let mut prices: Vec<_> = known.collect();
        // One that was learnt for another tariff.
        if next.is_some() && tariff != life.tariff {
            prices.truncate(1);
        }
        Some(Sighting {
            resource: life.id.as_str().into(),
            began: second(life.began),
            facts: RunFacts {
                kind: if life.volume { RunKind::Volume } else { RunKind::Instance },
                team: life.team_at(at).map(Into::into),
                owner: None,
                name: (life.tariff == 1).then(|| "named".to_owned()),
                what: format!("type {tariff}"),
                terms: if life.spot { PurchaseTerms::Spot } else { PurchaseTerms::OnDemand },
                job: None,
                attached_to: life.volume.then(|| "i-0".into()),
                tariff: Tariff::new(format!("type {tariff}")),
            },
            life: seen,
            prices,
        })
    }

    /// Of each tariff a volume that is attached all the time, as every beat can see it.
    pub(crate) fn attached_throughout(&self) -> impl Iterator<Item = Sighting> {
        let began = self.boundary - 10 * HOUR;
        let volumes = (0..TARIFFS).map(move |tariff| witness(format!("vol-witness-{tariff}"), tariff, began));
        volumes.filter_map(|volume| self.sighting(&volume, None, self.until))
    }

    /// Every price that its tariff ever has.
    pub(crate) fn prices_of(&self, item: &Sighting) -> Vec<(Timestamp, Rate)> {
        let tariff = (0..TARIFFS).find(|tariff| item.facts.what == format!("type {tariff}")).unwrap();
        let changes = self.prices[tariff].iter();
        changes.map(|(from, rate)| (second(*from), Rate::from_usd_micros_per_hour(*rate))).collect()
    }

    /// What arrives of the beats, in the order in which it does; the last comes last.
    pub(crate) fn arrivals(&mut self) -> Vec<LedgerBeat> {
        let (chance, last) = (&mut self.chance, self.beats.len() - 1);
        let loses = [0.0, 0.1, 0.6][chance.usize(..3)];
        let mut arrived: Vec<LedgerBeat> = Vec::new();
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

/// A volume without a team that stays attached.
fn witness(id: String, tariff: usize, began: i64) -> ResourceLife {
    ResourceLife {
        id,
        volume: true,
        spot: false,
        tariff,
        began,
        end: None,
        ending: LifeEnd::Detached,
        retags: Vec::new(),
        resizes: Vec::new(),
    }
}

fn ended(end: i64, ending: LifeEnd, at: i64) -> Option<Seen> {
    let (gone, ended_at, terminated, reclaimed) = match ending {
        LifeEnd::Stopped => (i64::MAX, Some(end), false, false),
        LifeEnd::StoppedUnsaid => (i64::MAX, None, false, false),
        LifeEnd::Terminated => (end + HOUR, Some(end), true, false),
        LifeEnd::TerminatedUnsaid => (end + HOUR, None, true, false),
        LifeEnd::Reclaimed => (end + HOUR, Some(end), true, true),
        LifeEnd::ReclaimedUnsaid => (end + HOUR, None, true, true),
        LifeEnd::StoppedThenTerminated(at_last) if at < at_last => (at_last, Some(end), false, false),
        LifeEnd::StoppedThenTerminated(at_last) => (at_last + HOUR, Some(at_last), true, false),
        LifeEnd::Detached => return None,
    };
    (at < gone).then(|| Seen::Ended { at: ended_at.map(second), terminated, reclaimed })
}

/// What holds at that moment of a list of changes.
fn in_force<T: Copy>(changes: &[(i64, T)], at: i64) -> Option<T> {
    changes.iter().rev().find(|(from, _)| *from <= at).map(|(_, value)| *value)
}

impl ResourceLife {
    fn team_at(&self, at: i64) -> Option<&'static str> {
        in_force(&self.retags, at)
    }

    fn tariff_at(&self, at: i64) -> usize {
        in_force(&self.resizes, at).unwrap_or(self.tariff)
    }

    pub(crate) fn stopped_before(&self) -> bool {
        matches!(self.ending, LifeEnd::StoppedThenTerminated(_))
    }
}

/// The lives of one resource: some of a second, some of hours; what was terminated has no other.
fn lives(chance: &mut Rng, number: usize, from: i64, until: i64, well_told: bool) -> Vec<ResourceLife> {
    let volume = !well_told && chance.f64() < 0.2;
    let spot = !volume && chance.bool();
    let mut at = from - chance.i64(0..3 * HOUR);
    let mut lives = Vec::new();
    if well_told {
        at = from + chance.i64(1..HOUR);
    }
    loop {
        // Stopped and started again between two beats: the time of the stop is unknown.
        let pause = if well_told { BEAT } else { 1 };
        at += if lives.is_empty() { 0 } else { chance.i64(pause..2 * HOUR) };
        if at >= until {
            break;
        }
        let lasts = [chance.i64(1..90), chance.i64(1..HOUR), chance.i64(HOUR - 5..HOUR + 5), chance.i64(1..6 * HOUR)];
        let end = Some(at + lasts[chance.usize(..lasts.len())]).filter(|end| *end < until);
        let endings: &[LifeEnd] = match (volume, spot, well_told) {
            (true, ..) => &[LifeEnd::Detached],
            (_, true, true) => &[LifeEnd::Stopped, LifeEnd::Terminated, LifeEnd::Reclaimed],
            (_, false, true) => &[LifeEnd::Stopped, LifeEnd::Terminated],
            (_, true, false) => {
                &[LifeEnd::Terminated, LifeEnd::TerminatedUnsaid, LifeEnd::Reclaimed, LifeEnd::ReclaimedUnsaid]
            }
            (_, false, false) => &[
                LifeEnd::Stopped,
                LifeEnd::Stopped,
                LifeEnd::StoppedUnsaid,
                LifeEnd::Terminated,
                LifeEnd::TerminatedUnsaid,
                LifeEnd::StoppedThenTerminated(0),
            ],
        };
        let mut ending = endings[chance.usize(..endings.len())];
        if let (LifeEnd::StoppedThenTerminated(_), Some(end)) = (ending, end) {
            ending = LifeEnd::StoppedThenTerminated(end + HOUR + chance.i64(1..3 * HOUR));
        }
        let id = format!("{}-{number}", if volume { "vol" } else { "i" });
        let changes = chance.usize(..4);
        let mut moments: Vec<i64> = (0..changes).map(|_| chance.i64(at - HOUR..until)).collect();
        moments.sort_unstable();
        let retags = moments.iter().map(|from| (*from, TEAMS[chance.usize(..TEAMS.len())])).collect();
        let later = moments.iter().filter(|from| volume && **from > at);
        let resizes = later.map(|from| (*from, chance.usize(..TARIFFS))).collect();
        lives.push(ResourceLife {
            id,
            volume,
            spot,
            tariff: chance.usize(..TARIFFS),
            began: at,
            end,
            ending,
            retags,
            resizes,
        });
        let Some(end) = end else { break };
        at = end;
        if !matches!(ending, LifeEnd::Stopped | LifeEnd::StoppedUnsaid | LifeEnd::Detached) {
            break;
        }
    }
    lives
}
