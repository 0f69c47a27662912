//! A look at what runs under `SageMaker` in a region, and the beat that it is.
//!
//! A run is one life of a resource, by its id and its beginning:
//!
//! - of a notebook instance its start, of an app or an endpoint its creation. `SageMaker` does not say when these end: as of volumes, that is
//!   between two beats;
//! - of a training or processing job the time on its instances, as `SageMaker` says it (`TrainingStartTime`, `TrainingEndTime`), shortened to the
//!   billable seconds (`DescribeTrainingJob`: "`BillableTimeInSeconds` * `InstanceCount`"). A job on managed Spot that runs may have cost nothing.
//!
//! All instances of a resource are one run, at the sum of their prices: an endpoint that scales changes its price, and begins no run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::{Region, ResourceId, TypeName};
use model::ownership::{owner_of, team_of, value_of};
use model::sagemaker::{
    ComputeJob, JobBilling, JobKind, ProductionSign, SageMakerKind, SageMakerResource, SageMakerStatus,
};

use super::Tariff;
use super::observe::{BillingState, LedgerBeat, Sighting};
use super::region_observation::KnownPrices;
use super::run::{PurchaseTerms, RunFacts, RunKind};
use crate::price::SageMakerComponent;

/// Resources that run on accelerated instances of `SageMaker` in a region, and the jobs that ended lately.
#[derive(Debug, Clone, PartialEq)]
pub struct SageMakerObservation {
    pub region: Region,
    /// `true` if every list was read.
    pub whole: bool,
    pub resources: Vec<SageMakerResource>,
    /// Resources that were listed, and whose details could not be read.
    pub unread: BTreeSet<ResourceId>,
}

/// Billing state of a resource, as far as known.
enum ResourceLife {
    /// The resource is not billed, or only its training jobs are, or it is not billed by the instance.
    Unbilled,
    Billed {
        began: Timestamp,
        life: BillingState,
    },
    /// The resource may be billed.
    Unknown,
}

impl SageMakerObservation {
    /// The beat that this look is, begun at that moment.
    #[must_use]
    pub fn to_beat(
        &self,
        at: Timestamp,
        config: &Config,
        known: impl Fn(&SageMakerResource) -> KnownPrices,
    ) -> LedgerBeat {
        let (mut unread, mut items) = (self.unread.clone(), Vec::new());
        for resource in &self.resources {
            let machines = resource.machines();
            match ResourceLife::from_resource(resource) {
                ResourceLife::Unbilled => {}
                ResourceLife::Billed { began, life } => items.push(Sighting {
                    resource: resource.id.clone(),
                    began,
                    facts: facts(resource, machines.as_ref(), config),
                    life,
                    // An endpoint whose configuration is deleted runs on, on instances that SageMaker no longer names.
                    prices: machines.map(|_| known(resource)).unwrap_or_default(),
                }),
                ResourceLife::Unknown => {
                    unread.insert(resource.id.clone());
                }
            }
        }
        LedgerBeat { at, region: self.region.clone(), whole: self.whole, items, unread }
    }
}

impl ResourceLife {
    fn from_resource(resource: &SageMakerResource) -> Self {
        use SageMakerStatus::{Changing, Deleted, Deleting, Other, Pending, Running, Stopped, Stopping};
        let live = |began| Self::Billed { began, life: BillingState::Live };
        match (&resource.kind, resource.status) {
            (SageMakerKind::Job(ComputeJob { job: JobKind::Tuning, .. }), _) => Self::Unbilled,
            (SageMakerKind::Job(job), status) => Self::from_job(&job.billing, status),
            // The instances of its endpoint are billed.
            (SageMakerKind::InferenceComponent(_), _) | (_, Deleting | Deleted) => Self::Unbilled,
            _ if resource.endpoint().is_some_and(|facts| facts.signs.contains(&ProductionSign::Serverless)) => {
                Self::Unbilled
            }
            // What its variants run on is billed, whatever its status is called.
            (SageMakerKind::Endpoint { .. }, _) => live(resource.created_at),
            (SageMakerKind::NotebookInstance | SageMakerKind::App(_), Running) => live(resource.since()),
            (
                SageMakerKind::NotebookInstance | SageMakerKind::App(_),
                Pending | Changing | Stopping | Stopped | Other,
            ) => Self::Unbilled,
        }
    }

    fn from_job(billing: &JobBilling, status: SageMakerStatus) -> Self {
        let Some(began) = billing.started_at else { return Self::Unbilled };
        let life = match (billing.ended_at, status) {
            (Some(_), _) => {
                BillingState::Ended { at: billed_until(began, billing), terminated: false, reclaimed: false }
            }
            (
                None,
                SageMakerStatus::Running
                | SageMakerStatus::Pending
                | SageMakerStatus::Changing
                | SageMakerStatus::Stopping,
            ) => BillingState::Live,
            (None, _) => return Self::Unknown,
        };
        Self::Billed { began, life }
    }
}

/// Returns the end of the billed time, as if the billable seconds were the first ones, in the month in which the job began. `None` if
/// `SageMaker` has not reported them.
fn billed_until(began: Timestamp, billing: &JobBilling) -> Option<Timestamp> {
    let seconds = billing.billable_seconds.and_then(|seconds| i64::try_from(seconds).ok());
    match seconds {
        Some(seconds) => began.checked_add(SignedDuration::from_secs(seconds)).ok(),
        None => billing.ended_at.filter(|_| !billing.is_managed_spot),
    }
}

fn facts(resource: &SageMakerResource, machines: Option<&BTreeMap<TypeName, u32>>, config: &Config) -> RunFacts {
    let tags = &resource.tags;
    let is_managed_spot = resource.job_billing().is_some_and(|billing| billing.is_managed_spot);
    let what = machines.map_or_else(|| "unknown instances".to_owned(), describe_machines);
    let component = SageMakerComponent::from_resource(resource).map_or("unknown", SageMakerComponent::usage);
    RunFacts {
        kind: RunKind::SageMaker,
        team: team_of(tags, config),
        owner: owner_of(tags, config),
        name: value_of(tags, "Name").map(str::to_owned),
        terms: if is_managed_spot { PurchaseTerms::ManagedSpot } else { PurchaseTerms::OnDemand },
        job: None,
        attached_to: None,
        tariff: Tariff::new(format!("SageMaker {component} {what}")),
        what,
    }
}

/// `ml.g5.xlarge`, `2 x ml.g5.xlarge and ml.g5.2xlarge`.
fn describe_machines(machines: &BTreeMap<TypeName, u32>) -> String {
    let running = machines.iter().filter(|(_, count)| **count > 0);
    let words =
        running.map(|(name, count)| if *count == 1 { format!("ml.{name}") } else { format!("{count} x ml.{name}") });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "no instance".to_owned() } else { words.join(" and ") }
}

#[cfg(test)]
mod tests;
