//! What can be undone about each resource that somebody named, before anything is.

use cloud::operator::{Kind, snapshots_of, volumes_from};
use domain::id::{Region, ResourceId};
use domain::instance::Instance;
use domain::plan::Seen;
use domain::price::{PriceBook, Quote};
use domain::restoration::Restoration;
use domain::undo::{self, Nothing};
use domain::vocabulary::Stopped;

use super::trail::{Ended, Found, Trail};
use crate::context::Context;
use crate::failure::{of_call, of_gap};
use crate::named::{Everywhere, Missing, Named};

/// One resource, and what can be done.
pub(super) struct Case {
    pub(super) resource: ResourceId,
    pub(super) region: Option<Region>,
    pub(super) way: Way,
    pub(super) ended: Option<Ended>,
    /// What it costs again, where that is known.
    pub(super) costs: Option<Quote>,
}

pub(super) enum Way {
    Start {
        instance: Box<Instance>,
        stopped: Stopped,
    },
    Restore {
        restoration: Box<Restoration>,
    },
    /// Nothing can be, and why; or nobody can say.
    None {
        why: String,
        unanswered: bool,
    },
}

impl Way {
    fn costs(&self, prices: &PriceBook) -> Option<Quote> {
        match self {
            Self::Start { instance, .. } => prices.saved_by_ending(instance),
            Self::Restore { restoration } => restoration.costs(prices),
            Self::None { .. } => None,
        }
    }
}

/// Where to look, and whether what exists already is made once more.
pub(super) struct Search<'a> {
    pub(super) context: &'a Context,
    pub(super) everywhere: &'a Everywhere,
    pub(super) trail: &'a Trail,
    pub(super) again: bool,
    pub(super) prices: &'a PriceBook,
}

impl Search<'_> {
    pub(super) async fn case(&self, named: &Named) -> Case {
        let seen = self.everywhere.find(self.context, named).await;
        let (region, (way, ended)) = match (named.kind, seen) {
            (_, Ok(Seen::Instance(instance))) => (Some(instance.region.clone()), self.instance(instance).await),
            (_, Ok(Seen::Snapshot(snapshot))) => {
                let of = &snapshot.of_volume;
                let why = if snapshot.is_of_curfew() {
                    format!("it is the snapshot of {of}: curfew undo {of}")
                } else {
                    "Curfew did not make it; of its own it restores volumes, by their ids".to_owned()
                };
                (Some(snapshot.region), (none(why), None))
            }
            (_, Ok(Seen::Volume(volume))) => match undo::of_volume(&volume) {
                Some(nothing) => (Some(volume.region), (way_of(nothing), None)),
                None => self.deleted(&volume.id, None).await,
            },
            (_, Ok(Seen::Budget { region, .. })) => (Some(region), (none("it is a budget".to_owned()), None)),
            (Kind::Volume, Err(missing)) => self.deleted(&named.id, Some(&missing.unseen)).await,
            (_, Err(Missing { why, unseen })) if !unseen.is_empty() => (None, (unknown(why), None)),
            (Kind::Instance, Err(Missing { why, .. })) => (None, self.gone_instance(&named.id, why).await),
            (Kind::Snapshot, Err(Missing { why, .. })) => (None, (none(why), None)),
        };
        let costs = way.costs(self.prices);
        Case { resource: named.id.clone(), region, way, ended, costs }
    }

    async fn instance(&self, instance: Instance) -> (Way, Option<Ended>) {
        match undo::of_instance(&instance) {
            Ok(stopped) => {
                let ended = match self.trail.of_stop(&instance.id, stopped.at).await {
                    Found::Ended(ended) => Some(ended),
                    Found::Silent { .. } | Found::Unread => None,
                };
                (Way::Start { instance: Box::new(instance), stopped }, ended)
            }
            Err(Nothing::Gone(why)) => self.gone_instance(&instance.id, why).await,
            Err(nothing) => (way_of(nothing), None),
        }
    }

    async fn gone_instance(&self, instance: &ResourceId, why: String) -> (Way, Option<Ended>) {
        with_trail(why, self.trail.of_termination(instance).await)
    }

    /// `unlisted`: no region lists it, but for these, which did not say whether they have it.
    async fn deleted(
        &self,
        volume: &ResourceId,
        unlisted: Option<&[Region]>,
    ) -> (Option<Region>, (Way, Option<Ended>)) {
        let unseen = unlisted.unwrap_or_default();
        let snapshots = snapshots_of(&self.context.aws, &self.everywhere.0.items, volume).await;
        let (restoration, deleted_at) = match undo::of_deleted(volume, &snapshots.items) {
            Ok(found) => found,
            Err(Nothing::Gone(_) | Nothing::NoSnapshot) if !unseen.is_empty() || !snapshots.gaps.is_empty() => {
                let first = snapshots.gaps.first().map(of_gap);
                let first = first.unwrap_or_else(|| unseen.iter().map(Region::as_str).collect::<Vec<_>>().join(", "));
                return (None, (unknown(format!("nobody can say what is left of it: {first}")), None));
            }
            Err(Nothing::Gone(why)) => return (None, with_trail(why, self.trail.of_deletion(volume, None).await)),
            Err(Nothing::NoSnapshot) => {
                let found = self.trail.of_deletion(volume, None).await;
                // Of an id that nobody knows, only the trail says that it ever was.
                let why = match found {
                    Found::Silent { .. } | Found::Unread if unlisted.is_some() => format!(
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
            let why = format!("nobody can say whether it is gone: {region} did not answer");
            return (Some(region), (unknown(why), None));
        }
        let ended = match self.trail.of_deletion(volume, deleted_at).await {
            Found::Ended(ended) => Some(ended),
            Found::Silent { .. } | Found::Unread => None,
        };
        (Some(region), (self.restore(restoration).await, ended))
    }

    async fn restore(&self, restoration: Restoration) -> Way {
        let Restoration { region, snapshot, .. } = &restoration;
        let made = match volumes_from(&self.context.aws, region, snapshot).await {
            Ok(made) => made,
            Err(error) => {
                return unknown(format!("nobody can say whether it was made again already: {}", of_call(&error)));
            }
        };
        match undo::restored_already(&restoration, &made) {
            Some(there) if !self.again => {
                none(format!("it was made again already, as {}; --again makes another of {snapshot}", there.id))
            }
            _ => Way::Restore { restoration: Box::new(restoration) },
        }
    }
}

fn way_of(nothing: Nothing) -> Way {
    match nothing {
        Nothing::NoSnapshot => none("Curfew has no snapshot of it".to_owned()),
        Nothing::ToUndo(why) | Nothing::Gone(why) | Nothing::OfCurfew(why) => none(why),
    }
}

const fn none(why: String) -> Way {
    Way::None { why, unanswered: false }
}

const fn unknown(why: String) -> Way {
    Way::None { why, unanswered: true }
}

/// Why something is gone for good, and who ended it.
fn with_trail(why: String, found: Found) -> (Way, Option<Ended>) {
    match found {
        Found::Ended(ended) => (none(format!("{why}; it was ended by {ended}")), Some(ended)),
        Found::Silent { since } => {
            (none(format!("{why}; by the audit trail, Curfew has not ended it since {since}")), None)
        }
        Found::Unread => (none(why), None),
    }
}
