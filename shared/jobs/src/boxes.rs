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

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use end::{BoxEnd, BoxEndCause, BoxTimes};
pub use home::{
    BoxMachine, Home, HomeEffect, HomeFacts, HomeSnapshot, HomeState, HomeStep, HomeVolume, HomeWait, VolumeSight,
    next_home,
};
pub use idleness::{IdleClock, IdleLimits, Look, Occupancy, Sign};

use super::JobId;

/// A box, as its document has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuBox {
    /// The person whose box it is.
    pub owner: String,
    /// The public half of the key pair of this box, one line of OpenSSH's `authorized_keys`.
    pub public_key: String,
    /// The job that alone may launch a machine for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<BoxHolder>,
    pub home: Home,
}

/// The job that has a box.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxHolder {
    pub job: JobId,
    pub since: Timestamp,
}

impl GpuBox {
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
    pub fn released_by(&self, job: &JobId) -> Option<Self> {
        let is_holder = self.holder.as_ref().is_some_and(|holder| holder.job == *job);
        let is_free = self.home.volume.as_ref().is_none_or(|volume| volume.attached_to.is_none());
        (is_holder && is_free).then(|| Self { holder: None, ..self.clone() })
    }
}
