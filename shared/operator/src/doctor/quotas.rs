//! The vCPUs of GPU instances that EC2 gives this account, by region and family (EC2 user guide, "Amazon EC2 instance type quotas"; Service
//! Quotas user guide has the codes). **Nearly used up** from 90 percent on.

use std::collections::BTreeMap;
use std::fmt::Display;

use jobs::JobId;
use model::curfew_tags::{ATTEMPT, JOB};
use model::id::{Region, TypeName};
use model::instance::{Instance, InstanceState, PurchaseOption};
use model::quota::{InstanceFamily, PurchaseMarket, QUOTAS, code};
use serde::Serialize;

use super::{DoctorFinding, at_most};

/// The check's name.
pub const CHECK: &str = "quotas";

const NEARLY_PERCENT: f64 = 90.0;

/// The most gangs that are shown.
const GANGS_MAX: usize = 20;

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

fn increase(region: &str, code: &str) -> String {
    increase_to(region, code, "VCPUS")
}

/// AWS CLI command reference, `service-quotas request-service-quota-increase`.
fn increase_to(region: &str, code: &str, vcpus: impl Display) -> String {
    format!(
        "aws service-quotas request-service-quota-increase --region {region} --service-code ec2 --quota-code {code} \
         --desired-value {vcpus}"
    )
}

/// The machines of a job on several machines, on Spot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotGang {
    /// The name of the job, for people.
    pub name: String,
    pub region: Region,
    pub instance_type: TypeName,
    pub nodes: u32,
    /// The vCPUs of all machines.
    pub vcpus: u32,
    /// `true` if they run, so that the used vCPUs include theirs.
    pub is_running: bool,
}

/// Finds the jobs on several machines that run on Spot: by the tags of a launch, several machines have the same attempt.
#[must_use]
pub fn running_gangs(instances: &[Instance]) -> Vec<SpotGang> {
    let mut gangs: BTreeMap<(JobId, u32, &Region, &TypeName), (u32, u32)> = BTreeMap::new();
    for one in instances {
        let tag = |key: &str| one.tags.get(key).map(String::as_str).unwrap_or_default();
        let is_running = matches!(one.state, InstanceState::Pending | InstanceState::Running);
        let (Ok(job), Ok(attempt)) = (JobId::read(tag(JOB)), tag(ATTEMPT).parse()) else { continue };
        if is_running && market_of(one.purchase) == Some(PurchaseMarket::Spot) {
            let (nodes, vcpus) = gangs.entry((job, attempt, &one.region, &one.instance_type)).or_default();
            (*nodes, *vcpus) = (nodes.saturating_add(1), vcpus.saturating_add(one.machine.vcpus));
        }
    }
    let several = gangs.into_iter().filter(|(_, (nodes, _))| *nodes > 1);
    several
        .map(|((job, _, region, instance_type), (nodes, vcpus))| SpotGang {
            name: job.to_string(),
            region: region.clone(),
            instance_type: instance_type.clone(),
            nodes,
            vcpus,
            is_running: true,
        })
        .collect()
}

/// Finds the quotas that let no gang be replaced beside the warned one: the next one needs as many vCPUs again. An unknown quota proves nothing.
#[must_use]
pub fn check_gangs(gangs: &[SpotGang], quotas: &[RegionQuota]) -> Vec<DoctorFinding> {
    at_most(GANGS_MAX, gangs.iter().filter_map(|gang| too_small_to_replace(gang, quotas)).collect(), "jobs")
}

fn too_small_to_replace(gang: &SpotGang, quotas: &[RegionQuota]) -> Option<DoctorFinding> {
    let SpotGang { name, region, instance_type, nodes, vcpus, is_running } = gang;
    let code = code(instance_type, PurchaseMarket::Spot)?;
    let quota = quotas.iter().find(|quota| quota.region == *region && quota.code == code)?;
    let (granted, used) = (quota.vcpus?, quota.used_vcpus);
    let twice = vcpus.saturating_mul(2);
    let needed = used.saturating_add(if *is_running { *vcpus } else { twice });
    if f64::from(needed) <= granted {
        return None;
    }
    let found = format!(
        "{name} ({nodes} × {instance_type} on Spot) needs {twice} vCPUs of {code} to be replaced after a warning without waiting; {granted} \
         are granted, and {used} run: the next machines are launched once the old ones are gone"
    );
    Some(DoctorFinding::note(region, found, increase_to(region.as_str(), code, needed)))
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

    fn of_gang(job: &str, attempt: &str) -> Instance {
        let tags = [(JOB, job), (ATTEMPT, attempt)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        Instance { purchase: PurchaseOption::SpotOneTime, tags: tags.into(), ..instance().build() }
    }

    #[test]
    fn a_gang_needs_its_vcpus_twice_to_be_replaced_at_once() {
        let ddp = "vision/ddp-0123abcd";
        let two = [of_gang(ddp, "1"), of_gang(ddp, "1")]; // of 4 vCPUs each
        let findings = |vcpus: f64, instances: &[Instance]| {
            let quotas = quotas_in("us-east-1", &[("L-3819A6DF", vcpus)], instances);
            check_gangs(&running_gangs(instances), &quotas)
        };
        assert_eq!(findings(16.0, &two), []);
        let [finding] = findings(15.0, &two).try_into().unwrap();
        let expect = "vision/ddp-0123abcd (2 × g5.xlarge on Spot) needs 16 vCPUs of L-3819A6DF to be replaced after a warning without waiting; 15 \
                      are granted, and 8 run: the next machines are launched once the old ones are gone";
        assert_eq!((finding.severity, finding.found.as_str()), (FindingSeverity::Note, expect));
        assert!(finding.remedy.ends_with("--quota-code L-3819A6DF --desired-value 16"), "{}", finding.remedy);
        // What else runs takes its part.
        let other = Instance { purchase: PurchaseOption::SpotOneTime, ..instance().build() };
        assert_eq!(findings(19.0, &[&two[..], &[other]].concat()).len(), 1);
        assert_eq!(check_gangs(&running_gangs(&two), &[]), []);
        // One that does not run yet needs all of it.
        let planned = SpotGang { is_running: false, ..running_gangs(&two).remove(0) };
        assert_eq!(
            check_gangs(std::slice::from_ref(&planned), &quotas_in("us-east-1", &[("L-3819A6DF", 15.0)], &[])).len(),
            1
        );
        assert_eq!(check_gangs(&[planned], &quotas_in("us-east-1", &[("L-3819A6DF", 16.0)], &[])), []);
    }

    #[test]
    fn machines_of_other_attempts_and_on_demand_are_no_gang() {
        let ddp = "vision/ddp-0123abcd";
        let on_demand = || Instance { purchase: PurchaseOption::OnDemand, ..of_gang(ddp, "1") };
        let gone = Instance { state: InstanceState::ShuttingDown, ..of_gang(ddp, "1") };
        for instances in [
            vec![of_gang(ddp, "1"), of_gang(ddp, "2"), of_gang("vision/other-0123abcd", "1")],
            vec![of_gang(ddp, "1"), gone],
            vec![on_demand(), on_demand()],
            vec![of_gang("no job", "1"), of_gang("no job", "1")],
            vec![of_gang(ddp, "x"), of_gang(ddp, "x")],
        ] {
            assert_eq!(running_gangs(&instances), [], "{instances:?}");
        }
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
