//! What a run would be given about one resource: looked at, asked about and remembered as the functions do.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud::Lines;
use cloud::operator::Kind;
use domain::budget::Standings;
use domain::config::Config;
use domain::id::{Region, ResourceId};
use domain::instance::{Instance, State};
use domain::mode::Mode;
use domain::notices::{Memory, Notices};
use domain::observed::{Gap, Observed};
use domain::plan::Seen;
use domain::policy::claim::Jobs;
use domain::policy::volumes::LiveJobs;
use domain::policy::{Policy, instances, volumes};
use domain::price::PriceBook;
use domain::report::Recorded;
use domain::undo;
use domain::usage::{Activity, Usage};
use domain::vocabulary::Stopped;
use domain::volume::Storage;

use super::outcome::{Explained, Lacking};
use crate::context::{Context, Deployed, own_ceiling};
use crate::failure::Failure;
use crate::named::{Everywhere, Named};

/// So long one region has to answer each look.
const PATIENCE: Duration = Duration::from_mins(1);

const OF_INSTANCES: &str = "reap-instances";
const OF_VOLUMES: &str = "reap-volumes";

/// The account, as far as it is the same for every resource.
pub(super) struct Account<'a> {
    pub(super) context: &'a Context,
    deployed: Option<Deployed>,
    pub(super) config: Config,
    prices: PriceBook,
    pub(super) everywhere: Everywhere,
    /// `CURFEW_MODE` of this command's environment.
    own_ceiling: Option<Mode>,
}

/// What goes with an explanation, and is no part of it.
#[derive(Default)]
pub(super) struct Besides {
    /// The most that the function does at present, where anybody can say.
    pub(super) ceiling: Option<Mode>,
    /// The record of the function's newest run.
    pub(super) newest: Option<Recorded>,
    /// Where Curfew stopped it, and nobody started it since.
    pub(super) stopped: Option<Stopped>,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<Gap>,
}

impl<'a> Account<'a> {
    pub(super) async fn of(context: &'a Context) -> Result<Self, Failure> {
        let own_ceiling = own_ceiling()?;
        let deployed = context.deployed().await?;
        let config = match &deployed {
            Some(deployed) => deployed.store.read_config().await?,
            None => Config::default(),
        };
        let prices = context.prices(deployed.as_ref().map(|deployed| &deployed.store), &config).await;
        Ok(Self { context, deployed, config, prices, everywhere: Everywhere::of(context).await, own_ceiling })
    }

    /// What there is to say of it; or why nobody can.
    pub(super) async fn explain(&self, named: &Named) -> Result<Explained, String> {
        let seen = match self.everywhere.find(self.context, named).await {
            Ok(seen) => seen,
            Err(missing) => return self.gone(named, missing).await,
        };
        let region = match &seen {
            Seen::Instance(instance) => &instance.region,
            Seen::Volume(volume) => &volume.region,
            Seen::Snapshot(snapshot) => &snapshot.region,
            Seen::Budget { region, .. } => region,
        };
        let function = if named.kind == Kind::Instance { OF_INSTANCES } else { OF_VOLUMES };
        let mut besides = Besides::default();
        self.look_for_the_ceiling(function, &mut besides).await;
        if !self.config.regions.is_empty() && !self.config.regions.contains(region) {
            besides.notes.push(format!("no run looks at {region}: it is not among `regions` of the configuration"));
        }
        let notices = self.notices(function, region, &mut besides).await;
        let policy = Policy {
            config: self.config.clone(),
            ceiling: besides.ceiling.unwrap_or(Mode::Observe),
            prices: self.prices.clone(),
            budgets: self.standings(&seen, &mut besides).await,
            jobs: self.jobs(&seen, &mut besides).await,
        };
        match &seen {
            Seen::Instance(instance) => self.instance(instance, &notices, &policy, besides).await,
            Seen::Volume(_) | Seen::Snapshot(_) | Seen::Budget { .. } => {
                let memory = Memory::from([(region.clone(), notices)]);
                self.storage(&named.id, region, &seen, &memory, &policy, besides).await
            }
        }
    }

    /// Where the budgets stand by which an instance may be stopped, as the function reads it. What it cannot read, it cannot say either.
    async fn standings(&self, seen: &Seen, besides: &mut Besides) -> Standings {
        let (Seen::Instance(_), Some(deployed)) = (seen, &self.deployed) else { return Standings::default() };
        let Context { aws, now, .. } = self.context;
        let (standings, gaps) =
            execution::budgets::standings(&deployed.store, &self.config, aws.home(), *now, PATIENCE).await;
        besides.gaps.extend(gaps);
        standings
    }

    /// The state of the job that an instance names, as the function reads it. Without a deployment nobody can say.
    async fn jobs(&self, seen: &Seen, besides: &mut Besides) -> Jobs {
        let (Seen::Instance(instance), Some(deployed)) = (seen, &self.deployed) else { return Jobs::default() };
        let (jobs, gaps) = execution::claims(&deployed.store, [instance], self.context.aws.home(), PATIENCE).await;
        besides.gaps.extend(gaps);
        jobs
    }

    /// `CURFEW_MODE` of the function's newest run, under that of this command's environment; and observe where nobody listens.
    async fn look_for_the_ceiling(&self, function: &str, besides: &mut Besides) {
        let Some(deployed) = &self.deployed else {
            besides
                .notes
                .push("nothing is deployed here, so nothing is done: this is by the default configuration".to_owned());
            besides.ceiling = self.own_ceiling;
            return;
        };
        let of_runs = self.context.ceiling(&deployed.store, function).await;
        besides.ceiling = match of_runs {
            Ok(Some(ceiling)) => {
                besides.newest = Some(ceiling.newest);
                Some(ceiling.mode)
            }
            Ok(None) => self.own_ceiling,
            Err(Failure { problem, .. }) => {
                besides.notes.push(problem);
                None
            }
        };
        if besides.ceiling.is_none() {
            besides.notes.push(format!(
                "no record of today or yesterday says in which mode {function} runs, so this is as in observe mode; set \
                 CURFEW_MODE=enforce to explain it as if it were to enforce"
            ));
        }
        self.look_for_listeners(deployed, besides).await;
    }

    async fn look_for_listeners(&self, deployed: &Deployed, besides: &mut Besides) {
        if besides.ceiling != Some(Mode::Enforce) {
            return;
        }
        let Some(topic_arn) = &deployed.topic_arn else {
            besides.notes.push(
                "nobody looked whether somebody listens, without whom nothing is enforced: pass --topic-arn".to_owned(),
            );
            return;
        };
        match cloud::tell::is_heard(&self.context.aws, topic_arn).await {
            Ok(true) => {}
            Ok(false) => {
                besides.ceiling = Some(Mode::Observe);
                besides.notes.push(format!("nobody listens to {topic_arn}, so Curfew enforces nothing"));
            }
            Err(error) => {
                besides
                    .notes
                    .push("nobody can say whether somebody listens, and without that nothing is ended".to_owned());
                besides.gaps.push(error.gap());
            }
        }
    }

    async fn notices(&self, function: &str, region: &Region, besides: &mut Besides) -> Notices {
        let Some(deployed) = &self.deployed else { return Notices::default() };
        match deployed.store.read_notices(function, region).await {
            Ok(read) => read.value,
            Err(error) => {
                besides.notes.push(format!("what was told in {region} cannot be read, so no run judges that region"));
                besides.gaps.push(error.gap(region));
                Notices::default()
            }
        }
    }

    /// Looked at with all others of its region: whose metrics are whose is known by their names.
    async fn instance(
        &self,
        described: &Instance,
        notices: &Notices,
        policy: &Policy,
        mut besides: Besides,
    ) -> Result<Explained, String> {
        let (id, region, aws) = (&described.id, &described.region, &self.context.aws);
        if described.state == State::Terminated {
            return Ok(Explained::not_ours(&Seen::Instance(described.clone()), policy, Lacking::Life, besides));
        }
        let Observed { items, gaps } = cloud::instances(aws, std::slice::from_ref(region), PATIENCE).await;
        let Some(instance) = items.iter().find(|one| one.id == *id) else {
            return match gaps.first() {
                Some(gap) => Err(in_words(gap)),
                None => {
                    Ok(Explained::not_ours(&Seen::Instance(described.clone()), policy, Lacking::Accelerator, besides))
                }
            };
        };
        besides.gaps.extend(gaps);
        besides.stopped = undo::of_instance(instance).ok();
        let usage = self.usage(instance, policy, &mut besides).await;
        let explained = instances::explain(instance, usage.as_ref(), notices, policy, self.context.now);
        explained.map(|explained| Explained::of(explained, besides)).ok_or_else(|| format!("{id} is in no plan"))
    }

    /// Asked in full, whether or not a run would ask now.
    async fn usage(&self, instance: &Instance, policy: &Policy, besides: &mut Besides) -> Option<Usage> {
        let now = self.context.now;
        let asks = Vec::from_iter(instances::ask(instance, &policy.config, now));
        let lines = Lines { metrics: &policy.config.metrics, idle: &policy.config.idle };
        let (found, gaps) = cloud::usages(&self.context.aws, &instance.region, &asks, lines, now, PATIENCE).await;
        besides.gaps.extend(gaps);
        let activity = self.activity(&instance.region, besides).await;
        instances::learn(&[instance], &asks, found, &activity, policy, now).usages.remove(&instance.id)
    }

    /// What earlier runs learnt: that something was at work, of which CloudWatch has no sample yet.
    async fn activity(&self, region: &Region, besides: &mut Besides) -> Activity {
        let Some(deployed) = &self.deployed else { return Activity::default() };
        match deployed.store.read_activity(region).await {
            Ok(read) => read.value,
            Err(error) => {
                besides.gaps.push(error.gap(region));
                Activity::default()
            }
        }
    }

    async fn storage(
        &self,
        id: &ResourceId,
        region: &Region,
        seen: &Seen,
        memory: &Memory,
        policy: &Policy,
        mut besides: Besides,
    ) -> Result<Explained, String> {
        let (aws, now) = (&self.context.aws, self.context.now);
        let mut storage = cloud::storage(
            aws,
            std::slice::from_ref(region),
            PATIENCE,
            |volume, _| volume.id == *id,
            |volume| volume.id == *id,
        )
        .await;
        let is_there = storage.volumes.items.iter().any(|volume| volume.id == *id)
            || storage.snapshots.iter().any(|snapshot| snapshot.id == *id);
        let gaps = std::mem::take(&mut storage.volumes.gaps);
        if !is_there {
            return match gaps.first() {
                Some(gap) => Err(in_words(gap)),
                None if matches!(seen, Seen::Snapshot(_)) => {
                    Ok(Explained::not_ours(seen, policy, Lacking::Origin, besides))
                }
                None => Err("it has just gone".to_owned()),
            };
        }
        besides.gaps.extend(gaps);
        let live_jobs = self.live_jobs(&storage, &mut besides).await;
        let asks = Vec::from_iter(volumes::ask(&storage, &live_jobs, memory, policy, now, id));
        let uses = if asks.is_empty() {
            BTreeMap::new()
        } else {
            let (uses, gaps) = cloud::volume_uses(aws, region, &asks, now, PATIENCE).await;
            besides.gaps.extend(gaps);
            uses
        };
        let explained = volumes::explain(&storage, &uses, &live_jobs, memory, policy, now, id);
        explained.map(|explained| Explained::of(explained, besides)).ok_or_else(|| format!("{id} is in no plan"))
    }

    /// The job that the volume was created for, unless it is finished. One of which nobody can say counts as unfinished.
    async fn live_jobs(&self, storage: &Storage, besides: &mut Besides) -> LiveJobs {
        let mut live = volumes::jobs(storage);
        let Some(deployed) = &self.deployed else { return LiveJobs::new() };
        for job in live.clone() {
            match deployed.store.is_active(&job).await {
                Ok(true) => {}
                Ok(false) => drop(live.remove(&job)),
                Err(error) => besides.gaps.push(error.gap(self.context.aws.home())),
            }
        }
        live
    }
}

fn in_words(Gap { region, call, error, .. }: &Gap) -> String {
    format!("{call} failed in {region}: {error}")
}
