//! Prices under `SageMaker`, by type and component: a type costs more than under EC2, and as an endpoint another price than in Studio.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::id::{Region, TypeName};
use model::money::Rate;
use model::sagemaker::{ComputeJob, JobKind, ProductionSign, SageMakerKind, SageMakerResource};
use serde::{Deserialize, Serialize};

use super::{PriceBook, Quote};

/// Micro-USD per hour, by component.
pub type SageMakerPrices = BTreeMap<SageMakerComponent, u64>;

/// Component as which `SageMaker` bills an instance: the `component` of the Price List.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SageMakerComponent {
    Hosting,
    AsyncInference,
    Training,
    Processing,
    Notebook,
    StudioJupyterLab,
    StudioCodeEditor,
    /// `KernelGateway` app of Studio Classic.
    StudioKernelGateway,
}

impl SageMakerComponent {
    const ALL: [Self; 8] = [
        Self::Hosting,
        Self::AsyncInference,
        Self::Training,
        Self::Processing,
        Self::Notebook,
        Self::StudioJupyterLab,
        Self::StudioCodeEditor,
        Self::StudioKernelGateway,
    ];

    /// Returns the part of the usage type that names the component, for billing and for people. A usage type is the region's prefix, this
    /// part, and the type, as Cost Explorer and the Savings Plans price list of machine learning have them:
    /// `APN2-Studio:JupyterLab-ml.g5.xlarge`, `USE1-Notebk:ml.g5.xlarge`.
    #[must_use]
    pub const fn usage(self) -> &'static str {
        match self {
            Self::Hosting => "Host:",
            Self::AsyncInference => "AsyncInf:",
            Self::Training => "Train:",
            Self::Processing => "Processing:",
            Self::Notebook => "Notebk:",
            Self::StudioJupyterLab => "Studio:JupyterLab-",
            Self::StudioCodeEditor => "Studio:CodeEditor-",
            Self::StudioKernelGateway => "Studio:KernelGateway-",
        }
    }

    /// The component whose usage type this is of that type (`ml.g5.xlarge`).
    pub(super) fn from_usage_type(usage_type: &str, instance_name: &str) -> Option<Self> {
        let usage = usage_type.strip_suffix(instance_name)?;
        let is_it = |one: &Self| {
            usage.strip_suffix(one.usage()).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-'))
        };
        Self::ALL.into_iter().find(is_it)
    }

    /// Returns the component as which a resource is billed; `None` for a tuning job, which runs nothing itself, and for an app that Curfew
    /// does not know.
    #[must_use]
    pub fn from_resource(resource: &SageMakerResource) -> Option<Self> {
        match &resource.kind {
            SageMakerKind::NotebookInstance => Some(Self::Notebook),
            SageMakerKind::Endpoint { facts: Some(facts) } if facts.signs.contains(&ProductionSign::AsyncInference) => {
                Some(Self::AsyncInference)
            }
            SageMakerKind::Endpoint { .. } | SageMakerKind::InferenceComponent(_) => Some(Self::Hosting),
            SageMakerKind::Job(ComputeJob { job: JobKind::Training, .. }) => Some(Self::Training),
            SageMakerKind::Job(ComputeJob { job: JobKind::Processing, .. }) => Some(Self::Processing),
            SageMakerKind::Job(ComputeJob { job: JobKind::Tuning, .. }) => None,
            SageMakerKind::App(app) => match app.app_type.as_str() {
                "JupyterLab" => Some(Self::StudioJupyterLab),
                "CodeEditor" => Some(Self::StudioCodeEditor),
                "KernelGateway" => Some(Self::StudioKernelGateway),
                _ => None,
            },
        }
    }
}

impl PriceBook {
    /// Returns the price of a type as that component; `None` if the Price List has not given it lately. There is no table: none was
    /// checked.
    #[must_use]
    pub fn sagemaker(&self, region: &Region, instance_type: &TypeName, component: SageMakerComponent) -> Option<Quote> {
        let listed = self.live.sagemaker.get(region)?.get(instance_type)?;
        let usd_micros = listed.usd_micros_per_hour.get(&component)?;
        Some(Quote { rate: Rate::from_usd_micros_per_hour(*usd_micros), source: self.source_of(listed.as_of)? })
    }

    /// Returns the cost of a running resource, on all of its instances; `None` if the price of an instance, or the instances, are unknown.
    /// `SageMaker` reports the cost of managed Spot only after the job ends. A resource without instances has no price either.
    #[must_use]
    pub fn sagemaker_cost(&self, resource: &SageMakerResource) -> Option<Quote> {
        if resource.job_billing().is_some_and(|billing| billing.is_managed_spot) {
            return None;
        }
        self.sagemaker_machines_cost(resource).map(|(_, quote)| quote)
    }

    /// The known price of a resource with its begin, for the ledger: of managed Spot that of its billable seconds. Where it runs on nothing, it
    /// costs nothing. Empty if unknown.
    #[must_use]
    pub fn known_rates_of_sagemaker(&self, resource: &SageMakerResource) -> Vec<(Timestamp, Rate)> {
        if resource.machines().is_some_and(|machines| machines.values().all(|count| *count == 0)) {
            return vec![(Timestamp::UNIX_EPOCH, Rate::ZERO)];
        }
        self.sagemaker_machines_cost(resource).map(|(from, quote)| (from, quote.rate)).into_iter().collect()
    }

    /// Returns the cost with the moment since which the list gives the same price for every type.
    fn sagemaker_machines_cost(&self, resource: &SageMakerResource) -> Option<(Timestamp, Quote)> {
        let component = SageMakerComponent::from_resource(resource)?;
        let (mut from, mut quotes) = (Timestamp::MIN, Vec::new());
        for (instance_type, count) in resource.machines()? {
            let Quote { rate, source } = self.sagemaker(&resource.region, &instance_type, component)?;
            from = from.max(self.live.sagemaker.get(&resource.region)?.get(&instance_type)?.from);
            let usd_micros = rate.usd_micros_per_hour().checked_mul(u64::from(count))?;
            quotes.push(Quote { rate: Rate::from_usd_micros_per_hour(usd_micros), source });
        }
        // The oldest answer is the caveat of the sum.
        let source = quotes.iter().map(|quote| quote.source).min()?;
        Some((from, Quote { rate: quotes.iter().map(|quote| quote.rate).sum(), source }))
    }
}

/// The types of these resources, by their regions: what is asked of the Price List.
#[must_use]
pub fn sagemaker_types<'a>(resources: impl IntoIterator<Item = &'a SageMakerResource>) -> BTreeSet<(Region, TypeName)> {
    let types = |resource: &SageMakerResource| {
        let region = resource.region.clone();
        let machines = resource.machines().unwrap_or_default();
        machines.into_keys().map(move |name| (region.clone(), name))
    };
    resources.into_iter().flat_map(types).collect()
}

#[cfg(test)]
mod tests;
