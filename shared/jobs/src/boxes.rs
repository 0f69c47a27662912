//! Boxes: GPU machines that a person works on, each with a home that outlives them.
//!
//! A box is a document, `boxes/<team>/<name>.json`, and a chain of ordinary jobs. Each `up` is one job, which becomes the [`holder`](GpuBox::holder)
//! of the box by compare-and-swap before it is launched, and gives the box back once its machine is gone. So of all the jobs of a box one at most
//! has a machine.
//!
//! The [`Home`] is an EBS volume of its own. The hardware lets one machine have a volume, and [`Home::volume`] says which of several volumes is
//! true: before another volume takes its place, everything that was written is in the snapshot from which that one is made.

pub mod end;
pub mod home;
pub mod idleness;
pub mod report;
pub mod terms;

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::team_folder::team_folder;
use serde::{Deserialize, Serialize};

pub use end::{BoxEnd, BoxEndCause, BoxTimes};
pub use home::{
    BoxMachine, Home, HomeEffect, HomeFacts, HomeSnapshot, HomeState, HomeStep, HomeVolume, HomeWait, VolumeSight,
    next_home,
};
pub use idleness::{IdleClock, IdleLimits, Look, Occupancy, Sign};
pub use report::BoxReport;
pub use terms::{BoxFacts, BoxState, BoxTerms, ExtendRequest, MountedHome};

use super::{Job, JobId};

/// A box, as its document has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuBox {
    /// `<team>/<name>`, as the document's key says.
    #[serde(rename = "box")]
    pub name: String,
    /// The person who brought it up first.
    #[serde(default)]
    pub owner: Option<String>,
    /// The region of its home.
    pub region: Region,
    /// The job that alone may launch a machine for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<BoxHolder>,
    /// Time at which the last job gave it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<Timestamp>,
    pub home: Home,
}

/// The job that has a box.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxHolder {
    pub job: JobId,
    pub since: Timestamp,
}

/// Prefix of the documents of boxes.
pub const BOXES: &str = "boxes/";

/// The name of the box that a job brings up, `<team>/<name>`.
#[must_use]
pub fn box_name(job: &JobId) -> String {
    format!("{}/{}", job.team, job.name())
}

/// The key of the document of a box, `boxes/<team>/<name>.json`.
#[must_use]
pub fn box_key(team: &TeamName, name: &str) -> String {
    format!("{BOXES}{}/{}.json", team_folder(team), team_folder(&TeamName::new(name)))
}

impl GpuBox {
    /// A box that a job brings up for the first time.
    #[must_use]
    pub fn new(job: &Job, terms: &BoxTerms, region: Region) -> Self {
        let home = Home::new(terms.home_gib);
        Self { name: box_name(&job.job), owner: job.owner.clone(), region, holder: None, down_since: None, home }
    }

    /// The box with `job` as its holder; it stays as it is if that job holds it already.
    ///
    /// # Errors
    /// The job that holds it instead.
    pub fn taken_by(&self, job: &JobId, now: Timestamp) -> Result<Self, BoxHolder> {
        match &self.holder {
            Some(holder) if holder.job == *job => Ok(self.clone()),
            Some(holder) => Err(holder.clone()),
            None => Ok(Self { holder: Some(BoxHolder { job: job.clone(), since: now }), ..self.clone() }),
        }
    }

    /// The box without that holder, for a job whose machine is known to be gone, or was never launched. `None` while its volume may still be
    /// attached to that machine, and if another job holds the box.
    #[must_use]
    pub fn released_by(&self, job: &JobId, now: Timestamp) -> Option<Self> {
        let is_free = self.home.volume.as_ref().is_none_or(|volume| volume.attached_to.is_none());
        (self.is_held_by(job) && is_free).then(|| Self { holder: None, down_since: Some(now), ..self.clone() })
    }

    /// `true` if that job is the one that may have a machine.
    #[must_use]
    pub fn is_held_by(&self, job: &JobId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.job == *job)
    }

    /// The home as the machine with it finds it; `None` if that machine does not have it.
    #[must_use]
    pub fn mounted_by(&self, machine: &ResourceId) -> Option<MountedHome> {
        let volume = self.home.volume.as_ref().filter(|volume| volume.attached_to.as_ref() == Some(machine))?;
        let is_empty = volume.from.is_none() && volume.uses <= 1;
        Some(MountedHome { volume: volume.id.clone()?, machine: machine.clone(), is_empty })
    }
}
