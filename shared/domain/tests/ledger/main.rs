//! The ledger under any interleaving of beats that are lost, repeated, late or simultaneous, against the integral of price over
//! running time, second by second (`oracle.rs`); and its size and speed in a month of 10,000 runs (`size.rs`).
//!
//! Where the end of a run was told by a beat that arrived, the ledger is exact; else truth is at least what it knows, and at most
//! that and what it says is uncertain.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod oracle;
mod size;
mod story;

use domain::ledger::{Beat, Ledger, Month, Run, Span};
use jiff::Timestamp;
use proptest::prelude::*;

use oracle::{cost, is_told};
use story::{Story, berlin, region, second};

/// The documents of two months, as a function that is woken by these beats leaves them.
struct Books {
    months: [Month; 2],
    ledgers: [Ledger; 2],
}

impl Books {
    fn of(story: &Story, beats: &[Beat]) -> Self {
        let next = Month::of(second(story.boundary), &berlin());
        let months = [next.previous(), next];
        let ledgers = [0, 1].map(|place: usize| Ledger::new(&months[place], &region()));
        let mut books = Self { months, ledgers };
        for beat in beats {
            books.take(beat);
        }
        books
    }

    /// Written and read again each time, as in the bucket.
    fn take(&mut self, beat: &Beat) {
        let [earlier, later] = &mut self.ledgers;
        earlier.observe(beat);
        if beat.at >= self.months[1].span().from {
            later.carry(earlier);
            later.observe(beat);
        }
        for ledger in &mut self.ledgers {
            let text = serde_json::to_string(&ledger).unwrap();
            let again: Ledger = serde_json::from_str(&text).unwrap();
            assert_eq!(&again, ledger, "{text}");
        }
    }
}

fn find<'a>(ledger: &'a Ledger, id: &str, began: i64) -> Option<Run<'a>> {
    ledger.runs().find(|run| run.resource.as_str() == id && run.began == second(began))
}

/// Every life of the story, in both months.
fn check(story: &Story, arrived: &[Beat]) -> Result<(), TestCaseError> {
    let books = Books::of(story, arrived);
    let now = second(story.until);
    for (ledger, month) in books.ledgers.iter().zip(&books.months) {
        let window = Span { to: now, ..month.span() }.within(month.span());
        for life in story.lives() {
            let truth = cost(story, life, window);
            let run = find(ledger, &life.id, life.began);
            let told = is_told(life, arrived, window);
            if told.type_unseen {
                continue;
            }
            let Some(run) = run else {
                prop_assert!(truth == 0 || !told.seen_live && !told.end, "{life:?} is missing in {month}: {truth}");
                continue;
            };
            let spent = run.spent(window);
            let (least, most) = (spent.amount, spent.amount + spent.uncertain);
            let exact = oracle::amount(truth);
            prop_assert!(least <= exact, "{life:?} in {month}: {least:?} of {exact:?}, {run:?}");
            prop_assert!(exact <= most, "{life:?} in {month}: at most {most:?} of {exact:?}, {run:?}");
            if told.end {
                prop_assert_eq!((least, most), (exact, exact), "{:?} in {}: {:?}", life, month, run);
            }
        }
        let of_no_life = ledger
            .runs()
            .find(|run| !story.lives().any(|life| life.id == run.resource.as_str() && second(life.began) == run.began));
        prop_assert!(of_no_life.is_none(), "{of_no_life:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is lost, late, repeated and half seen.
    #[test]
    fn fuzz_no_interleaving_leads_the_ledger_beyond_what_it_says(seed in any::<u64>()) {
        let mut story = Story::of(seed);
        let arrived = story.arrivals();
        check(&story, &arrived)?;
    }

    /// Where every beat arrives once, and each end has a name, the month is exact to the second.
    #[test]
    fn fuzz_a_month_of_which_all_is_seen_is_the_integral(seed in any::<u64>()) {
        let story = Story::well_told(seed);
        let books = Books::of(&story, &story.beats);
        for (ledger, month) in books.ledgers.iter().zip(&books.months) {
            let window = Span { to: second(story.until), ..month.span() }.within(month.span());
            check(&story, &story.beats)?;
            let truth: u128 = story.lives().map(|life| cost(&story, life, window)).sum();
            let spent: domain::ledger::Spent = ledger.runs().map(|run| run.spent(window)).sum();
            prop_assert_eq!(spent.amount, oracle::amount(truth), "{}", month);
            prop_assert_eq!(spent.uncertain, domain::money::Amount::ZERO);
        }
    }

    /// The order of beats, and how often each comes, leave no trace in a month's own document.
    #[test]
    fn fuzz_any_order_leaves_the_same_document(seed in any::<u64>()) {
        let mut story = Story::of(seed);
        let arrived = story.arrivals();
        let mut sorted = arrived.clone();
        sorted.sort_by_key(|beat| beat.at);
        let [one, other] = [&arrived, &sorted].map(|beats| {
            let mut ledgers = Books::of(&story, &[]).ledgers;
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
    let month = |text: &str| Month::read(text, &berlin()).unwrap();
    let check = |text: &str, from: &str, hours: i64| {
        let span = month(text).span();
        assert_eq!((span.from.to_string(), span.duration().as_secs()), (from.to_owned(), hours * 3600));
        assert_eq!(Month::of(span.from, &berlin()), month(text));
        let last = Timestamp::from_second(span.to.as_second() - 1).unwrap();
        assert_eq!((Month::of(last, &berlin()), Month::of(span.to, &berlin())), (month(text), month(text).next()));
        assert_eq!(month(text).next().previous().to_string(), text);
    };
    check("2026-10", "2026-09-30T22:00:00Z", 745);
    check("2026-11", "2026-10-31T23:00:00Z", 720);
    check("2027-03", "2027-02-28T23:00:00Z", 743);
    check("2026-12", "2026-11-30T23:00:00Z", 744);
    for wrong in ["", "2026", "2026-1", "2026-13", "2026-00", "26-01", "2026-01-01", "+026-01", "2026-+1"] {
        assert_eq!(Month::read(wrong, &berlin()), None, "{wrong:?}");
    }
}
