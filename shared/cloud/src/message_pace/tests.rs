use futures::future::join_all;
use tokio::time::sleep;

use super::*;

/// Arrivals at SNS of calls of these functions, all begun at once, that take so long each.
async fn arrivals(functions: &[&str], calls: usize, latency: Duration) -> Vec<Instant> {
    let pace = MessagePace::default();
    let send = async |function| {
        let _slot = pace.slot(function).await;
        sleep(latency).await;
        Instant::now()
    };
    join_all((0..calls).flat_map(|_| functions.iter().map(|function| send(function)))).await
}

#[tokio::test]
async fn no_second_has_more_than_five_messages_of_two_functions() {
    for latency in [Duration::ZERO, Duration::from_millis(300)] {
        let arrivals = arrivals(&["reap-instances", RUN_JOBS], 6, latency).await;
        let in_second = |from: Instant| arrivals.iter().filter(|&&at| at >= from && at < from + SECOND).count();
        let most = arrivals.iter().map(|&at| in_second(at)).max();
        assert_eq!(most, Some(OF_JOBS_PER_SECOND + OF_OTHERS_PER_SECOND), "with a latency of {latency:?}");
    }
}

#[tokio::test]
async fn the_first_messages_do_not_wait() {
    let begun = Instant::now();
    arrivals(&["reap-volumes"], OF_OTHERS_PER_SECOND, Duration::ZERO).await;
    assert!(begun.elapsed() < SECOND / 2);
}
