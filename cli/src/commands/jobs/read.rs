//! The documents of a job's agent and of its owner.

use std::collections::BTreeMap;
use std::fmt::Display;

use jiff::Timestamp;
use jobs::node_gang::{GangListing, GangStop, NodeHeartbeats, NodeOverview, gang_exit, merge_node_heartbeats};
use jobs::{CancelRequest, ExitRecord, Head, Heartbeat, Job, JobMachine, JobResult, JobSpec, Phase};
use model::config::Config;
use serde::Serialize;
use store::{MachineDocument, MachineDocuments as _, ReconcilerDocuments as _, Store, StoreError};

use crate::command_error::describe_store_error;
use crate::node_heartbeats::read_node_heartbeats;

/// Documents of the latest attempt, except for the fence, which all attempts share.
#[derive(Debug, Default, Serialize)]
pub(super) struct JobDetails {
    pub(super) head: Option<Head>,
    /// The last heartbeat.
    pub(super) heartbeat: Option<Heartbeat>,
    /// Time when the heartbeat was written, by S3's clock.
    pub(super) heartbeat_at: Option<Timestamp>,
    pub(super) exit: Option<ExitRecord>,
    pub(super) cancel: Option<CancelRequest>,
    /// The variables of its trigger, such as `TRIGGER_KEY`; empty if none made it.
    pub(super) trigger: BTreeMap<String, String>,
    /// The folder of its outputs, once it has succeeded; `None` if its document names none.
    pub(super) outputs: Option<String>,
    /// The nodes of a job on several machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<NodeOverview>,
    /// The reason for which all nodes end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<GangStop>,
    #[serde(skip)]
    pub(super) beats: NodeHeartbeats,
}

/// The prefix of a trigger's variables.
const TRIGGER_VARIABLES: &str = "TRIGGER_";

impl JobDetails {
    /// Reads all documents. Returns the readable ones, and the failures.
    pub(super) async fn read(store: &Store, job: &Job) -> (Self, Vec<String>) {
        let (id, attempt) = (&job.job, job.machine_attempt());
        let mut problems = Vec::new();
        let (head, cancel, spec) = futures::join!(store.read_head(id), store.read_cancel(id), store.read_spec(id));
        let mut details = Self {
            head: believe_or_report(head, "its checkpoints", &mut problems),
            cancel: read_or_report(cancel, "its cancellation", &mut problems),
            ..Self::default()
        };
        let spec = read_or_report(spec, "its document", &mut problems);
        // Of the configuration only what this does not show counts.
        let accepted = spec.and_then(|text| JobSpec::accepted(&text, &Config::default()).ok());
        if let Some((work, _)) = accepted {
            details.trigger = work.env;
            details.trigger.retain(|variable, _| variable.starts_with(TRIGGER_VARIABLES));
            let has_succeeded = matches!(&job.phase, Phase::Ended(end) if end.result == JobResult::Succeeded);
            if has_succeeded && !work.outputs.is_empty() {
                details.outputs = read_or_report(store.find_outputs(id).await, "its outputs", &mut problems);
            }
        }
        if job.terms.is_gang() {
            if let Some(machine) = job.machine().or(job.last_machine.as_ref()) {
                details.read_nodes(store, job, machine, &mut problems).await;
            }
        } else if attempt > 0 {
            let (beat, exit) = futures::join!(store.read_heartbeat(id, attempt), store.read_exit(id, attempt));
            let beat = believe_or_report(beat, "its heartbeat", &mut problems);
            details.heartbeat_at = beat.as_ref().map(|beat| beat.at);
            details.heartbeat = beat.map(|beat| beat.heartbeat);
            details.exit = believe_or_report(exit, "its agent's exit record", &mut problems);
        }
        (details, problems)
    }

    async fn read_nodes(&mut self, store: &Store, job: &Job, machine: &JobMachine, problems: &mut Vec<String>) {
        let Some(gang) = machine.gang(&job.job) else { return };
        let none_known = GangListing::default();
        let (listing, (beats, failures)) =
            futures::join!(store.read_gang(&gang, &none_known), read_node_heartbeats(store, &gang));
        let listing = read_or_report(listing.map(Some), "the documents of its nodes", problems).unwrap_or_default();
        let unread = |error| format!("a heartbeat of its nodes cannot be read: {}", describe_store_error(error));
        problems.extend(failures.iter().map(unread));
        self.exit = gang_exit(&gang, &listing);
        self.nodes = NodeOverview::from_documents(machine, &listing, &beats);
        self.stop = listing.stop.and_then(|stop| stop.content.read().cloned());
        (self.heartbeat_at, self.heartbeat) = merge_node_heartbeats(&beats).unzip();
        self.beats = beats;
    }
}

fn read_or_report<T>(read: Result<Option<T>, StoreError>, what: impl Display, problems: &mut Vec<String>) -> Option<T> {
    read.unwrap_or_else(|error| {
        problems.push(format!("{what} cannot be read: {}", describe_store_error(&error)));
        None
    })
}

fn believe_or_report<T>(
    read: Result<MachineDocument<T>, StoreError>,
    what: impl Display,
    problems: &mut Vec<String>,
) -> Option<T> {
    let read = read.map(MachineDocument::into_parts).and_then(|(value, refused)| refused.map_or(Ok(value), Err));
    read_or_report(read, what, problems)
}
