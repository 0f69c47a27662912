//! What was asked for the jobs of one run: each question once, however many of them have it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jobs::{CapacityPool, JobTerms, ListedQuota, MachineImage};
use model::id::{Region, ResourceId, TypeName};
use model::image_source::ImageSource;
use tokio::sync::OnceCell;

use super::image::image;
use super::pools::{Subnets, TypeOfferings, offers, pools_of, subnets};
use super::quotas::list_quotas;
use crate::aws::Aws;
use crate::error::CallError;

/// The answers of one run. A refusal is one as well: who is throttled is not helped by being asked for the next job again; the next run
/// asks anew.
#[derive(Debug, Default)]
pub struct AnswerCache {
    offers: CachedAnswers<(Region, BTreeSet<TypeName>), Result<TypeOfferings, CallError>>,
    subnets: CachedAnswers<(Region, BTreeSet<ResourceId>), Result<Subnets, CallError>>,
    images: CachedAnswers<(Region, String, ImageSource), Result<MachineImage, String>>,
    quotas: CachedAnswers<Region, Result<Vec<ListedQuota>, CallError>>,
}

impl AnswerCache {
    /// The pools of one region: each type with whole NVIDIA GPUs that can be had by the second, in each zone where there is a subnet, sorted
    /// by type and zone. Only the types that are named, where any are; else all but bare metal, which boots for longer than a job waits for
    /// its first heartbeat. Of several subnets of a zone it is the one with the most free addresses. Which of them fit a job is not asked
    /// here.
    ///
    /// In three calls, where each answer is one page.
    ///
    /// # Errors
    /// Where EC2 does not say it whole, and where there is no subnet to launch in.
    pub async fn pools(&self, aws: &Aws, region: &Region, terms: &JobTerms) -> Result<Vec<CapacityPool>, CallError> {
        let types: BTreeSet<TypeName> = terms.gpu.types.iter().cloned().collect();
        let named: BTreeSet<ResourceId> = terms.machine.subnets.iter().cloned().collect();
        let (offers, subnets) = futures::join!(
            self.offers.get_or_ask((region.clone(), types.clone()), Box::pin(offers(aws, region, &types))),
            self.subnets.get_or_ask((region.clone(), named.clone()), Box::pin(subnets(aws, region, &named))),
        );
        pools_of(region, &offers?, &subnets?, &terms.machine)
    }

    /// The image of that architecture (`x86_64`, `arm64`) in that region, in two calls at most. All jobs of a run are of the same agent
    /// of an architecture.
    ///
    /// # Errors
    /// In words, where there is none, or none that can run a job: it has to be there, for that architecture, Linux at no price of its own,
    /// on EBS, with cloud-init.
    pub async fn image(
        &self,
        aws: &Aws,
        region: &Region,
        architecture: &str,
        source: &ImageSource,
        agent_sha256: &str,
    ) -> Result<MachineImage, String> {
        let question = (region.clone(), architecture.to_owned(), source.clone());
        self.images.get_or_ask(question, Box::pin(image(aws, region, architecture, source, agent_sha256))).await
    }

    /// The quotas of EC2 in that region. Only of use once a quota has refused a launch.
    ///
    /// # Errors
    /// Where Service Quotas does not list them.
    pub(super) async fn quotas(&self, aws: &Aws, region: &Region) -> Result<Vec<ListedQuota>, CallError> {
        self.quotas.get_or_ask(region.clone(), Box::pin(list_quotas(aws, region))).await
    }
}

/// Answers by their questions. Whoever has a question that is being asked waits for its answer.
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
