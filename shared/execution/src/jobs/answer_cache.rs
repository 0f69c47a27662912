//! The lookups for the jobs of one run: each is made once, however many jobs need it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jobs::takeover::FoundMachine;
use jobs::team_access::check_image;
use jobs::{
    Candidate, CapacityPool, JobTerms, LaunchObstacle, LaunchOrder, LaunchResult, ListedQuota, MachineImage,
    MachineKind, MachineSpec, TypeOfferings, ZoneSubnets, governing_quota, image_source, too_few_vcpus,
};
use model::config::Config;
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::image_source::ImageSource;
use ports::{CallError, CallErrorKind, JobCloud, VcpuQuotaExceeded};
use tokio::sync::OnceCell;

/// The answers of one run. A refusal counts as an answer too: repeating a throttled call for the next job would not help. The next run asks
/// again.
#[derive(Debug, Default)]
pub struct AnswerCache {
    offers: CachedAnswers<(Region, MachineKind, BTreeSet<TypeName>), Result<TypeOfferings, CallError>>,
    subnets: CachedAnswers<(Region, BTreeSet<ResourceId>), Result<ZoneSubnets, CallError>>,
    images: CachedAnswers<(Region, String, ImageSource), Result<MachineImage, LaunchObstacle>>,
    quotas: CachedAnswers<Region, Result<Vec<ListedQuota>, CallError>>,
    machines: CachedAnswers<Region, Result<Arc<Vec<FoundMachine>>, CallError>>,
}

impl AnswerCache {
    /// The pools of one region: each type with whole NVIDIA GPUs, or for a CPU job without an accelerator, that can be had by the second, in each zone where there is a subnet,
    /// sorted by type and zone. Only the named types, if there are any; otherwise all except bare metal, which boots for longer than a job
    /// waits for its first heartbeat. In a zone it takes the subnet with the most free addresses. It does not filter by what fits a job.
    ///
    /// In three calls, where each answer is one page.
    ///
    /// # Errors
    /// If EC2's answer is incomplete, or there is no subnet to launch in.
    pub async fn pools(
        &self,
        cloud: &impl JobCloud,
        region: &Region,
        terms: &JobTerms,
    ) -> Result<Vec<CapacityPool>, CallError> {
        let types: BTreeSet<TypeName> = terms.types().0.iter().cloned().collect();
        let kind = MachineKind::from_terms(terms);
        let named: BTreeSet<ResourceId> = terms.machine.subnets.iter().cloned().collect();
        let list_offers = Box::pin(cloud.list_offerings(region, kind, &types));
        let list_subnets = Box::pin(cloud.list_subnets(region, &named));
        let (offers, subnets) = futures::join!(
            self.offers.get_or_ask((region.clone(), kind, types.clone()), list_offers),
            self.subnets.get_or_ask((region.clone(), named.clone()), list_subnets),
        );
        let (offers, subnets) = (offers?, subnets?);
        if subnets.is_empty() && terms.machine.regions.len() <= 1 {
            return Err(no_subnet(region, &terms.machine));
        }
        Ok(offers.pools(region, &subnets))
    }

    /// The image of that architecture (`x86_64`, `arm64`) in that region, in two calls at most. All jobs of a run are of the same agent
    /// of an architecture.
    ///
    /// # Errors
    /// There is none that can run a job: it must exist for that architecture, and have Linux without a price of its own, EBS, and
    /// cloud-init.
    pub async fn image(
        &self,
        cloud: &impl JobCloud,
        region: &Region,
        architecture: &str,
        source: &ImageSource,
        agent_sha256: &str,
    ) -> Result<MachineImage, LaunchObstacle> {
        let question = (region.clone(), architecture.to_owned(), source.clone());
        self.images.get_or_ask(question, Box::pin(cloud.find_image(region, architecture, source, agent_sha256))).await
    }

    /// The image that a job's machine boots: that which the job names, if its team may, or that of the configuration.
    ///
    /// # Errors
    /// As [`AnswerCache::image`]; or the team may not have it, or EC2 does not say that all may.
    pub async fn machine_image(
        &self,
        cloud: &impl JobCloud,
        (region, architecture): (&Region, &str),
        (terms, team): (&JobTerms, &TeamName),
        config: &Config,
        agent_sha256: &str,
    ) -> Result<MachineImage, LaunchObstacle> {
        let look =
            |source: ImageSource| async move { self.image(cloud, region, architecture, &source, agent_sha256).await };
        let image = look(image_source(terms, config)).await?;
        let Err(refused) = check_image(terms.machine.ami.is_some(), &image, team, config) else { return Ok(image) };
        match look(config.jobs.image.clone()).await {
            Ok(common) if common.ami == image.ami => Ok(MachineImage { is_for_all: true, ..image }),
            _ => Err(LaunchObstacle::new(format!("the image {} in {region} is not allowed: {refused}", image.ami))),
        }
    }

    /// The quotas of EC2 in that region. Needed only after a quota has refused a launch.
    ///
    /// # Errors
    /// If Service Quotas does not list them.
    pub async fn quotas(&self, cloud: &impl JobCloud, region: &Region) -> Result<Vec<ListedQuota>, CallError> {
        self.quotas.get_or_ask(region.clone(), Box::pin(cloud.list_quotas(region))).await
    }

    /// The instances of a region with the tag `curfew:job`.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    pub async fn find_job_machines(
        &self,
        cloud: &impl JobCloud,
        region: &Region,
    ) -> Result<Arc<Vec<FoundMachine>>, CallError> {
        let find = async { cloud.find_job_machines(region).await.map(Arc::new) };
        self.machines.get_or_ask(region.clone(), Box::pin(find)).await
    }

    /// The refusal of a gang that no quota has room for; `None` if one may have, or that is not known.
    pub async fn find_too_few_vcpus(
        &self,
        cloud: &impl JobCloud,
        candidate: &Candidate,
        nodes: u8,
    ) -> Option<LaunchResult> {
        let listed = self.quotas(cloud, &candidate.region).await.ok()?;
        let (quota, why) = too_few_vcpus(candidate, nodes, &listed)?;
        Some(LaunchResult::Quota(why, Some(quota)))
    }

    /// Launches, and returns the result. The same order can be repeated to learn the result of the first.
    pub async fn launch(&self, cloud: &impl JobCloud, order: &LaunchOrder<'_>) -> LaunchResult {
        match cloud.launch(order).await {
            Ok(result) => result,
            Err(VcpuQuotaExceeded(refused)) => self.name_quota(cloud, &order.launch.candidate, &refused).await,
        }
    }

    /// EC2 does not name the quota. Service Quotas is queried only now, once a run for each region.
    async fn name_quota(&self, cloud: &impl JobCloud, candidate: &Candidate, refused: &CallError) -> LaunchResult {
        let listed = self.quotas(cloud, &candidate.region).await.map_err(|error| error.to_string());
        let (quota, about) = governing_quota(candidate, listed.as_deref().map_err(String::as_str));
        LaunchResult::Quota(format!("{refused}; {about}"), quota)
    }
}

fn no_subnet(region: &Region, machine: &MachineSpec) -> CallError {
    let message = if machine.subnets.is_empty() {
        format!("{region} has no default subnet; name some under `[machine] subnets`")
    } else {
        let named = machine.subnets.iter().map(ResourceId::as_str).collect::<Vec<_>>().join(", ");
        format!("{region} has none of the subnets under `[machine] subnets`: {named}")
    };
    CallError::new("ec2:DescribeSubnets", region, CallErrorKind::Other, message)
}

/// Answers by query. A second caller of a query in progress waits for its answer.
#[derive(Debug)]
struct CachedAnswers<Q, A>(Mutex<BTreeMap<Q, Arc<OnceCell<A>>>>);

impl<Q, A> Default for CachedAnswers<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Ord, A: Clone> CachedAnswers<Q, A> {
    async fn get_or_ask(&self, question: Q, ask: impl Future<Output = A>) -> A {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(question).or_default().clone();
        answer.get_or_init(|| ask).await.clone()
    }
}
