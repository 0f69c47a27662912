//! The box that a person names, its jobs, and the report of its machine.

use jobs::boxes::{BoxReport, GpuBox};
use jobs::{Heartbeat, Job, JobId, JobName, Phase};
use model::foreign_text::shell_word;
use model::id::TeamName;
use store::{JobDocuments as _, MachineDocument, MachineDocuments as _, ReconcilerDocuments as _, Store, StoreError};

use crate::command_error::{CommandError, describe_store_error};
use crate::resolve_job::states;

/// A box, by its team and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoxId {
    pub(super) team: TeamName,
    pub(super) name: JobName,
}

impl BoxId {
    /// Reads `<name>`, or `<team>/<name>`.
    pub(super) fn read(text: &str) -> Result<(Option<TeamName>, JobName), CommandError> {
        let (team, name) =
            text.rsplit_once('/').map_or((None, text), |(team, name)| (Some(TeamName::from(team)), name));
        Ok((team, JobName::read(name).map_err(CommandError::new)?))
    }

    /// Its name in documents, `<team>/<name>`.
    pub(super) fn full(&self) -> String {
        format!("{}/{}", self.team, self.name.as_str())
    }

    pub(super) fn to_shell_word(&self) -> String {
        shell_word(&self.full())
    }
}

/// The box of that name; of all teams, if the name has none.
///
/// # Errors
/// If there is none, or several.
pub(super) async fn find_box(store: &Store, named: &str) -> Result<(BoxId, GpuBox), CommandError> {
    let (team, name) = BoxId::read(named)?;
    let is_named = |(_, other): &(TeamName, String)| other == name.as_str();
    let teams: Vec<TeamName> = match team {
        Some(team) => vec![team],
        None => store.boxes(None).await?.into_iter().filter(is_named).map(|(team, _)| team).collect(),
    };
    let team = match teams.as_slice() {
        [] => return Err(missing(named)),
        [team] => team.clone(),
        [one, other, ..] => {
            let advice = format!("name its team, as {one}/{named} or {other}/{named}");
            return Err(CommandError::with(format!("several teams have a box {named}"), advice));
        }
    };
    let id = BoxId { team, name };
    let gpu_box = store.read_box(&id.team, id.name.as_str()).await?.value;
    Ok((id, gpu_box.ok_or_else(|| missing(named))?))
}

fn missing(named: &str) -> CommandError {
    let advice = format!(
        "curfew box ls lists those that there are; bring one up:  curfew box up --gpu a10g {}",
        shell_word(named)
    );
    CommandError::with(format!("there is no box {named}"), advice)
}

/// The unfinished job that has the box.
pub(super) async fn find_holder(store: &Store, gpu_box: &GpuBox) -> Result<Option<Job>, StoreError> {
    let Some(holder) = &gpu_box.holder else { return Ok(None) };
    Ok(store.read_job(&holder.job).await?.value.filter(|job| !matches!(job.phase, Phase::Ended(_))))
}

/// The last heartbeat of the job's present machine; `None` without one that can be believed.
pub(super) async fn find_heartbeat(store: &Store, job: &Job) -> Result<Option<Heartbeat>, StoreError> {
    if !matches!(job.phase, Phase::Running(_)) {
        return Ok(None);
    }
    Ok(match store.read_heartbeat(&job.job, job.machine_attempt()).await? {
        MachineDocument::Believed(beat) => Some(beat.heartbeat),
        MachineDocument::Absent | MachineDocument::Refused(_) => None,
    })
}

/// The report of the job's present machine, once people can log in.
pub(super) async fn find_report(store: &Store, job: &Job) -> Result<Option<BoxReport>, StoreError> {
    Ok(find_heartbeat(store, job).await?.and_then(|heartbeat| heartbeat.gpu_box))
}

/// The jobs of a box among those of its team.
pub(super) fn jobs_of_box(id: &BoxId, jobs: &[JobId]) -> Vec<JobId> {
    jobs.iter().filter(|job| job.team == id.team && job.name() == id.name.as_str()).cloned().collect()
}

/// The newest of these jobs that brought a box up.
pub(super) async fn find_newest(store: &Store, jobs: Vec<JobId>) -> Option<Job> {
    let read = states(store, jobs).await.into_iter().filter_map(Result::ok);
    read.filter(|job| job.gpu_box.is_some() && !job.is_removal()).max_by_key(|job| job.submitted_at)
}

/// The job that a command acts on, and its box.
///
/// # Errors
/// If the box is down.
pub(super) async fn needs_up(store: &Store, id: &BoxId, gpu_box: &GpuBox) -> Result<Job, CommandError> {
    let job = find_holder(store, gpu_box).await.map_err(|error| CommandError::new(describe_store_error(&error)))?;
    job.ok_or_else(|| {
        CommandError::with(
            format!("{} is down", id.full()),
            format!("bring it up:  curfew box up {}", id.to_shell_word()),
        )
    })
}
