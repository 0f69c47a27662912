//! The calls of the report of a month.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::config::SeriesNames;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use ports::ReportCloud;
use recommend::GpuOffer;
use recommend::usage::DeviceSamples;
use report::Mail;

use crate::aws::Aws;
use crate::error::CallError;
use crate::{observe, ses};

impl ReportCloud for Aws {
    async fn gpu_offers(&self, region: &Region) -> Result<Vec<GpuOffer>, CallError> {
        observe::gpu_offers(self, region).await
    }

    async fn usage_history(
        &self,
        region: &Region,
        instances: &[&Instance],
        names: &SeriesNames,
        until_and_series_max: (Timestamp, usize),
    ) -> Result<(BTreeMap<ResourceId, Vec<DeviceSamples>>, usize), CallError> {
        observe::usage_history(self, region, instances, names, until_and_series_max).await
    }

    async fn mail_report(&self, sender: &str, recipient: &str, mail: &Mail) -> Result<(), CallError> {
        ses::send(self, sender, recipient, mail).await
    }
}
