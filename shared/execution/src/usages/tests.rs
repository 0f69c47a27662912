use model::usage::{UsageWindow, WINDOW_MAX};

use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn parts_hold_no_more_samples_than_fit() {
    // An hour, 21 series each: 252 samples.
    const PERIODS: usize = 12;
    let sizes = |count: usize| {
        let all = vec![PERIODS * 21; count];
        parts(all, |one| *one).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(sizes(0), Vec::<usize>::new());
    assert_eq!(sizes(1984), [1984]);
    assert_eq!(sizes(1985), [1984, 1]);
    let sixty_days = UsageWindow::ending_before(time("2026-09-01T12:00:00Z"), WINDOW_MAX).periods();
    assert_eq!(parts(vec![sixty_days; 40], |one| *one).len(), 2);
    assert_eq!(parts(vec![usize::MAX, PERIODS], |one| *one).len(), 2, "one that does not fit goes alone");
}

#[test]
fn the_end_is_a_whole_period() {
    assert_eq!(end_of_period(time("2026-09-01T12:00:00Z")), time("2026-09-01T12:00:00Z"));
    assert_eq!(end_of_period(time("2026-09-01T12:00:01Z")), time("2026-09-01T12:05:00Z"));
    assert_eq!(end_of_period(time("2026-09-01T12:04:59.9Z")), time("2026-09-01T12:05:00Z"));
}
