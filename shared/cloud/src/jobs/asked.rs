//! What was asked for the jobs of one run: each question once, however many of them have it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::{Region, ResourceId, TypeName};
use domain::job::{Image, Pool, Terms};
use tokio::sync::OnceCell;

use super::image::image;
use super::pools::{Offers, Subnets, offers, pools_of, subnets};
use crate::aws::Aws;
use crate::error::CallError;

/// The answers of one run. A refusal is one as well: who is throttled is not helped by being asked for the next job again; the next run
/// asks anew.
#[derive(Debug, Default)]
pub struct Asked {
    offers: Answers<(Region, BTreeSet<TypeName>), Result<Offers, CallError>>,
    subnets: Answers<(Region, BTreeSet<ResourceId>), Result<Subnets, CallError>>,
    images: Answers<(Region, String, Option<ResourceId>), Result<Image, String>>,
}

impl Asked {
    /// The pools of one region: each type with whole NVIDIA GPUs that can be had by the second, in each zone where there is a subnet, sorted
    /// by type and zone. Only the types that are named, where any are; else all but bare metal, which boots for longer than a job waits for
    /// its first heartbeat. Of several subnets of a zone it is the one with the most free addresses. Which of them fit a job is not asked
    /// here.
    ///
    /// In three calls, where each answer is one page.
    ///
    /// # Errors
    /// Where EC2 does not say it whole, and where there is no subnet to launch in.
    pub async fn pools(&self, aws: &Aws, region: &Region, terms: &Terms) -> Result<Vec<Pool>, CallError> {
        let types: BTreeSet<TypeName> = terms.gpu.types.iter().cloned().collect();
        let named: BTreeSet<ResourceId> = terms.machine.subnets.iter().cloned().collect();
        let (offers, subnets) = futures::join!(
            self.offers.of((region.clone(), types.clone()), Box::pin(offers(aws, region, &types))),
            self.subnets.of((region.clone(), named.clone()), Box::pin(subnets(aws, region, &named))),
        );
        pools_of(region, &offers?, &subnets?, &terms.machine)
    }

    /// The image of that architecture (`x86_64`, `arm64`) in that region: the one that is named, or else the Deep Learning AMI of today. In
    /// two calls at most. All jobs of a run are of the same agent of an architecture.
    ///
    /// # Errors
    /// In words, where there is none, or none that can run a job: it has to be there, for that architecture, Linux at no price of its own,
    /// on EBS, with cloud-init.
    pub async fn image(
        &self,
        aws: &Aws,
        region: &Region,
        architecture: &str,
        ami: Option<&ResourceId>,
        agent_sha256: &str,
    ) -> Result<Image, String> {
        let question = (region.clone(), architecture.to_owned(), ami.cloned());
        self.images.of(question, Box::pin(image(aws, region, architecture, ami, agent_sha256))).await
    }
}

/// Answers by their questions. Whoever has a question that is being asked waits for its answer.
#[derive(Debug)]
struct Answers<Q, A>(Mutex<BTreeMap<Q, Arc<OnceCell<A>>>>);

impl<Q, A> Default for Answers<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Ord, A: Clone> Answers<Q, A> {
    async fn of(&self, question: Q, ask: impl Future<Output = A>) -> A {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(question).or_default().clone();
        answer.get_or_init(|| ask).await.clone()
    }
}
