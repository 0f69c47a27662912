//! The search for what can be undone about each named resource, before anything is.

use billing::price::{PriceBook, Quote};
use billing::restoration::Restoration;
use cloud::operator::{ResourceKind, snapshots_of, volumes_from};
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::notification_log::CarriedOut;
use model::observation::ObservedResource;
use model::sagemaker::{EndpointOrigin, SageMakerKind, SageMakerResource, SageMakerStatus};
use operator::undo;
use operator::undo::NothingToUndo;

use super::trail::{AuditTrail, RecordedAction, RecordedStop, TrailResult};
use crate::command_error::{describe_call_error, describe_gap};
use crate::context::CommandContext;
use crate::named_resource::{EnabledRegions, MissingResource, NamedResource};

/// One resource, and what can be done.
pub(super) struct UndoCase {
    pub(super) resource: ResourceId,
    pub(super) region: Option<Region>,
    pub(super) way: UndoMethod,
    pub(super) ended: Option<RecordedAction>,
    /// Cost of the resource once it is back, if known.
    pub(super) costs: Option<Quote>,
}

pub(super) enum UndoMethod {
    Start {
        instance: Box<Instance>,
        stopped: CarriedOut,
    },
    Restore {
        restoration: Box<Restoration>,
    },
    StartNotebook {
        notebook: Box<SageMakerResource>,
    },
    ScaleUp {
        component: Box<SageMakerResource>,
        copies: u32,
    },
    CreateEndpoint {
        region: Region,
        origin: Box<EndpointOrigin>,
    },
    /// No method, with the reason: there is nothing to undo, or that is unknown.
    None {
        why: String,
        unanswered: bool,
    },
}

impl UndoMethod {
    fn costs(&self, prices: &PriceBook) -> Option<Quote> {
        match self {
            Self::Start { instance, .. } => prices.saved_by_ending(instance),
            Self::Restore { restoration } => restoration.costs(prices),
            Self::StartNotebook { notebook, .. } => prices.sagemaker_cost(notebook),
            // On how many instances it would run is not known before.
            Self::CreateEndpoint { .. } | Self::ScaleUp { .. } | Self::None { .. } => None,
        }
    }
}

const UNREAD: &str = "whether Curfew stopped it is unknown, because its records cannot be read";

/// The scope of the search. `again`: existing restorations are made once more.
pub(super) struct UndoSearch<'a> {
    pub(super) context: &'a CommandContext,
    pub(super) everywhere: &'a EnabledRegions,
    pub(super) trail: &'a AuditTrail,
    pub(super) again: bool,
    pub(super) prices: &'a PriceBook,
}

impl UndoSearch<'_> {
    pub(super) async fn case(&self, named: &NamedResource) -> UndoCase {
        let seen = self.everywhere.find(self.context, named).await;
        let (region, (way, ended)) = match (named.kind, seen) {
            (_, Ok(ObservedResource::Instance(instance))) => {
                (Some(instance.region.clone()), self.instance(instance).await)
            }
            (_, Ok(ObservedResource::Snapshot(snapshot))) => {
                let of = &snapshot.of_volume;
                let why = if snapshot.described_run().is_some() {
                    format!("it is the snapshot of {of}: curfew undo {of}")
                } else {
                    "Curfew did not make it; of its own it restores volumes, by their ids".to_owned()
                };
                (Some(snapshot.region), (none(why), None))
            }
            (_, Ok(ObservedResource::Volume(volume))) => match undo::volume_without_undo(&volume) {
                Some(nothing) => (Some(volume.region), (way_of(nothing), None)),
                None => self.deleted(&volume.id, None).await,
            },
            (_, Ok(ObservedResource::SageMaker(resource))) => {
                (Some(resource.region.clone()), self.sagemaker(resource).await)
            }
            (ResourceKind::SageMaker, Err(missing)) => self.gone_from_sagemaker(&named.id, missing).await,
            (ResourceKind::Volume, Err(missing)) => self.deleted(&named.id, Some(&missing.unseen)).await,
            (_, Err(MissingResource { why, unseen })) if !unseen.is_empty() => (None, (unknown(why), None)),
            (ResourceKind::Instance, Err(MissingResource { why, .. })) => {
                (None, self.gone_instance(&named.id, why).await)
            }
            (ResourceKind::Snapshot, Err(MissingResource { why, .. })) => (None, (none(why), None)),
        };
        let costs = way.costs(self.prices);
        UndoCase { resource: named.id.clone(), region, way, ended, costs }
    }

    async fn instance(&self, instance: Instance) -> (UndoMethod, Option<RecordedAction>) {
        let recorded = if instance.state == InstanceState::Stopped {
            self.trail.recorded_stop("reap-instances", &instance.region, &instance.id).await
        } else {
            RecordedStop::default()
        };
        match undo::stop_to_undo(&instance, recorded.stop) {
            Ok(stopped) => {
                let ended = self.trail.find_stop(&instance.id, stopped.at).await.ended();
                (UndoMethod::Start { instance: Box::new(instance), stopped }, ended)
            }
            Err(NothingToUndo::NotByCurfew(_)) if recorded.is_unread => (unknown(UNREAD.to_owned()), None),
            Err(NothingToUndo::Gone(why)) => self.gone_instance(&instance.id, why).await,
            Err(nothing) => (way_of(nothing), None),
        }
    }

    async fn sagemaker(&self, resource: SageMakerResource) -> (UndoMethod, Option<RecordedAction>) {
        if matches!(resource.kind, SageMakerKind::InferenceComponent(_)) {
            let ended = match resource.status {
                SageMakerStatus::Stopped => self.trail.find_scaling(&resource.id).await.ended(),
                _ => None,
            };
            let ended = ended.filter(|ended| ended.region == resource.region);
            let recorded = ended.as_ref().and_then(RecordedAction::scaled_to_zero);
            return match undo::copies_to_restore(&resource, recorded) {
                Ok(copies) => (UndoMethod::ScaleUp { component: Box::new(resource), copies }, ended),
                Err(nothing) => (way_of(nothing), None),
            };
        }
        let recorded = if resource.status == SageMakerStatus::Stopped {
            self.trail.recorded_stop("reap-sagemaker", &resource.region, &resource.id).await
        } else {
            RecordedStop::default()
        };
        match undo::notebook_stop_to_undo(&resource, recorded.stop) {
            Err(NothingToUndo::NotByCurfew(_)) if recorded.is_unread => (unknown(UNREAD.to_owned()), None),
            Ok(stopped) => {
                let ended = self.trail.find_sagemaker_stop(&resource.id, stopped.at).await.ended();
                (UndoMethod::StartNotebook { notebook: Box::new(resource) }, ended)
            }
            Err(nothing) => (way_of(nothing), None),
        }
    }

    /// Finds how to undo the deletion of a resource of `SageMaker`. The origin of an endpoint is in the record of the run that deleted it.
    async fn gone_from_sagemaker(
        &self,
        id: &ResourceId,
        MissingResource { why, unseen }: MissingResource,
    ) -> (Option<Region>, (UndoMethod, Option<RecordedAction>)) {
        match self.trail.find_sagemaker_deletion(id).await {
            TrailResult::Ended(ended) if unseen.contains(&ended.region) => {
                let why = format!("whether it is gone is unknown: {} did not answer", ended.region);
                (Some(ended.region.clone()), (unknown(why), Some(ended)))
            }
            TrailResult::Ended(ended) => match ended.restore.clone() {
                Some(origin) => {
                    let region = ended.region.clone();
                    (Some(region.clone()), (UndoMethod::CreateEndpoint { region, origin }, Some(ended)))
                }
                None => (Some(ended.region.clone()), with_trail(why, TrailResult::Ended(ended))),
            },
            found if unseen.is_empty() => (None, with_trail(why, found)),
            _ => (None, (unknown(why), None)),
        }
    }

    async fn gone_instance(&self, instance: &ResourceId, why: String) -> (UndoMethod, Option<RecordedAction>) {
        with_trail(why, self.trail.find_termination(instance).await)
    }

    /// `unlisted`: no region lists it, but for these, which did not say whether they have it.
    async fn deleted(
        &self,
        volume: &ResourceId,
        unlisted: Option<&[Region]>,
    ) -> (Option<Region>, (UndoMethod, Option<RecordedAction>)) {
        let unseen = unlisted.unwrap_or_default();
        let snapshots = snapshots_of(&self.context.aws, &self.everywhere.0.items, volume).await;
        let (restoration, deleted_at) = match undo::restoration_of_deleted(volume, &snapshots.items) {
            Ok(found) => found,
            Err(NothingToUndo::Gone(_) | NothingToUndo::NoSnapshot)
                if !unseen.is_empty() || !snapshots.gaps.is_empty() =>
            {
                let first = snapshots.gaps.first().map(describe_gap);
                let first = first.unwrap_or_else(|| unseen.iter().map(Region::as_str).collect::<Vec<_>>().join(", "));
                return (None, (unknown(format!("its remains are unknown: {first}")), None));
            }
            Err(NothingToUndo::Gone(why)) => {
                return (None, with_trail(why, self.trail.find_deletion(volume, None).await));
            }
            Err(NothingToUndo::NoSnapshot) => {
                let found = self.trail.find_deletion(volume, None).await;
                // Of an id that AWS no longer knows, only the audit trail says that it existed.
                let why = match found {
                    TrailResult::Silent { .. } | TrailResult::Unread if unlisted.is_some() => format!(
                        "none of the account's {} regions has it, nor a snapshot that Curfew made of it",
                        self.everywhere.0.items.len()
                    ),
                    _ => "it is deleted, and Curfew has no snapshot of it".to_owned(),
                };
                return (None, with_trail(why, found));
            }
            Err(nothing) => return (None, (way_of(nothing), None)),
        };
        let region = restoration.region.clone();
        if unseen.contains(&region) {
            let why = format!("whether it is gone is unknown: {region} did not answer");
            return (Some(region), (unknown(why), None));
        }
        let ended = self.trail.find_deletion(volume, deleted_at).await.ended();
        (Some(region), (self.restore(restoration).await, ended))
    }

    async fn restore(&self, restoration: Restoration) -> UndoMethod {
        let Restoration { region, snapshot, .. } = &restoration;
        let made = match volumes_from(&self.context.aws, region, snapshot).await {
            Ok(made) => made,
            Err(error) => {
                return unknown(format!("whether it was restored already is unknown: {}", describe_call_error(&error)));
            }
        };
        match undo::restored_already(&restoration, &made) {
            Some(there) if !self.again => {
                none(format!("it was already restored as {}; --again restores another from {snapshot}", there.id))
            }
            _ => UndoMethod::Restore { restoration: Box::new(restoration) },
        }
    }
}

fn way_of(nothing: NothingToUndo) -> UndoMethod {
    match nothing {
        NothingToUndo::NoSnapshot => none("Curfew has no snapshot of it".to_owned()),
        NothingToUndo::NeverChanged(why) | NothingToUndo::Gone(why) | NothingToUndo::NotByCurfew(why) => none(why),
    }
}

const fn none(why: String) -> UndoMethod {
    UndoMethod::None { why, unanswered: false }
}

const fn unknown(why: String) -> UndoMethod {
    UndoMethod::None { why, unanswered: true }
}

/// Explains why something is gone for good, and who ended it.
fn with_trail(why: String, found: TrailResult) -> (UndoMethod, Option<RecordedAction>) {
    match found {
        TrailResult::Ended(ended) => (none(format!("{why}; that was {ended}")), Some(ended)),
        TrailResult::Silent { since } => {
            (none(format!("{why}; by the audit trail, Curfew has neither stopped nor deleted it since {since}")), None)
        }
        TrailResult::Unread => (none(why), None),
    }
}
