//! The use of an instance's GPUs as far as it is already known, and since when. Nothing is asked for it.
//!
//! The newest of these counts: the evidence of the newest run (`gpu_max_percent`, the highest of any GPU in the window), what `activity/`
//! has of the last inquiry, and the heartbeat of the job that runs on it. A reading from before the launch is of an earlier life of the
//! instance.

use jiff::Timestamp;
use model::instance::{Instance, InstanceState};
use model::usage::LastInquiry;
use plan::report::{RecordedStep, RunRecord};
use serde::Serialize;

use super::format_moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuState {
    /// Busy; `percent` has the utilisation if anybody measured it.
    Busy,
    /// Idle for the whole window.
    Idle,
    /// Idle for the whole window, but GPU memory is held.
    Reserved,
    /// A measurement alone, of a job's machine.
    Measured,
    Unknown,
    /// The instance does not run.
    Off,
}

/// The use of one instance's GPUs, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GpuUse {
    pub state: GpuState,
    /// Utilisation of the busiest GPU, in percent.
    pub percent: Option<f64>,
    /// Time until which the use was observed.
    pub at: Option<Timestamp>,
}

impl GpuUse {
    pub(super) const UNKNOWN: Self = Self { state: GpuState::Unknown, percent: None, at: None };
    pub(super) const OFF: Self = Self { state: GpuState::Off, percent: None, at: None };

    pub(super) const fn measured(percent: f64, at: Timestamp) -> Self {
        Self { state: GpuState::Measured, percent: Some(percent), at: Some(at) }
    }

    pub(super) fn for_instance(
        instance: &Instance,
        asked: Option<&LastInquiry>,
        newest: Option<&RunRecord>,
        measured: Option<Self>,
    ) -> Self {
        if instance.state != InstanceState::Running {
            return Self::OFF;
        }
        let evidence = newest.and_then(|run| evidence_of(run, instance));
        let known = [asked.and_then(from_activity), evidence, measured];
        let since_launch =
            known.into_iter().flatten().filter(|one| one.at.is_some_and(|at| at >= instance.launched_at));
        // Of two of one moment the later one in the list: it has a figure.
        since_launch.max_by_key(|one| one.at).unwrap_or(Self::UNKNOWN)
    }

    /// `97 % 12:03`, `busy 11:50`, `unknown`.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let percent = self.percent.map(|percent| format!("{percent:.0} %"));
        let what = match self.state {
            GpuState::Unknown => return "unknown".to_owned(),
            GpuState::Off => return "off".to_owned(),
            GpuState::Reserved => "held".to_owned(),
            GpuState::Busy => percent.unwrap_or_else(|| "busy".to_owned()),
            GpuState::Idle | GpuState::Measured => percent.unwrap_or_else(|| "idle".to_owned()),
        };
        self.at.map_or(what.clone(), |at| format!("{what} {}", format_moment(at, now)))
    }
}

/// Reads the use from `activity/`: no figure, but whether the GPUs worked.
fn from_activity(asked: &LastInquiry) -> Option<GpuUse> {
    let idle = asked.found_idle_reserved.map(|reserved| {
        let state = if reserved { GpuState::Reserved } else { GpuState::Idle };
        GpuUse { state, percent: None, at: Some(asked.at) }
    });
    idle.or_else(|| asked.busy_until.map(|until| GpuUse { state: GpuState::Busy, percent: None, at: Some(until) }))
}

/// Reads the use from the newest run's evidence that the instance was idle.
fn evidence_of(run: &RunRecord, instance: &Instance) -> Option<GpuUse> {
    let is_instance = |step: &&RecordedStep| step.resource == instance.id && step.region == instance.region;
    run.steps.iter().filter(is_instance).find_map(|step| {
        let details = Some(&step.evidence.details).filter(|_| step.evidence.rule == "idle")?;
        let percent = details.get("gpu_max_percent")?.as_f64().filter(|percent| (0.0..=100.0).contains(percent))?;
        details.get("to")?.as_str()?.parse::<Timestamp>().ok()?;
        let is_reserved = details.get("reserved").and_then(serde_json::Value::as_bool).unwrap_or_default();
        let state = if is_reserved { GpuState::Reserved } else { GpuState::Idle };
        // The run saw it: what `activity/` has is of the same moment.
        Some(GpuUse { state, percent: Some(percent), at: Some(run.at) })
    })
}
