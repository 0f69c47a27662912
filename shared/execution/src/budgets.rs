//! Everything that a beat does before it decides about budgets: it looks at what runs, takes it down in the ledger, and makes each
//! budget document anew from that.
//!
//! Two beats at once do no harm: what a beat saw can be taken down any number of times in any order, documents are written over
//! the version that was read and no other, and whoever loses reads again. What a document reserves for jobs is kept
//! by each of them.
//!
//! What is not known says nothing: of a region that was not seen, all that is known stays, and nothing is over; where a ledger could
//! not be read, no budget document is renewed, for it would say too little; after an hour it is stale, and nobody holds or
//! stops anything by it.

mod closing;
mod cost_explorer;
mod documents;
mod ledgers;
mod standings;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::budget::{Budget, Holder};
use domain::id::Region;
use domain::instance::Instance;
use domain::ledger::{Beat, Look, Month};
use domain::observed::{Gap, GapKind, Observed};
use domain::policy::Policy;

use crate::{Recalled, Run, prices};

use documents::Renewed;
pub use standings::standings;

/// What a beat knows of the account.
pub struct Account {
    /// Where was looked.
    pub regions: Vec<Region>,
    /// Each budget as its document has it now.
    pub budgets: BTreeMap<Holder, Budget>,
    /// Those of the month before that this beat closed.
    pub closed: BTreeMap<Holder, Budget>,
    /// What could not be seen, read or written.
    pub gaps: Vec<Gap>,
    /// What earlier beats told: all of it with the home region.
    pub recalled: Recalled,
}

/// The month that it is, and the one before, in the account's time zone.
struct Months {
    this: Month,
    previous: Month,
}

impl Months {
    fn of(run: &Run<'_>, policy: &Policy) -> Self {
        let this = Month::of(run.now, &policy.config.account.zone());
        Self { previous: this.previous(), this }
    }
}

/// One beat.
pub async fn account(run: &Run<'_>, policy: &Policy) -> Account {
    let Observed { items: regions, mut gaps } = run.regions(&policy.config).await;
    let recalled = recall(run, &regions).await;
    // Without what was told nothing is told anew, and nothing else depends on it: the region is seen all the same.
    gaps.extend(recalled.gaps.iter().map(|gap| Gap { kind: GapKind::Part, ..gap.clone() }));
    let Observed { items: beats, gaps: unseen } = look(run, policy, &regions).await;
    gaps.extend(unseen);
    let months = Months::of(run, policy);
    let (ledgers, unkept) = ledgers::kept(run, &months, &regions, &beats).await;
    gaps.extend(unkept);
    let (Renewed { budgets, closed }, unwritten) = documents::renewed(run, policy, &months, &ledgers).await;
    gaps.extend(unwritten);
    Account { regions, budgets, closed, gaps, recalled }
}

/// What runs now, as beats of the ledger, with prices that are asked for as far as they are missing or old.
async fn look(run: &Run<'_>, policy: &Policy, regions: &[Region]) -> Observed<Beat> {
    let Observed { items: looks, mut gaps } = cloud::beats(run.aws, regions, run.patience()).await;
    let instances: Vec<Instance> =
        looks.iter().flat_map(|look| &look.instances).map(|one| one.instance.clone()).collect();
    let with_volumes: Vec<Region> =
        looks.iter().filter(|look| !look.volumes.is_empty()).map(|look| look.region.clone()).collect();
    let (prices, unasked) = prices::refresh(run, &policy.config, &instances, &with_volumes).await;
    gaps.extend(unasked);
    let of_look = |look: Look| {
        look.beat(run.now, &policy.config, |one| prices.known(&one.instance), |volume| prices.known_of_volume(volume))
    };
    Observed { items: looks.into_iter().map(of_look).collect(), gaps }
}

/// All that is told of budgets is remembered with the home region. Where that cannot be read, there is at least a place to remember that
/// this was told.
async fn recall(run: &Run<'_>, regions: &[Region]) -> Recalled {
    let recalled = run.recall(&[]).await;
    if recalled.memory.is_empty() { run.recall(regions).await } else { recalled }
}

/// What could not be awaited.
pub(crate) fn impatient(patience: Duration, region: &Region, call: &str, what: &str) -> Gap {
    let error = format!("{what} was not there within {} s; the next run tries again", patience.as_secs());
    Gap { region: region.clone(), call: call.to_owned(), error, kind: GapKind::Part }
}
