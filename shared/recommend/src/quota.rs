//! Launches that the account's quotas of vCPUs allow.

use std::collections::BTreeMap;

use billing::energy::hardware;
use billing::ledger::{Ledger, PurchaseTerms, RunKind};
use jobs::Lifecycle;
use model::id::{Region, TypeName};
use model::quota::{PurchaseMarket, code};
use serde::Serialize;

use crate::GpuOffer;

/// The quotas of each region that was asked, by their code, and what runs there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccountQuotas {
    pub granted: BTreeMap<Region, BTreeMap<String, f64>>,
    pub used: BTreeMap<(Region, &'static str), u32>,
}

/// Result of a launch against its quota.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum QuotaVerdict {
    /// The quota, as far as known, is large enough for the running instances and this type.
    Allowed { code: &'static str, granted_vcpus: f64, used_vcpus: u32 },
    /// The quota is too small: a launch fails with `VcpuLimitExceeded` or `MaxSpotInstanceCountExceeded`.
    Refused { code: &'static str, granted_vcpus: f64, used_vcpus: u32, needed_vcpus: u32 },
    /// The quota was not requested, AWS did not answer, or no document says which quota counts the type.
    Unknown,
}

impl AccountQuotas {
    /// Counts what runs by the ledgers. A type whose vCPUs are in no table is not counted.
    #[must_use]
    pub fn new<'a>(
        granted: BTreeMap<Region, BTreeMap<String, f64>>,
        ledgers: impl IntoIterator<Item = &'a Ledger>,
    ) -> Self {
        let mut used: BTreeMap<(Region, &'static str), u32> = BTreeMap::new();
        let running = ledgers.into_iter().flat_map(Ledger::runs);
        for run in running.filter(|run| run.kind() == RunKind::Instance && run.is_running()) {
            let instance_type = TypeName::from(run.what());
            let market = match run.terms() {
                PurchaseTerms::Spot => PurchaseMarket::Spot,
                PurchaseTerms::OnDemand => PurchaseMarket::OnDemand,
                _ => continue,
            };
            if let (Some(region), Some(quota), Some(machine)) =
                (run.region, code(&instance_type, market), hardware(&instance_type))
            {
                *used.entry((region.clone(), quota)).or_default() += u32::from(machine.vcpus);
            }
        }
        Self { granted, used }
    }

    pub(crate) fn verdict(&self, offer: &GpuOffer, lifecycle: Lifecycle) -> QuotaVerdict {
        let market = match lifecycle {
            Lifecycle::Spot => PurchaseMarket::Spot,
            Lifecycle::OnDemand => PurchaseMarket::OnDemand,
        };
        let known = || {
            let code = code(&offer.instance_type, market)?;
            let granted_vcpus = *self.granted.get(&offer.region)?.get(code)?;
            Some((code, granted_vcpus, offer.vcpus?))
        };
        let Some((code, granted_vcpus, needed_vcpus)) = known() else { return QuotaVerdict::Unknown };
        let used_vcpus = self.used.get(&(offer.region.clone(), code)).copied().unwrap_or_default();
        if f64::from(used_vcpus) + f64::from(needed_vcpus) <= granted_vcpus {
            QuotaVerdict::Allowed { code, granted_vcpus, used_vcpus }
        } else {
            QuotaVerdict::Refused { code, granted_vcpus, used_vcpus, needed_vcpus }
        }
    }
}

impl QuotaVerdict {
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}
