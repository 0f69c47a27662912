//! A box for people: its state, its end, and its cost.

use jiff::Timestamp;
use model::id::Region;
use model::money::Amount;
use serde::Serialize;

use super::{BoxReport, GpuBox, HomeWait};
use crate::{Job, JobId, JobMachine, JobOverview, Phase};

/// The state of a box, and what it costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoxOverview {
    /// `<team>/<name>`.
    #[serde(rename = "box")]
    pub name: String,
    pub owner: Option<String>,
    pub region: Region,
    pub state: BoxStatus,
    /// The reason for the state, in words.
    pub why: String,
    /// Time since which it is up, starting or down.
    pub since: Option<Timestamp>,
    /// Its next end, as far as its agent knows; before that its soft end.
    pub ends_at: Option<Timestamp>,
    /// The job that has it, or had it last.
    pub job: Option<JobId>,
    pub machine: Option<JobMachine>,
    /// Highest cost since it was brought up; `None` while it is down.
    pub cost_usd_max: Option<Amount>,
    pub home_gib: u32,
    /// The zone of its home; `None` before it has one.
    pub zone: Option<String>,
    /// Time of the newest complete snapshot of its home.
    pub snapshot_at: Option<Timestamp>,
}

/// The state of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoxStatus {
    /// People can log in.
    Up,
    /// A job brings it up.
    Starting,
    /// Its job is over, and its machine is not known to be gone.
    Ending,
    Down,
    /// Its home is lost: a person has to decide.
    Broken,
    /// A job removes it.
    Removing,
}

impl BoxStatus {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Starting => "starting",
            Self::Ending => "ending",
            Self::Down => "down",
            Self::Broken => "broken",
            Self::Removing => "removing",
        }
    }
}

impl BoxOverview {
    /// Describes a box. `job` is its holder, or the last job that it had; `report` that of the job's machine.
    #[must_use]
    pub fn new(gpu_box: &GpuBox, job: Option<&Job>, report: Option<&BoxReport>, now: Timestamp) -> Self {
        let holder = job.filter(|job| gpu_box.is_held_by(&job.job));
        let live = holder.filter(|job| !matches!(job.phase, Phase::Ended(_)));
        let report = report.filter(|_| live.is_some_and(|job| matches!(job.phase, Phase::Running(_))));
        let lost = live.is_some_and(|job| home_wait(job) == Some(HomeWait::Lost));
        let state = match (&gpu_box.holder, live, report) {
            (None, ..) => BoxStatus::Down,
            (Some(_), None, _) => BoxStatus::Ending,
            (_, Some(job), _) if job.is_removal() => BoxStatus::Removing,
            _ if lost => BoxStatus::Broken,
            (_, _, Some(_)) => BoxStatus::Up,
            (_, _, None) => BoxStatus::Starting,
        };
        let overview = job.map(|job| JobOverview::from_job(job, now));
        let silent_since = live.and_then(|job| job.gpu_box.as_ref()?.silent_since);
        let why = match (live, report, silent_since) {
            (Some(_), Some(_), Some(since)) => format!("no heartbeat since {since:.0}"),
            (Some(_), Some(report), None) => report.why.clone(),
            (Some(job), None, _) => describe_start(job, None),
            (None, ..) => overview.as_ref().map(|overview| overview.why.clone()).unwrap_or_default(),
        };
        let volume = gpu_box.home.volume.as_ref();
        let soft_end = live.and_then(|job| Some(job.gpu_box.as_ref()?.soft_end));
        let completed = gpu_box.home.snapshots.iter().filter(|snapshot| snapshot.completed);
        Self {
            name: gpu_box.name.clone(),
            owner: gpu_box.owner.clone(),
            region: gpu_box.region.clone(),
            state,
            why,
            since: report
                .map(|report| report.ready_at)
                .or(gpu_box.holder.as_ref().map(|holder| holder.since))
                .or(gpu_box.down_since),
            ends_at: report.map(|report| report.ends_at).or(soft_end),
            job: gpu_box.holder.as_ref().map(|holder| holder.job.clone()).or(job.map(|job| job.job.clone())),
            machine: live.and_then(Job::machine).cloned(),
            cost_usd_max: holder.and(overview).map(|overview| overview.cost_usd_max),
            home_gib: gpu_box.home.size_gib,
            zone: volume.map(|volume| volume.zone.clone()),
            snapshot_at: completed.map(|snapshot| snapshot.at).max(),
        }
    }
}

/// Describes the step of a box on its way up. `doing`: the activity of its agent.
#[must_use]
pub fn describe_start(job: &Job, doing: Option<&str>) -> String {
    let overview = JobOverview::from_job(job, job.submitted_at);
    let machine = match &job.phase {
        Phase::Submitted => return "submitted".to_owned(),
        Phase::Reserving => return "reserving its cost".to_owned(),
        Phase::Launching(_) => return format!("launching: {}", overview.why),
        Phase::Running(machine) => machine,
        _ => return format!("{}: {}", overview.state, overview.why),
    };
    let mounted = job.gpu_box.as_ref().and_then(|gpu_box| gpu_box.home.as_ref());
    let is_mounted = mounted.is_some_and(|home| home.machine == machine.instance);
    match (home_wait(job), doing) {
        (Some(wait), _) if !is_mounted => format!("home: {}", describe_wait(wait)),
        (_, Some(doing)) if !doing.is_empty() => format!("starting: {doing}"),
        _ => format!("booting {} ({} in {})", machine.instance, machine.instance_type, machine.zone),
    }
}

impl Job {
    /// `true` if it removes a box, and brings none up.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.terms.gpu_box.as_ref().is_some_and(|terms| terms.remove.is_some())
    }
}

fn home_wait(job: &Job) -> Option<HomeWait> {
    job.gpu_box.as_ref()?.home_wait
}

const fn describe_wait(wait: HomeWait) -> &'static str {
    match wait {
        HomeWait::Unknown => "waits for EC2 to say where its volume is",
        HomeWait::LastMachine => "waits for the last machine to let go of its volume",
        HomeWait::Volume => "waits for its volume to be made",
        HomeWait::Snapshot => {
            "waits for the snapshot of its last use, which this zone needs: minutes, and hours for a first one"
        }
        HomeWait::Lost => "is lost: its volume is gone, and no complete snapshot has its last use",
    }
}

#[cfg(test)]
mod tests {
    use model::config::Config;
    use model::fixture::{NOW, time};

    use super::*;
    use crate::box_job::NO_KEY;
    use crate::boxes::{BoxRemoval, HomeSnapshot, HomeState, HomeVolume};
    use crate::next::tests::fixture::placed;
    use crate::{JobEnd, JobResult, JobSpec};

    fn job(phase: Phase) -> Job {
        let text = format!("owner = \"ada\"\n[box]\npublic_key = \"{NO_KEY}\"\nhome_gib = 200");
        let spec = JobSpec::read(&text, "b", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap();
        let id = JobId::read("vision/my-box-1a2b3c4d").unwrap();
        Job { phase, ..Job::submitted(id, Some("ada".to_owned()), spec.terms, time(NOW)) }
    }

    fn report() -> BoxReport {
        BoxReport {
            ready_at: time(NOW),
            user: "ubuntu".to_owned(),
            host_key: NO_KEY.to_owned(),
            why: "GPU 91 %".to_owned(),
            in_use_at: time(NOW),
            is_unknown: false,
            ends_at: time("2026-09-01T13:00:00Z"),
            synced_at: None,
        }
    }

    fn held(job: &Job) -> GpuBox {
        let gpu_box = GpuBox::new(job, job.terms.gpu_box.as_ref().unwrap(), "us-east-1".into(), time(NOW));
        gpu_box.taken_by(&job.job, time(NOW)).unwrap()
    }

    fn ended() -> Phase {
        let why = "idle since 12:35".to_owned();
        let at = time(NOW);
        Phase::Ended(JobEnd { result: JobResult::Succeeded, why, at, machine: None, released: true, closed: true })
    }

    fn check(gpu_box: &GpuBox, job: &Job, report: Option<&BoxReport>, expect: (&str, &str, Option<&str>)) {
        let shown = BoxOverview::new(gpu_box, Some(job), report, time(NOW));
        let ends_at = shown.ends_at.map(|at| at.to_string());
        assert_eq!((shown.state.as_str(), shown.why.as_str(), ends_at.as_deref()), expect);
    }

    #[test]
    fn a_box_is_up_once_its_machine_says_so() {
        let soft_end = Some("2026-09-01T22:00:00Z");
        let submitted = job(Phase::Submitted);
        check(&held(&submitted), &submitted, Some(&report()), ("starting", "submitted", soft_end));
        let mut removal = submitted.clone();
        removal.terms.gpu_box.as_mut().unwrap().remove = Some(BoxRemoval::Volume);
        check(&held(&removal), &removal, None, ("removing", "submitted", soft_end));
        let mut running = job(Phase::Running(placed("i-1", 1)));
        let gpu_box = held(&running);
        let booting = describe_start(&running, None);
        assert!(booting.starts_with("booting i-") && describe_start(&running, Some("setup")) == "starting: setup");
        check(&gpu_box, &running, None, ("starting", &booting, soft_end));
        check(&gpu_box, &running, Some(&report()), ("up", "GPU 91 %", Some("2026-09-01T13:00:00Z")));
        running.gpu_box.as_mut().unwrap().home_wait = Some(HomeWait::LastMachine);
        assert_eq!(describe_start(&running, Some("setup")), "home: waits for the last machine to let go of its volume");
        running.gpu_box.as_mut().unwrap().home_wait = Some(HomeWait::Lost);
        check(&gpu_box, &running, None, ("broken", &describe_start(&running, None), soft_end));
    }

    #[test]
    fn a_box_that_is_down_says_why_and_has_its_home() {
        let job = job(ended());
        let mut gpu_box = held(&job);
        check(&gpu_box, &job, Some(&report()), ("ending", "idle since 12:35", None));
        gpu_box = gpu_box.released_by(&job.job, time(NOW)).unwrap();
        check(&gpu_box, &job, None, ("down", "idle since 12:35", None));
        let volume = HomeVolume {
            number: 1,
            zone: "us-east-1b".to_owned(),
            from: None,
            id: None,
            attached_to: None,
            uses: 1,
            made_at: None,
        };
        let of = HomeState { volume: 1, uses: 1 };
        let snapshot = |completed| HomeSnapshot { id: "snap-1".into(), of, at: time(NOW), completed };
        gpu_box.home.volume = Some(volume);
        gpu_box.home.snapshots = vec![snapshot(false)];
        assert_eq!(BoxOverview::new(&gpu_box, None, None, time(NOW)).snapshot_at, None);
        gpu_box.home.snapshots.push(snapshot(true));
        let shown = BoxOverview::new(&gpu_box, None, None, time(NOW));
        assert_eq!((shown.zone.as_deref(), shown.home_gib, shown.cost_usd_max), (Some("us-east-1b"), 200, None));
        assert_eq!((shown.snapshot_at, shown.since, shown.why.as_str()), (Some(time(NOW)), Some(time(NOW)), ""));
    }
}
