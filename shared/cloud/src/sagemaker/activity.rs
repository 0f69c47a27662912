//! Activity of endpoints and jobs, from `CloudWatch`.

use std::time::Duration;

use model::id::Region;
use model::observation::Gap;
use model::sagemaker::{ActivityQuestion, ActivitySamples, ObservedSageMaker, SageMakerResource};
use ports::SageMakerCloud;

use super::observe;
use crate::aws::Aws;
use crate::observe::signals::ask_in_batches;

impl SageMakerCloud for Aws {
    async fn sagemaker(
        &self,
        regions: &[Region],
        timeout: Duration,
        wants_facts: impl Fn(&SageMakerResource) -> bool,
    ) -> ObservedSageMaker {
        observe(self, regions, timeout, wants_facts).await
    }

    async fn activity(
        &self,
        region: &Region,
        questions: &[ActivityQuestion],
        timeout: Duration,
    ) -> (ActivitySamples, Vec<Gap>) {
        ask_in_batches(self, region, questions, timeout).await
    }
}
