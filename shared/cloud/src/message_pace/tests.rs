use futures::future::join_all;
use tokio::time::sleep;

use super::*;

/// Arrivals at SNS of calls that take so long each, all begun at once.
async fn arrivals(calls: usize, latency: Duration) -> Vec<Instant> {
    let pace = MessagePace::default();
    let send = async || {
        let _slot = pace.slot().await;
        sleep(latency).await;
        Instant::now()
    };
    join_all((0..calls).map(|_| send())).await
}

#[tokio::test]
async fn no_second_has_more_messages_than_the_pace_allows() {
    for latency in [Duration::ZERO, Duration::from_millis(300)] {
        let arrivals = arrivals(5, latency).await;
        let in_second = |from: Instant| arrivals.iter().filter(|&&at| at >= from && at < from + SECOND).count();
        let most = arrivals.iter().map(|&at| in_second(at)).max();
        assert_eq!(most, Some(PER_SECOND), "with a latency of {latency:?}");
    }
}

#[tokio::test]
async fn the_first_messages_do_not_wait() {
    let begun = Instant::now();
    arrivals(PER_SECOND, Duration::ZERO).await;
    assert!(begun.elapsed() < SECOND / 2);
}
