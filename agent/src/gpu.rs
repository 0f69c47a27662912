//! Publishes what the machine's GPUs do to `CloudWatch` and in the heartbeat, once a minute while the command runs.
//!
//! It never delays the command. NVML has a thread of its own, because its calls hang as long as the driver does. The agent logs once what it
//! cannot read, and what `CloudWatch` refuses, and drops it. It starts with the command, because a `setup` may install the driver.

mod nvml;
mod publish;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::SignedDuration;
use jobs::telemetry::{GpuMeans, PUBLISHED_EVERY, SAMPLED_EVERY, mean_of_busiest};
use tokio::time::MissedTickBehavior;

use self::nvml::GpuSampler;
use self::publish::Publisher;
use crate::agent::Agent;

/// NVML answers in milliseconds; the first time in seconds, if the driver has to wake the GPUs.
const NVML_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

pub(crate) async fn watch(agent: Arc<Agent>) {
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
