//! Publishes what the machine's GPUs do to `CloudWatch` and in the heartbeat, once a minute while the command runs.
//!
//! It never delays the command. NVML has a thread of its own, because its calls hang as long as the driver does. The agent logs once what it
//! cannot read, and what `CloudWatch` refuses, and drops it. It starts with the command, because a `setup` may install the driver.

mod kernel_log;
mod nvml;
mod publish;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use jobs::AgentWarningKind;
use jobs::telemetry::{GpuMeans, GpuSample, PUBLISHED_EVERY, SAMPLED_EVERY, mean_of_busiest};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use self::nvml::GpuSampler;
use self::publish::Publisher;
use crate::agent::{Agent, EndCause};

/// The time to find a fault after a command has failed: its result waits for it.
const FAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// NVML answers in milliseconds; the first time in seconds, if the driver has to wake the GPUs.
const NVML_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// The reason why a command cannot use a GPU of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuFault {
    pub(crate) words: String,
    /// Another machine of the same image may do better.
    pub(crate) is_of_machine: bool,
}

impl GpuFault {
    fn of_machine(words: &str) -> Self {
        Self { words: words.to_owned(), is_of_machine: true }
    }
}

/// Looks for a fault now, and in the kernel's log since so many seconds after the boot.
pub(crate) async fn find_fault(since_seconds: u64) -> Option<GpuFault> {
    let mut sampler = GpuSampler::begin().ok()?;
    let fault = sampler.read(FAULT_TIMEOUT).await.fault;
    if fault.is_some() {
        return fault;
    }
    let xid = tokio::task::spawn_blocking(move || kernel_log::find_xid(since_seconds)).await.ok()??;
    Some(GpuFault { words: xid.describe(), is_of_machine: xid.is_of_hardware() })
}

/// Number of the machine's GPUs that NVML sees.
pub(crate) async fn count() -> usize {
    match GpuSampler::begin() {
        Ok(mut sampler) => sampler.read(FAULT_TIMEOUT).await.gpus.len(),
        Err(_) => 0,
    }
}

/// True if the machine has a device of NVIDIA, with a driver or without (PCI ID repository: vendor 10de).
pub(crate) fn is_installed() -> bool {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let mut vendors = devices.filter_map(|device| std::fs::read_to_string(device.path().join("vendor")).ok());
    vendors.any(|vendor| vendor.trim() == "0x10de")
}

/// The watch over the GPUs, until it is dropped.
pub(crate) struct GpuWatch<'a> {
    agent: &'a Agent,
    watching: JoinHandle<()>,
}

impl<'a> GpuWatch<'a> {
    /// Begins it; it ends the attempt once every GPU has been idle for `idle_max`.
    pub(crate) fn begin(agent: &'a Arc<Agent>, idle_max: Option<SignedDuration>) -> Self {
        Self { agent, watching: tokio::spawn(watch(Arc::clone(agent), idle_max)) }
    }
}

impl Drop for GpuWatch<'_> {
    fn drop(&mut self) {
        self.watching.abort();
        self.agent.set_status(|status| status.gpu_percent = None);
    }
}

async fn watch(agent: Arc<Agent>, idle_max: Option<SignedDuration>) {
    let mut saying = OnceLog { agent: &agent, said: BTreeSet::new() };
    let mut sampler = match GpuSampler::begin() {
        Ok(sampler) => sampler,
        Err(error) => {
            return saying.once(format!("GPU metrics are not published: no thread can be started ({error})"));
        }
    };
    let mut publisher = Publisher::default();
    let (mut moments, mut since, mut refused) = (Vec::new(), Instant::now(), false);
    let mut means = GpuMeans::default();
    let every = agent.pace.wait(SAMPLED_EVERY);
    // Not at once: a command that has just begun uses no GPU yet.
    let mut moment = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    moment.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        moment.tick().await;
        let look = sampler.read(agent.pace.wait(NVML_TIMEOUT)).await;
        look.problems.into_iter().for_each(|problem| saying.once(problem));
        end_if_idle(&agent, &look.gpus, idle_max);
        if let Some(fault) = look.fault.filter(|fault| fault.is_of_machine) {
            agent.warn_owner(AgentWarningKind::Gpu, &format!("a GPU of the machine does not work: {}", fault.words));
        }
        let (sees_some, gpus) = (!look.gpus.is_empty(), look.gpus.len());
        means.add(&look.gpus);
        moments.extend(sees_some.then_some(look.gpus));
        if !moments.is_empty() && (!sees_some || since.elapsed() >= agent.pace.wait(PUBLISHED_EVERY)) {
            since = Instant::now();
            agent.set_status(|status| {
                status.gpu_percent = mean_of_busiest(&moments);
                status.trend.add_minute(&moments);
            });
            match publisher.publish(&agent.identity.job, &std::mem::take(&mut moments)).await {
                Ok(()) => refused = false,
                Err(_) if refused => {}
                Err(words) => {
                    agent.log.write_line(&format!("GPU metrics are not published: {words}"));
                    refused = true;
                }
            }
            if let Some(instance) = publisher.instance().filter(|_| sees_some) {
                let work = means.to_work(instance, gpus);
                agent.set_status(|status| status.gpus = Some(work));
            }
        }
        if !sees_some {
            agent.set_status(|status| status.gpu_percent = None);
            // A missing driver or GPU does not appear within seconds.
            agent.pace.sleep(PUBLISHED_EVERY).await;
        }
    }
}

fn end_if_idle(agent: &Agent, gpus: &[GpuSample], idle_max: Option<SignedDuration>) {
    let idle = agent.with_work(|work, at| {
        work.observe_gpus(gpus, at);
        work.gpus_idle_for(at)
    });
    if let Some(limit) = idle_max.filter(|limit| idle.is_some_and(|idle| idle >= *limit)) {
        agent.end(EndCause::idle(limit, agent.pace));
    }
}

/// Logs each problem once.
struct OnceLog<'a> {
    agent: &'a Agent,
    said: BTreeSet<String>,
}

impl OnceLog<'_> {
    fn once(&mut self, words: String) {
        if !self.said.contains(&words) {
            self.agent.log.write_line(&words);
            self.said.insert(words);
        }
    }
}
