//! The queries to AWS for the ranking of a job: its pools, their prices and its image.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument};
use futures::future::join_all;
use jobs::machine_role::depends_on_jobs;
use jobs::{CapacityPool, EffectResult, Job, LaunchObstacle, LaunchPolicy, MachineImage, Ranking, prices_wanted, rank};
use model::id::{Region, TeamName};
use model::observation::{Gap, GapKind, Observed};
use ports::JobCloud;

use super::{JobRunDocuments, JobsRun};

/// The timeout for the prices of one job. Without an answer the price is that of the dated table, or unknown.
const PRICES_TIMEOUT: Duration = Duration::from_secs(5);

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Ranks the pools where the job can be launched, or explains to people why there is none. `None` if AWS did not answer enough, and the
    /// next run tries again.
    pub(super) async fn ranked(&self, job: &Job) -> Option<EffectResult> {
        if let Err(why) = job.check_access(self.config) {
            return Some(EffectResult::NotAllowed(why.to_string()));
        }
        let has_other_teams = self.has_other_teams(&job.job.team).await?;
        if let Err(why) = job.check_role(self.config, has_other_teams) {
            return Some(EffectResult::NoRole(why.to_string()));
        }
        let ranking = match self.places(job).await? {
            Ok(ranking) if job.terms.is_gang() => match Box::pin(self.with_security_groups(job, ranking)).await? {
                Ok(ranking) => Ranking { has_other_teams, ..ranking },
                Err(why) => return Some(EffectResult::Ranked(Err(why))),
            },
            Ok(ranking) => Ranking { has_other_teams, ..ranking },
            Err(why) => return Some(EffectResult::Ranked(Err(why))),
        };
        match self.near_home(job, ranking).await {
            Ok(ranking) => Some(EffectResult::Ranked(Ok(ranking))),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                None
            }
        }
    }

    /// Returns `true` if jobs of another team were accepted; `None` if S3 did not answer, and nothing may be launched. Makes no call if the
    /// configuration settles the role of the team's machines.
    async fn has_other_teams(&self, team: &TeamName) -> Option<bool> {
        if !depends_on_jobs(team, self.config) {
            return Some(false);
        }
        let listed = self.teams.get_or_try_init(|| self.run.store.teams_with_jobs()).await;
        match listed {
            Ok(teams) => Some(teams.iter().any(|other| other != team)),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                None
            }
        }
    }

    async fn places(&self, job: &Job) -> Option<Result<Ranking, LaunchObstacle>> {
        let agents = match self.setup.agents.hashes().await {
            Ok(agents) => agents,
            Err(why) => return Some(Err(why)),
        };
        let terms = &job.terms;
        let (pools, unasked) = self.pools(job).await;
        if pools.is_empty() && !unasked.is_empty() {
            // The owner is notified of a missing permission or subnet, but not of a condition that resolves within a minute.
            let passes = unasked.iter().any(|(_, passes)| *passes);
            let why = || unasked.iter().map(|(why, _)| why.as_str()).collect::<Vec<_>>().join("; ");
            return (!passes).then(|| Err(LaunchObstacle::new(why())));
        }
        let (images, unfit) = self.images(job, &pools, &agents).await;
        let prices = self.prices(job, &pools).await;
        let (policy, now) = (LaunchPolicy { config: self.config, team: &job.job.team }, self.now());
        let ranked = rank(terms, &pools, images, &prices, job.unplaced_since, policy, now);
        let ranking = match ranked {
            Ok(ranking) => ranking,
            Err(why) => return Some(Err(with_images(why, &unfit))),
        };
        for image in &ranking.images {
            if let Err(why) = self.setup.agents.keep(&image.agent_sha256, self.run.store).await {
                let why = format!("the agent could not be copied to where a machine downloads it: {why}");
                self.unsaid("s3:PutObject", why);
                return None;
            }
        }
        Some(Ok(ranking))
    }

    fn unsaid(&self, call: &str, error: String) {
        self.gap(Gap::new(self.run.cloud.home(), call, error, GapKind::Part));
    }

    /// The pools of every region where it may run, and of each region without an answer why, and whether that may resolve within a minute.
    async fn pools(&self, job: &Job) -> (Vec<CapacityPool>, Vec<(String, bool)>) {
        let home = [self.run.cloud.home().clone()];
        let regions = &job.terms.machine.regions;
        let regions = if regions.is_empty() { &home[..] } else { regions };
        let looks = regions.iter().map(|region| self.asked.pools(self.run.cloud, region, &job.terms));
        let (mut pools, mut unasked) = (Vec::new(), Vec::new());
        for answer in join_all(looks).await {
            match answer {
                Ok(found) => pools.extend(found),
                Err(error) => {
                    unasked.push((error.to_string(), error.kind.is_passing()));
                    self.gap(error.gap());
                }
            }
        }
        (pools, unasked)
    }

    /// One image for each region and architecture that has a pool and an agent, and why there is none for the others.
    async fn images(
        &self,
        job: &Job,
        pools: &[CapacityPool],
        agents: &BTreeMap<&'static str, String>,
    ) -> (Vec<(Region, MachineImage)>, Vec<LaunchObstacle>) {
        let kinds: BTreeSet<(&Region, &str)> =
            pools.iter().map(|pool| (&pool.region, pool.architecture.as_str())).collect();
        let looks = kinds.into_iter().filter_map(|(region, architecture)| {
            let agent = agents.get(architecture)?;
            let of = (&job.terms, &job.job.team);
            Some(async move {
                let place = (region, architecture);
                let image = self.asked.machine_image(self.run.cloud, place, of, self.config, agent).await;
                image.map(|image| (region.clone(), image))
            })
        });
        let (mut images, mut unfit) = (Vec::new(), Vec::new());
        for found in join_all(looks).await {
            match found {
                Ok(image) => images.push(image),
                Err(why) => unfit.push(why),
            }
        }
        (images, unfit)
    }

    /// Current prices of every type that fits. Missing and old ones are requested, and stored for later runs.
    async fn prices(&self, job: &Job, pools: &[CapacityPool]) -> PriceBook {
        let (run, now) = (self.run, self.now());
        let policy = LaunchPolicy { config: self.config, team: &job.job.team };
        let timeout = run.timeout().min(PRICES_TIMEOUT);
        let wanted = |known: &PriceDocument| prices_wanted(&job.terms, pools, known, policy, now);
        let Observed { items: book, gaps } = self.prices.ask(run, self.config, (now, timeout), wanted).await;
        for gap in gaps {
            self.gap(gap);
        }
        book
    }
}

/// A missing image may be why nothing fits.
fn with_images(why: LaunchObstacle, unfit: &[LaunchObstacle]) -> LaunchObstacle {
    unfit.iter().fold(why, |why, unfit| LaunchObstacle::new(format!("{why}; {unfit}")))
}
