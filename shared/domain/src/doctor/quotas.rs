//! How many vCPUs of GPU instances EC2 gives this account, by region and family (EC2 user guide, "Amazon EC2 instance type
//! quotas"; Service Quotas user guide has the codes). **Nearly used up** from 90 percent on.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Finding;
use crate::id::{Region, TypeName};
use crate::instance::{Instance, Purchase, State};

/// The check's name.
pub const CHECK: &str = "quotas";

const NEARLY_PERCENT: f64 = 90.0;

/// The families that have a quota of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Family {
    /// G and VT.
    #[serde(rename = "G and VT")]
    G,
    /// P.
    P,
    /// Trn.
    Trn,
    /// Inf.
    Inf,
    /// DL.
    #[serde(rename = "DL")]
    Dl,
}

/// How instances are bought, as far as quotas go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// By the second.
    OnDemand,
    /// Spot.
    Spot,
}

/// Every quota: its family, its market, its code.
pub const QUOTAS: [(Family, Market, &str); 10] = [
    (Family::G, Market::OnDemand, "L-DB2E81BA"),
    (Family::G, Market::Spot, "L-3819A6DF"),
    (Family::P, Market::OnDemand, "L-417A185B"),
    (Family::P, Market::Spot, "L-7212CCBC"),
    (Family::Trn, Market::OnDemand, "L-2C3B7624"),
    (Family::Trn, Market::Spot, "L-5480EFD2"),
    (Family::Inf, Market::OnDemand, "L-1945791B"),
    (Family::Inf, Market::Spot, "L-B5D1601B"),
    (Family::Dl, Market::OnDemand, "L-6E869C2A"),
    (Family::Dl, Market::Spot, "L-85EED4F7"),
];

impl Family {
    /// Every family.
    pub const ALL: [Self; 5] = [Self::G, Self::P, Self::Trn, Self::Inf, Self::Dl];

    /// As AWS calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::G => "G and VT",
            Self::P => "P",
            Self::Trn => "Trn",
            Self::Inf => "Inf",
            Self::Dl => "DL",
        }
    }

    /// Whose quota a type counts against, by the letters that its name begins with: quotas, unlike accelerators, go by name.
    #[must_use]
    pub fn of(instance_type: &TypeName) -> Option<Self> {
        let name = instance_type.as_str();
        let letters = name.find(|c: char| !c.is_ascii_lowercase()).map_or(name, |end| &name[..end]);
        match letters {
            "g" | "gr" | "vt" => Some(Self::G),
            "p" => Some(Self::P),
            "trn" => Some(Self::Trn),
            "inf" => Some(Self::Inf),
            "dl" => Some(Self::Dl),
            _ => None,
        }
    }
}

/// The code of the quota that counts a type, bought so; `None` where it has none of its own.
#[must_use]
pub fn code(instance_type: &TypeName, market: Market) -> Option<&'static str> {
    let family = Family::of(instance_type)?;
    QUOTAS.iter().find(|(of, bought, _)| *of == family && *bought == market).map(|(.., code)| *code)
}

/// One quota of one region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quota {
    /// Where.
    pub region: Region,
    /// Of what.
    pub family: Family,
    /// Bought how.
    pub market: Market,
    /// Service Quotas' code.
    pub code: &'static str,
    /// The quota in vCPUs; `None` where AWS does not tell it.
    pub vcpus: Option<f64>,
    /// How many run.
    pub used_vcpus: u32,
}

/// The quotas of regions, with what runs there: each region's values by their code.
#[must_use]
pub fn quotas(values: &BTreeMap<Region, BTreeMap<String, f64>>, instances: &[Instance]) -> Vec<Quota> {
    let of_region = |(region, values): (&Region, &BTreeMap<String, f64>)| {
        let quota = |(family, market, code): (Family, Market, &'static str)| Quota {
            region: region.clone(),
            family,
            market,
            code,
            vcpus: values.get(code).copied(),
            used_vcpus: used(instances, region, family, market),
        };
        QUOTAS.map(quota)
    };
    values.iter().flat_map(of_region).collect()
}

/// What is stopped counts nowhere, and what was paid for in advance has no quota of vCPUs.
fn used(instances: &[Instance], region: &Region, family: Family, market: Market) -> u32 {
    let counts = |one: &&Instance| {
        one.region == *region
            && matches!(one.state, State::Pending | State::Running)
            && Family::of(&one.instance_type) == Some(family)
            && market_of(one.purchase) == Some(market)
    };
    instances.iter().filter(counts).map(|one| one.machine.vcpus).sum()
}

const fn market_of(purchase: Purchase) -> Option<Market> {
    match purchase {
        Purchase::OnDemand => Some(Market::OnDemand),
        Purchase::SpotOneTime | Purchase::SpotPersistent | Purchase::SpotUnknown => Some(Market::Spot),
        Purchase::CapacityBlock => None,
    }
}

/// Judges all quotas that are known.
#[must_use]
pub fn check(quotas: &[Quota]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        QUOTAS.iter().filter_map(|(family, market, code)| nearly_used_up(quotas, *family, *market, code)).collect();
    let has_none = quotas.iter().all(|quota| quota.used_vcpus == 0 && quota.vcpus.is_none_or(|vcpus| vcpus <= 0.0));
    if !quotas.is_empty() && has_none {
        findings.push(Finding::note(
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
fn nearly_used_up(quotas: &[Quota], family: Family, market: Market, code: &str) -> Option<Finding> {
    let nearly: Vec<(&Region, u32, f64)> = quotas
        .iter()
        .filter(|quota| quota.code == code)
        .filter_map(|quota| Some((&quota.region, quota.used_vcpus, quota.vcpus?)))
        .filter(|(_, used, vcpus)| *used > 0 && f64::from(*used) * 100.0 >= vcpus * NEARLY_PERCENT)
        .collect();
    let market = match market {
        Market::OnDemand => "on-demand",
        Market::Spot => "Spot",
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
    let remedy = format!("end what is not needed, or {}", increase(region, code));
    Some(Finding::warning(at, format!("{found}: a launch may be refused"), remedy))
}

/// The families by region that are of interest to people: something may run there, or does.
#[must_use]
pub fn of_interest(quotas: &[Quota]) -> Vec<(&Region, Family)> {
    let mut found: Vec<(&Region, Family)> = quotas
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
    use crate::doctor::Severity;
    use crate::fixture::instance;

    fn of_region(region: &str, values: &[(&str, f64)], instances: &[Instance]) -> Vec<Quota> {
        let values = values.iter().map(|(code, vcpus)| ((*code).to_owned(), *vcpus)).collect();
        quotas(&BTreeMap::from([(region.into(), values)]), instances)
    }

    fn check(values: &[(&str, f64)], instances: &[Instance], expect: &[Severity]) {
        let findings = super::check(&of_region("us-east-1", values, instances));
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{values:?}: {findings:?}");
    }

    #[test]
    fn a_quota_that_is_nearly_used_up_is_a_warning() {
        let ten = vec![instance().build(); 9]; // of 4 vCPUs each
        check(&[("L-DB2E81BA", 41.0)], &ten, &[]);
        check(&[("L-DB2E81BA", 40.0)], &ten, &[Severity::Warning]);
        check(&[("L-417A185B", 40.0), ("L-DB2E81BA", 400.0)], &ten, &[]);
        check(&[("L-3819A6DF", 4.0), ("L-DB2E81BA", 400.0)], &ten, &[]);
    }

    #[test]
    fn the_regions_of_one_quota_are_one_finding() {
        let of = |region: &str, code: &str| {
            let one = Instance { region: region.into(), ..instance().build() };
            of_region(region, &[(code, 4.0)], &[one])
        };
        let all = ["us-east-1", "eu-west-1", "eu-west-2"].map(|region| of(region, "L-DB2E81BA")).concat();
        let [finding] = super::check(&all).try_into().unwrap();
        assert_eq!(finding.at, "3 regions");
        let expect = "vCPUs of G and VT (on-demand) run: 4 of 4 in us-east-1, 4 of 4 in eu-west-1, 4 of 4 in eu-west-2: a \
                      launch may be refused";
        assert_eq!(finding.found, expect);
        assert!(finding.remedy.contains("--region REGION --service-code ec2 --quota-code L-DB2E81BA"), "{finding:?}");
        let [finding] = super::check(&of("eu-west-1", "L-DB2E81BA")).try_into().unwrap();
        assert_eq!((finding.at.as_str(), finding.remedy.contains("--region eu-west-1")), ("eu-west-1", true));
    }

    #[test]
    fn no_quota_at_all_is_noted() {
        check(&[("L-DB2E81BA", 0.0)], &[], &[Severity::Note]);
        check(&[], &[], &[Severity::Note]);
        check(&[("L-DB2E81BA", 8.0)], &[], &[]);
        check(&[], &[instance().build()], &[]);
        check(&[("L-DB2E81BA", 0.0)], &[instance().build()], &[Severity::Warning]);
    }

    #[test]
    fn only_what_runs_counts_and_by_how_it_is_bought() {
        let one = || instance().build();
        let stopped = Instance { state: State::Stopped, ..one() };
        let spot = Instance { purchase: Purchase::SpotOneTime, ..one() };
        let prepaid = Instance { purchase: Purchase::CapacityBlock, ..one() };
        let elsewhere = Instance { region: "eu-west-1".into(), ..one() };
        let all = [one(), stopped, spot, prepaid, elsewhere];
        let used: Vec<u32> = of_region("us-east-1", &[], &all).iter().map(|quota| quota.used_vcpus).collect();
        assert_eq!(used, [4, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_type_counts_by_its_name() {
        let check = |name: &str, expect| assert_eq!(Family::of(&name.into()), expect, "{name}");
        check("g5.xlarge", Some(Family::G));
        check("g6e.12xlarge", Some(Family::G));
        check("gr6.4xlarge", Some(Family::G));
        check("p5en.48xlarge", Some(Family::P));
        check("p6-b200.48xlarge", Some(Family::P));
        check("trn1n.32xlarge", Some(Family::Trn));
        check("inf2.xlarge", Some(Family::Inf));
        check("dl1.24xlarge", Some(Family::Dl));
        check("m5.large", None);
    }

    #[test]
    fn regions_without_any_are_not_shown() {
        assert_eq!(of_interest(&of_region("us-east-1", &[("L-DB2E81BA", 0.0)], &[])), []);
        assert_eq!(of_interest(&of_region("us-east-1", &[("L-DB2E81BA", 8.0), ("L-3819A6DF", 8.0)], &[])).len(), 1);
        assert_eq!(of_interest(&of_region("us-east-1", &[], &[instance().build()])).len(), 1);
    }
}
