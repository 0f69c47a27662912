//! Energy and carbon of ledgers, by team and job.

use std::collections::BTreeMap;

use model::id::{ResourceId, TeamName, TypeName};

use super::{AcceleratorLoad, Footprint, FootprintGaps, MachineUse};
use crate::ledger::{Ledger, RunKind, TimeSpan};

/// The user of the energy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FootprintKey {
    pub team: Option<TeamName>,
    /// `<team>/<job>`, of the machine of a job.
    pub job: Option<String>,
}

/// Computes the footprint of the instances in these ledgers, by team and job, within a span that ends now at the latest. No ledger has the
/// load of the accelerators: `load_of` gives it for the machines of jobs; for all others each figure spans from idle to full.
#[must_use]
pub fn footprints<'a>(
    ledgers: impl IntoIterator<Item = &'a Ledger>,
    span: TimeSpan,
    load_of: impl Fn(&str, &ResourceId) -> AcceleratorLoad,
) -> BTreeMap<FootprintKey, Footprint> {
    let mut all: BTreeMap<FootprintKey, Footprint> = BTreeMap::new();
    for ledger in ledgers {
        let within = span.within(ledger.span());
        for run in ledger.runs().filter(|run| run.kind() == RunKind::Instance) {
            for share in run.shares(within) {
                let time = run.running_time(share.span);
                if time.most_seconds == 0 {
                    continue;
                }
                let instance_type = &TypeName::from(share.what);
                let load = share.job.map_or(AcceleratorLoad::Unknown, |job| load_of(job, run.resource));
                let footprint = Footprint::from_use(&MachineUse { instance_type, region: run.region, time, load });
                let key = FootprintKey { team: share.team.cloned(), job: share.job.map(str::to_owned) };
                let sum = all.entry(key).or_default();
                *sum = std::mem::take(sum) + footprint;
            }
        }
        let folded = ledger.folded().filter(|(key, _)| key.kind == RunKind::Instance);
        for (key, sum) in folded.filter(|(key, _)| key.span().within(span).seconds() > 0) {
            let key = FootprintKey { team: key.team.clone(), job: None };
            let gaps = FootprintGaps { folded_runs: sum.runs, ..FootprintGaps::default() };
            let of_team = all.entry(key).or_default();
            *of_team = std::mem::take(of_team) + Footprint::unknown(gaps);
        }
    }
    all
}
