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
pub mod limits;
pub mod overview;
pub mod report;
mod resources;
pub mod terms;

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::team_folder::{decode_folder, team_folder};
use serde::{Deserialize, Serialize};

pub use end::{BoxEnd, BoxEndCause, BoxTimes};
pub use home::{
    BoxMachine, Home, HomeEffect, HomeFacts, HomeSight, HomeSnapshot, HomeState, HomeStep, HomeVolume, HomeWait,
    VolumeSight, next_home,
};
pub use idleness::{IdleClock, IdleLimits, Look, Occupancy, Sign};
pub use limits::{BoxAllowance, BoxInUse, BoxLimits, TooManyBoxes};
pub use overview::{BoxOverview, BoxStatus};
pub use report::BoxReport;
pub use terms::{BoxFacts, BoxRemoval, BoxState, BoxTerms, ExtendRequest, KEPT_BY_LINK, MountedHome, latest_box_end};

use super::{Candidate, Job, JobId};

/// A zone with the home is taken up to this multiple of the least price: to move a home takes minutes to hours.
const HOME_ZONE_RATE_MAX: (u64, u64) = (3, 2);

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
    /// Time at which it was made: part of the token of each of its volumes.
    pub made_at: Timestamp,
    /// The job that alone may launch a machine for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<BoxHolder>,
    /// The job that brought it up last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobId>,
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

/// The port of a box's own sshd, on 127.0.0.1 alone.
pub const SSH_PORT: u16 = 2222;

/// The size of a home whose spec names none, in GiB.
pub const HOME_GIB: u32 = 100;

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

/// Team and name of the box whose document has this key; `None` if Curfew would spell it differently.
#[must_use]
pub fn box_of_key(key: &str) -> Option<(TeamName, String)> {
    let (team, name) = key.strip_prefix(BOXES)?.strip_suffix(".json")?.split_once('/')?;
    let (team, name) = (TeamName::new(decode_folder(team)?), decode_folder(name)?);
    (box_key(&team, &name) == key).then_some((team, name))
}

impl GpuBox {
    /// A box that a job brings up for the first time.
    #[must_use]
    pub fn new(job: &Job, terms: &BoxTerms, region: Region, now: Timestamp) -> Self {
        let home = Home::new(terms.home_gib);
        let (name, owner) = (box_name(&job.job), job.owner.clone());
        Self { name, owner, region, made_at: now, holder: None, last_job: None, down_since: None, home }
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
        Some(MountedHome { volume: volume.id.clone()?, machine: machine.clone(), is_empty: volume.from.is_none() })
    }
}

/// The families of Xen, on which Linux does not name a disk by its volume (EC2 user guide, "Instances built on the AWS Nitro System").
const XEN_FAMILIES: [&str; 4] = ["p2", "p3", "g3", "g3s"];

/// Puts the candidates in the zone of the home first, in their order, as far as none costs too much more than the cheapest of all; those that cannot
/// find the disk of a home are left out.
#[must_use]
pub fn prefer_zone(candidates: Vec<Candidate>, zone: Option<&str>) -> Vec<Candidate> {
    let micros = |candidate: &Candidate| candidate.rate.usd_micros_per_hour();
    let least = candidates.iter().map(micros).min().unwrap_or_default();
    let (times, over) = HOME_ZONE_RATE_MAX;
    let is_near = |candidate: &Candidate| {
        zone == Some(candidate.zone.as_str()) && micros(candidate).saturating_mul(over) <= least.saturating_mul(times)
    };
    let finds_disk = |candidate: &Candidate| {
        let family = candidate.instance_type.as_str().split('.').next().unwrap_or_default();
        !XEN_FAMILIES.contains(&family)
    };
    let (near, others): (Vec<_>, Vec<_>) = candidates.into_iter().filter(finds_disk).partition(is_near);
    near.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::{noon_plus, ranking};

    #[test]
    fn a_key_names_one_box() {
        for (team, name) in [("vision", "my-box"), ("a/b", "x.y")] {
            assert_eq!(box_of_key(&box_key(&team.into(), name)), Some((team.into(), name.to_owned())));
        }
        for key in ["boxes/vision/x", "boxes/v%69sion/x.json", "boxes/vision/x/y.json", "jobs/vision/x.json"] {
            assert_eq!(box_of_key(key), None, "{key}");
        }
    }

    #[test]
    fn the_zone_of_the_home_comes_first_up_to_a_price() {
        let zones = |zone| -> Vec<String> {
            let candidates = prefer_zone(ranking(noon_plus(0)).candidates, Some(zone));
            candidates.into_iter().map(|one| format!("{} {}", one.zone, one.rate.usd_micros_per_hour())).collect()
        };
        assert_eq!(zones("us-east-1b"), ["us-east-1b 500000", "us-east-1a 400000", "us-east-1a 4000000"]);
        let mut old = ranking(noon_plus(0)).candidates;
        old[0].instance_type = "p3.2xlarge".into();
        assert_eq!(prefer_zone(old, None).len(), 2, "it does not find its disk");
        assert_eq!(zones("us-east-1a"), ["us-east-1a 400000", "us-east-1b 500000", "us-east-1a 4000000"]);
    }
}
