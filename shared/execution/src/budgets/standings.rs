//! Where budgets stand, for those who only read it.

use domain::budget::{Period, Standings, needed_by_the_reaper};
use domain::config::Config;
use domain::observed::Gap;
use futures::{StreamExt, stream};

use super::impatient;
use crate::{AT_ONCE, Run};

/// Where each budget stands by which instances may be stopped: one object each, and none where nobody says `stop`. Of what could
/// not be read nobody can say, and so nothing is ended by it.
pub(crate) async fn standings(run: &Run<'_>, config: &Config) -> (Standings, Vec<Gap>) {
    let month = &Period::of(run.now, config).month;
    let home = run.aws.home();
    let reads = stream::iter(needed_by_the_reaper(config)).map(|holder| async move {
        let read = tokio::time::timeout(run.patience(), run.store.read_budget(&holder, month)).await;
        let read = match read {
            Ok(read) => read.map(|one| one.value.standing()).map_err(|error| error.gap(home)),
            Err(_) => Err(impatient(run, home, "s3:GetObject", &format!("a budget of {month}"))),
        };
        (holder, read)
    });
    let (mut standings, mut gaps) = (Standings::default(), Vec::new());
    for (holder, read) in reads.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match read {
            Ok(standing) => standings.0.extend(standing.map(|standing| (holder, standing))),
            Err(gap) => gaps.push(gap),
        }
    }
    (standings, gaps)
}
