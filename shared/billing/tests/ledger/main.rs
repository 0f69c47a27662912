//! The ledger under any interleaving of beats that are lost, repeated, late or simultaneous, against the integral of price over
//! running time, second by second (`oracle.rs`), for each team; the same of `SageMaker` beside it (`sagemaker.rs`); and its size and speed in a
//! month of 10,000 runs (`size.rs`).
//!
//! If an arrived beat reported the end of a run, the ledger is exact; otherwise the truth lies between the known amount and that plus the uncertain
//! one.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod oracle;
mod sagemaker;
mod size;
mod story;

use std::collections::BTreeMap;

use billing::ledger::{CalendarMonth, FoldLimits, Ledger, LedgerBeat, LedgerRun, RunCost, Sighting, TimeSpan};
use jiff::{SignedDuration, Timestamp};
use model::money::Amount;
use proptest::prelude::*;

use oracle::{Costs, costs, is_told};
use story::{LedgerStory, berlin, region, second};

/// The documents of two months, as a function that is woken by these beats leaves them.
struct LedgerPair {
    months: [CalendarMonth; 2],
    ledgers: [Ledger; 2],
}

impl LedgerPair {
    fn around(boundary: i64) -> Self {
        let next = CalendarMonth::containing(second(boundary), &berlin());
        let months = [next.previous(), next];
        let ledgers = [0, 1].map(|place: usize| Ledger::new(&months[place], &region()));
        Self { months, ledgers }
    }

    fn from_beats(story: &LedgerStory, beats: &[LedgerBeat]) -> Self {
        let mut books = Self::around(story.boundary);
        for beat in beats {
            books.add_beat(beat);
        }
        books
    }

    fn add_beat(&mut self, beat: &LedgerBeat) {
        self.take_down(beat.at, |ledger| ledger.observe(beat));
    }

    /// Written and read again each time, as in the bucket.
    fn take_down(&mut self, at: Timestamp, observe: impl Fn(&mut Ledger) -> bool) {
        let [earlier, later] = &mut self.ledgers;
        observe(earlier);
        if at >= self.months[1].span().from {
            later.carry(earlier);
            observe(later);
        }
        for ledger in &mut self.ledgers {
            let text = serde_json::to_string(&ledger).unwrap();
            let again: Ledger = serde_json::from_str(&text).unwrap();
            assert_eq!(&again, ledger, "{text}");
        }
    }
}

fn find<'a>(ledger: &'a Ledger, id: &str, began: i64) -> Option<LedgerRun<'a>> {
    ledger.runs().find(|run| run.resource.as_str() == id && run.began == second(began))
}

/// No team pays for the time of another one.
fn check_teams(run: &LedgerRun<'_>, window: TimeSpan, mut truth: Costs) -> Result<(), TestCaseError> {
    let mut shares: BTreeMap<Option<String>, RunCost> = BTreeMap::new();
    for share in run.shares(window) {
        let sum = shares.entry(share.team.map(ToString::to_string)).or_default();
        *sum = *sum + run.spent(share.span);
    }
    for (team, spent) in shares {
        let exact = oracle::amount(truth.remove(&team).unwrap_or_default());
        let (least, most) = (spent.amount, spent.amount + spent.uncertain);
        prop_assert!(least <= exact && exact <= most, "{:?}: {:?} of {:?}, {:?}", team, spent, exact, run);
    }
    prop_assert!(truth.is_empty(), "{truth:?} more, {run:?}");
    Ok(())
}

/// Every life of the story, in both months.
fn check(story: &LedgerStory, arrived: &[LedgerBeat]) -> Result<(), TestCaseError> {
    let books = LedgerPair::from_beats(story, arrived);
    let now = second(story.until);
    for (ledger, month) in books.ledgers.iter().zip(&books.months) {
        let window = TimeSpan { to: now, ..month.span() }.within(month.span());
        for life in story.lives() {
            let by_team = costs(story, life, arrived, window);
            let truth: u128 = by_team.values().sum();
            let run = find(ledger, &life.id, life.began);
            let evidence = is_told(life, arrived, window);
            if evidence.type_unseen {
                continue;
            }
            let Some(run) = run else {
                prop_assert!(
                    truth == 0 || !evidence.seen_live && !evidence.end,
                    "{life:?} is missing in {month}: {truth}"
                );
                continue;
            };
            let spent = run.spent(window);
            let (least, most) = (spent.amount, spent.amount + spent.uncertain);
            let exact = oracle::amount(truth);
            prop_assert!(least <= exact, "{life:?} in {month}: {least:?} of {exact:?}, {run:?}");
            prop_assert!(exact <= most, "{life:?} in {month}: at most {most:?} of {exact:?}, {run:?}");
            if evidence.end {
                prop_assert_eq!((least, most), (exact, exact), "{:?} in {}: {:?}", life, month, run);
            }
            check_teams(&run, window, by_team)?;
        }
        let without_life = ledger
            .runs()
            .find(|run| !story.lives().any(|life| life.id == run.resource.as_str() && second(life.began) == run.began));
        prop_assert!(without_life.is_none(), "{without_life:?}");
    }
    Ok(())
}

/// By team, what a ledger knows of a span that ends now at the latest, with what it has folded.
fn by_team(ledger: &Ledger, window: TimeSpan) -> BTreeMap<Option<String>, RunCost> {
    let mut sums: BTreeMap<Option<String>, RunCost> = BTreeMap::new();
    let mut add = |team: Option<String>, spent: RunCost| {
        let sum = sums.entry(team).or_default();
        *sum = *sum + spent;
    };
    for run in ledger.runs() {
        for share in run.shares(window) {
            add(share.team.map(ToString::to_string), run.spent(share.span));
        }
    }
    for (key, sum) in ledger.folded() {
        add(key.team.as_ref().map(ToString::to_string), sum.spent);
    }
    sums
}

/// These beats come later than others by less than this. A fold waits as long.
const LATE: SignedDuration = SignedDuration::from_mins(60);

/// The beats of a story that arrive, some of them late or twice, in the order of arrival.
fn late_arrivals(story: &mut LedgerStory, seed: u64) -> Vec<LedgerBeat> {
    let mut beats = story.arrivals();
    // A price that is learnt after the fold does not count in it: here each beat has all of them.
    let witnesses: Vec<Sighting> = story.attached_throughout().collect();
    for beat in &mut beats {
        beat.items.extend(witnesses.iter().cloned());
        for item in &mut beat.items {
            item.prices = story.prices_of(item);
        }
    }
    let last = beats.pop();
    let mut chance = fastrand::Rng::with_seed(seed);
    beats.sort_by_cached_key(|beat| (beat.at.as_second() + chance.i64(0..LATE.as_secs()), beat.at));
    beats.into_iter().chain(last).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No beat comes later than a fold waits. Then each team pays the same, whatever is folded in between.
    #[test]
    fn fuzz_what_is_folded_is_neither_lost_nor_counted_again(seed in any::<u64>()) {
        let mut story = LedgerStory::from_seed(seed);
        let beats = late_arrivals(&mut story, seed);
        let limits = FoldLimits { bytes_max: 500, settled_after: LATE };
        let mut folded = LedgerPair::from_beats(&story, &[]);
        let mut plain = LedgerPair::from_beats(&story, &[]);
        for beat in &beats {
            plain.add_beat(beat);
            folded.add_beat(beat);
            for ledger in &mut folded.ledgers {
                ledger.fold(&limits);
            }
        }
        // All of them once more, much too late.
        for beat in &beats {
            for ledger in &mut folded.ledgers {
                ledger.observe(beat);
            }
        }
        for (one, other) in folded.ledgers.iter().zip(&plain.ledgers) {
            let window = TimeSpan { to: second(story.until), ..one.span() }.within(one.span());
            let (mut folded, mut plain) = (by_team(one, window), by_team(other, window));
            for sums in [&mut folded, &mut plain] {
                sums.retain(|_, sum| sum.amount + sum.uncertain > Amount::ZERO);
            }
            prop_assert_eq!(folded.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
            let micros = |spent: &RunCost| (spent.amount.usd_micros(), spent.uncertain.usd_micros());
            for (team, spent) in &folded {
                let ((known, uncertain), (exact, unsure)) = (micros(spent), micros(&plain[team]));
                // To the rounding of a sum.
                let is_same = known.abs_diff(exact) < 50 && uncertain.abs_diff(unsure) < 50;
                prop_assert!(is_same, "{team:?}: {spent:?}, {:?}", plain[team]);
            }
        }
    }

    /// Whatever is lost, late, repeated and half seen.
    #[test]
    fn fuzz_no_interleaving_leads_the_ledger_beyond_what_it_says(seed in any::<u64>()) {
        let mut story = LedgerStory::from_seed(seed);
        let arrived = story.arrivals();
        check(&story, &arrived)?;
    }

    /// Where every beat arrives once, and each end has a name, the month is exact to the second.
    #[test]
    fn fuzz_a_month_of_which_all_is_seen_is_the_integral(seed in any::<u64>()) {
        let story = LedgerStory::well_told(seed);
        let books = LedgerPair::from_beats(&story, &story.beats);
        check(&story, &story.beats)?;
        for (ledger, month) in books.ledgers.iter().zip(&books.months) {
            let window = TimeSpan { to: second(story.until), ..month.span() }.within(month.span());
            let cost_of_life = |life| costs(&story, life, &story.beats, window).into_values().sum::<u128>();
            let truth: u128 = story.lives().map(cost_of_life).sum();
            let spent: RunCost = ledger.runs().map(|run| run.spent(window)).sum();
            prop_assert_eq!(spent.amount, oracle::amount(truth), "{}", month);
            prop_assert_eq!(spent.uncertain, model::money::Amount::ZERO);
        }
    }

    /// The order of beats, and how often each comes, leave no trace in a month's own document.
    #[test]
    fn fuzz_any_order_leaves_the_same_document(seed in any::<u64>()) {
        let mut story = LedgerStory::from_seed(seed);
        let arrived = story.arrivals();
        let mut sorted = arrived.clone();
        sorted.sort_by_key(|beat| beat.at);
        let [one, other] = [&arrived, &sorted].map(|beats| {
            let mut ledgers = LedgerPair::from_beats(&story, &[]).ledgers;
            for beat in beats {
                for ledger in &mut ledgers {
                    ledger.observe(beat);
                }
            }
            ledgers
        });
        prop_assert_eq!(&one, &other);
        for (ledger, beat) in one.iter().flat_map(|ledger| arrived.iter().map(move |beat| (ledger, beat))) {
            prop_assert!(!ledger.clone().observe(beat), "nothing is new in {beat:?}");
        }
    }
}

/// Berlin changed its clocks on October 25 and on March 29: those months have 745 and 743 hours.
#[test]
fn months_begin_at_midnight_where_the_account_is() {
    let month = |text: &str| CalendarMonth::read(text, &berlin()).unwrap();
    let check = |text: &str, from: &str, hours: i64| {
        let span = month(text).span();
        assert_eq!((span.from.to_string(), span.duration().as_secs()), (from.to_owned(), hours * 3600));
        assert_eq!(CalendarMonth::containing(span.from, &berlin()), month(text));
        let last = Timestamp::from_second(span.to.as_second() - 1).unwrap();
        assert_eq!(
            (CalendarMonth::containing(last, &berlin()), CalendarMonth::containing(span.to, &berlin())),
            (month(text), month(text).next())
        );
        assert_eq!(month(text).next().previous().to_string(), text);
    };
    check("2026-10", "2026-09-30T22:00:00Z", 745);
    check("2026-11", "2026-10-31T23:00:00Z", 720);
    check("2027-03", "2027-02-28T23:00:00Z", 743);
    check("2026-12", "2026-11-30T23:00:00Z", 744);
    for wrong in ["", "2026", "2026-1", "2026-13", "2026-00", "26-01", "2026-01-01", "+026-01", "2026-+1"] {
        assert_eq!(CalendarMonth::read(wrong, &berlin()), None, "{wrong:?}");
    }
}
