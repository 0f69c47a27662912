//! The vCPUs of GPU instances that EC2 gives this account, by region and family (EC2 user guide, "Amazon EC2 instance type quotas"; Service
//! Quotas user guide has the codes). **Nearly used up** from 90 percent on.

use std::collections::BTreeMap;

use model::id::Region;
use model::instance::{Instance, InstanceState, PurchaseOption};
use model::quota::{InstanceFamily, PurchaseMarket, QUOTAS, code};
use serde::Serialize;

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "quotas";

const NEARLY_PERCENT: f64 = 90.0;

/// One quota of one region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionQuota {
    pub region: Region,
    pub family: InstanceFamily,
    pub market: PurchaseMarket,
    /// Service Quotas' code.
    pub code: &'static str,
    /// The quota in vCPUs; `None` if AWS does not report it.
    pub vcpus: Option<f64>,
    /// The vCPUs that run.
    pub used_vcpus: u32,
}

/// The quotas of regions, with what runs there: each region's values by their code.
#[must_use]
pub fn quotas(values: &BTreeMap<Region, BTreeMap<String, f64>>, instances: &[Instance]) -> Vec<RegionQuota> {
    let region_quotas = |(region, values): (&Region, &BTreeMap<String, f64>)| {
        let quota = |(family, market, quota_code): (InstanceFamily, PurchaseMarket, &'static str)| RegionQuota {
            region: region.clone(),
            family,
            market,
            code: quota_code,
            vcpus: values.get(quota_code).copied(),
            used_vcpus: used(instances, region, quota_code, market),
        };
        QUOTAS.map(quota)
    };
    values.iter().flat_map(region_quotas).collect()
}

/// Sums the used vCPUs. A stopped instance counts nowhere, and one that was paid for in advance has no quota of vCPUs.
fn used(instances: &[Instance], region: &Region, quota_code: &str, market: PurchaseMarket) -> u32 {
    let counts = |one: &&Instance| {
        one.region == *region
            && matches!(one.state, InstanceState::Pending | InstanceState::Running)
            && market_of(one.purchase) == Some(market)
            && code(&one.instance_type, market) == Some(quota_code)
    };
    instances.iter().filter(counts).map(|one| one.machine.vcpus).sum()
}

const fn market_of(purchase: PurchaseOption) -> Option<PurchaseMarket> {
    match purchase {
        PurchaseOption::OnDemand => Some(PurchaseMarket::OnDemand),
        PurchaseOption::SpotOneTime | PurchaseOption::SpotPersistent | PurchaseOption::SpotUnknown => {
            Some(PurchaseMarket::Spot)
        }
        PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation => None,
    }
}

/// Judges all quotas that are known.
#[must_use]
pub fn check(quotas: &[RegionQuota]) -> Vec<DoctorFinding> {
    let mut findings: Vec<DoctorFinding> =
        QUOTAS.iter().filter_map(|(family, market, code)| nearly_used_up(quotas, *family, *market, code)).collect();
    let has_none = quotas.iter().all(|quota| quota.used_vcpus == 0 && quota.vcpus.is_none_or(|vcpus| vcpus <= 0.0));
    if !quotas.is_empty() && has_none {
        findings.push(DoctorFinding::note(
            "every region",
            "no GPU instance can be launched: all quotas are 0, as in a new account",
            increase("REGION", QUOTAS[0].2),
        ));
    }
    findings
}

/// AWS CLI command reference, `service-quotas request-service-quota-increase`.
fn increase(region: &str, code: &str) -> String {
    format!(
        "aws service-quotas request-service-quota-increase --region {region} --service-code ec2 --quota-code {code} \
         --desired-value VCPUS"
    )
}

/// One finding for all regions: its remedy is the same but for the region.
fn nearly_used_up(
    quotas: &[RegionQuota],
    family: InstanceFamily,
    market: PurchaseMarket,
    code: &str,
) -> Option<DoctorFinding> {
    let nearly: Vec<(&Region, u32, f64)> = quotas
        .iter()
        .filter(|quota| quota.code == code)
        .filter_map(|quota| Some((&quota.region, quota.used_vcpus, quota.vcpus?)))
        .filter(|(_, used, vcpus)| *used > 0 && f64::from(*used) * 100.0 >= vcpus * NEARLY_PERCENT)
        .collect();
    let market = match market {
        PurchaseMarket::OnDemand => "on-demand",
        PurchaseMarket::Spot => "Spot",
    };
    let what = format!("vCPUs of {} ({market})", family.as_str());
    let (at, found, region) = match nearly.as_slice() {
        [] => return None,
        [(region, used, vcpus)] => {
            (region.as_str().to_owned(), format!("{used} of {vcpus} {what} run"), region.as_str())
        }
        several => {
            let each = |(region, used, vcpus): &(&Region, u32, f64)| format!("{used} of {vcpus} in {region}");
            let each: Vec<String> = several.iter().map(each).collect();
            (format!("{} regions", several.len()), format!("{what} run: {}", each.join(", ")), "REGION")
        }
    };
    let remedy = format!("stop what is not needed, or {}", increase(region, code));
    Some(DoctorFinding::warning(at, format!("{found}: EC2 may refuse a launch"), remedy))
}

/// The families by region that are of interest to people: something may run there, or does.
#[must_use]
pub fn usable_families(quotas: &[RegionQuota]) -> Vec<(&Region, InstanceFamily)> {
    let mut found: Vec<(&Region, InstanceFamily)> = quotas
        .iter()
        .filter(|quota| quota.used_vcpus > 0 || quota.vcpus.is_some_and(|vcpus| vcpus > 0.0))
        .map(|quota| (&quota.region, quota.family))
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingSeverity;
    use reaping::fixture::instance;

    fn quotas_in(region: &str, values: &[(&str, f64)], instances: &[Instance]) -> Vec<RegionQuota> {
        let values = values.iter().map(|(code, vcpus)| ((*code).to_owned(), *vcpus)).collect();
        quotas(&BTreeMap::from([(region.into(), values)]), instances)
    }

    fn check(values: &[(&str, f64)], instances: &[Instance], expect: &[FindingSeverity]) {
        let findings = super::check(&quotas_in("us-east-1", values, instances));
        let severities: Vec<FindingSeverity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{values:?}: {findings:?}");
    }

    #[test]
    fn a_quota_that_is_nearly_used_up_is_a_warning() {
        let ten = vec![instance().build(); 9]; // of 4 vCPUs each
        check(&[("L-DB2E81BA", 41.0)], &ten, &[]);
        check(&[("L-DB2E81BA", 40.0)], &ten, &[FindingSeverity::Warning]);
        check(&[("L-417A185B", 40.0), ("L-DB2E81BA", 400.0)], &ten, &[]);
        check(&[("L-3819A6DF", 4.0), ("L-DB2E81BA", 400.0)], &ten, &[]);
    }

    #[test]
    fn the_regions_of_one_quota_are_one_finding() {
        let with_quota = |region: &str, code: &str| {
            let one = Instance { region: region.into(), ..instance().build() };
            quotas_in(region, &[(code, 4.0)], &[one])
        };
        let all = ["us-east-1", "eu-west-1", "eu-west-2"].map(|region| with_quota(region, "L-DB2E81BA")).concat();
        let [finding] = super::check(&all).try_into().unwrap();
        assert_eq!(finding.at, "3 regions");
        let expect = "vCPUs of G and VT (on-demand) run: 4 of 4 in us-east-1, 4 of 4 in eu-west-1, 4 of 4 in eu-west-2: EC2 \
                      may refuse a launch";
        assert_eq!(finding.found, expect);
        assert!(finding.remedy.contains("--region REGION --service-code ec2 --quota-code L-DB2E81BA"), "{finding:?}");
        let [finding] = super::check(&with_quota("eu-west-1", "L-DB2E81BA")).try_into().unwrap();
        assert_eq!((finding.at.as_str(), finding.remedy.contains("--region eu-west-1")), ("eu-west-1", true));
    }

    #[test]
    fn no_quota_at_all_is_noted() {
        check(&[("L-DB2E81BA", 0.0)], &[], &[FindingSeverity::Note]);
        check(&[], &[], &[FindingSeverity::Note]);
        check(&[("L-DB2E81BA", 8.0)], &[], &[]);
        check(&[], &[instance().build()], &[]);
        check(&[("L-DB2E81BA", 0.0)], &[instance().build()], &[FindingSeverity::Warning]);
    }

    #[test]
    fn only_what_runs_counts_and_by_how_it_is_bought() {
        let one = || instance().build();
        let stopped = Instance { state: InstanceState::Stopped, ..one() };
        let spot = Instance { purchase: PurchaseOption::SpotOneTime, ..one() };
        let prepaid = Instance { purchase: PurchaseOption::CapacityBlock, ..one() };
        let elsewhere = Instance { region: "eu-west-1".into(), ..one() };
        let all = [one(), stopped, spot, prepaid, elsewhere];
        let used: Vec<u32> = quotas_in("us-east-1", &[], &all).iter().map(|quota| quota.used_vcpus).collect();
        assert_eq!(used, [4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_type_counts_by_its_name() {
        let check = |name: &str, expect| assert_eq!(InstanceFamily::from_type(&name.into()), expect, "{name}");
        check("g5.xlarge", Some(InstanceFamily::G));
        check("g6e.12xlarge", Some(InstanceFamily::G));
        check("gr6.4xlarge", Some(InstanceFamily::G));
        check("p5en.48xlarge", Some(InstanceFamily::P));
        check("p6-b200.48xlarge", Some(InstanceFamily::P));
        check("trn1n.32xlarge", Some(InstanceFamily::Trn));
        check("inf2.xlarge", Some(InstanceFamily::Inf));
        check("dl1.24xlarge", Some(InstanceFamily::Dl));
        check("m5.large", None);
    }

    #[test]
    fn spot_of_p5_has_a_quota_of_its_own() {
        let check = |name: &str, on_demand, spot| {
            let codes = [PurchaseMarket::OnDemand, PurchaseMarket::Spot].map(|market| code(&name.into(), market));
            assert_eq!(codes, [Some(on_demand), spot], "{name}");
        };
        check("p4d.24xlarge", "L-417A185B", Some("L-7212CCBC"));
        check("p3dn.24xlarge", "L-417A185B", Some("L-7212CCBC"));
        check("p5.48xlarge", "L-417A185B", Some("L-C4BD4855"));
        check("p5en.48xlarge", "L-417A185B", Some("L-C4BD4855"));
        check("p6-b200.48xlarge", "L-417A185B", None);
        check("trn1.32xlarge", "L-2C3B7624", Some("L-6B0D517C"));
    }

    #[test]
    fn regions_without_any_are_not_shown() {
        assert_eq!(usable_families(&quotas_in("us-east-1", &[("L-DB2E81BA", 0.0)], &[])), []);
        assert_eq!(usable_families(&quotas_in("us-east-1", &[("L-DB2E81BA", 8.0), ("L-3819A6DF", 8.0)], &[])).len(), 1);
        assert_eq!(usable_families(&quotas_in("us-east-1", &[], &[instance().build()])).len(), 1);
    }
}
