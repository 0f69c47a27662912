//! Facts that a result names beside an exit code: those of the machine while the command ran.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use jobs::describe_exit;
use tokio::task::JoinHandle;

use super::AssignedJob;
use crate::agent::Agent;
use crate::disk::DiskSpace;
use crate::gpu::{self, GpuFault};
use crate::user::User;

/// The time between two looks at the disks: what failed for lack of room may be deleted soon after.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(1);
const LOOK_EVERY_MIN: Duration = Duration::from_millis(100);

/// The last look. A disk may hang.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The words of programs (Linux manual, `strerror(3)`: ENOSPC and EDQUOT).
const FULL_IN_WORDS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// No program gets on with so little.
const EXHAUSTED_BYTES: u64 = 1024 * 1024;

const SHARED_MEMORY: &str = "/dev/shm";

/// Full disks, by the numbers of their file systems.
type FullDisks = Arc<Mutex<BTreeMap<u64, FullDisk>>>;

struct FullDisk {
    words: String,
    /// True if nothing was left. Otherwise it was nearly full.
    is_exhausted: bool,
}

/// Looks at the machine from the beginning of a command on.
pub(crate) struct ExitEvidence {
    places: Vec<String>,
    full: FullDisks,
    watching: JoinHandle<()>,
    memory_kills_before: Option<u64>,
    /// True if the job asked for GPUs.
    has_gpus: bool,
    /// Seconds after the boot.
    begun_at: Option<u64>,
}

impl ExitEvidence {
    pub(crate) fn begin(agent: &Agent, asked: &AssignedJob, user: &User) -> Self {
        let checkpoints = asked.checkpoint.iter().map(|checkpoint| checkpoint.dir.clone());
        let others = ["/", "/tmp", "/var/tmp", SHARED_MEMORY, "/var/lib/docker", "/var/lib/containerd", &user.home];
        let outputs = asked.work.outputs.iter().cloned();
        let places: Vec<String> = checkpoints.chain(others.map(str::to_owned)).chain(outputs).collect();
        let (full, every) = (FullDisks::default(), agent.pace.wait(LOOK_EVERY).max(LOOK_EVERY_MIN));
        let (watched, into) = (places.clone(), Arc::clone(&full));
        let watching = tokio::spawn(async move {
            loop {
                look(watched.clone(), Arc::clone(&into)).await;
                tokio::time::sleep(every).await;
            }
        });
        let (memory_kills_before, begun_at) = (count_memory_kills(), seconds_since_boot());
        Self { places, full, watching, memory_kills_before, has_gpus: asked.work.has_gpus, begun_at }
    }

    /// Looks at the disks once more, before anything is removed from them.
    pub(crate) async fn end(&self) {
        self.watching.abort();
        let _ = tokio::time::timeout(LOOK_TIMEOUT, look(self.places.clone(), Arc::clone(&self.full))).await;
    }

    /// The reason why the command could not use a GPU. One that has succeeded needed none, if its machine has none.
    pub(crate) async fn find_gpu_fault(&self, agent: &Agent, status: ExitStatus) -> Option<GpuFault> {
        if !self.has_gpus {
            return None;
        }
        let fault = agent.in_time(gpu::find_fault(self.begun_at.unwrap_or(u64::MAX))).await??;
        (!status.success() || fault.is_of_machine || gpu::is_installed()).then_some(fault)
    }

    /// The end of the command, and what explains it.
    pub(crate) fn describe(&self, agent: &Agent, status: ExitStatus, what: &str) -> String {
        use std::os::unix::process::ExitStatusExt;
        let kills = count_memory_kills().zip(self.memory_kills_before);
        let kills = kills.map(|(after, before)| after.saturating_sub(before));
        let exit = describe_exit(what, status.code(), status.signal(), kills);
        let found = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |disk: &&FullDisk| disk.is_exhausted || !status.success();
        let mut full: Vec<String> = found.values().filter(counts).map(|disk| disk.words.clone()).collect();
        if full.is_empty() && !status.success() {
            let output = String::from_utf8_lossy(&agent.log.tail().bytes).into_owned();
            let words = FULL_IN_WORDS.into_iter().find(|words| output.contains(words));
            full.extend(
                words.map(|words| format!("its log says `{words}`: if that is the root volume, set `root_volume_gib`")),
            );
        }
        std::iter::once(exit).chain(full).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for ExitEvidence {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

async fn look(places: Vec<String>, full: FullDisks) {
    let sample = tokio::task::spawn_blocking(move || {
        for place in places {
            let Ok(device) = fs::metadata(&place).map(|metadata| metadata.dev()) else { continue };
            if let Some(disk) = find_full_disk(&place) {
                let mut full = full.lock().unwrap_or_else(PoisonError::into_inner);
                if disk.is_exhausted || !full.contains_key(&device) {
                    full.insert(device, disk);
                }
            }
        }
    });
    let _ = sample.await;
}

/// `None` if at least a hundredth of it is free for users other than root.
fn find_full_disk(place: &str) -> Option<FullDisk> {
    let disk = DiskSpace::read(Path::new(place))?;
    let what = if disk.is_nearly_full {
        let mib = disk.free_bytes / (1024 * 1024);
        format!("the disk of {place} was full ({mib} MiB were left)")
    } else if disk.is_short_of_files {
        format!(
            "the disk of {place} had no room for another file ({} of {} were left)",
            disk.free_files, disk.files_max
        )
    } else {
        return None;
    };
    let remedy = if place == SHARED_MEMORY {
        "it is a part of the memory: use fewer or smaller loader processes, or a machine with more memory"
    } else {
        "set `root_volume_gib`"
    };
    let is_exhausted = disk.free_bytes < EXHAUSTED_BYTES || disk.free_files == 0;
    Some(FullDisk { words: format!("{what}: {remedy}"), is_exhausted })
}

/// The processes that the kernel has killed for lack of memory since the boot (Linux, `include/linux/vm_event_item.h`: `OOM_KILL`).
fn count_memory_kills() -> Option<u64> {
    let counters = fs::read_to_string("/proc/vmstat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Linux manual, `proc_uptime(5)`.
fn seconds_since_boot() -> Option<u64> {
    fs::read_to_string("/proc/uptime").ok()?.split('.').next()?.parse().ok()
}
