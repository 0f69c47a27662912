//! The quota of vCPUs that counts an instance. A launch that a quota refused does not say which one it was.
//!
//! Service Quotas says it by the name of each quota ("All P5 Spot Instance Requests", "Running On-Demand G and VT instances") and by the
//! class of its usage metric ("P5/Spot", "G/OnDemand"): `ListServiceQuotas` (Service Quotas API reference), "CloudWatch metrics that are
//! available for your instances" (EC2 user guide). The closest one counts: a name or class with the generation (`p5`) before one with the
//! letters alone (`p`), and of these the name first. Where AWS names none of them, the dated table of [`model::quota`] says it.

use model::id::TypeName;
use model::quota;
use model::quota::{PurchaseMarket, TABLE_DATE};

use super::{Candidate, Lifecycle, QuotaCode};

/// A quota of EC2, as Service Quotas lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedQuota {
    /// Such as `L-C4BD4855`.
    pub code: String,
    /// Such as `All P5 Spot Instance Requests`.
    pub name: String,
    /// The dimension `Class` of its usage metric, where that counts vCPUs.
    pub usage_class: Option<String>,
    /// The vCPUs that it grants.
    pub vcpus: f64,
}

/// The quota that counts a candidate, and a sentence about it: what it grants, or why only the table names it. `listed` is what Service
/// Quotas lists in the candidate's region, or why it did not.
#[must_use]
pub fn governing_quota(candidate: &Candidate, listed: Result<&[ListedQuota], &str>) -> (Option<QuotaCode>, String) {
    let region = &candidate.region;
    let by_table = |why: String| match &candidate.quota {
        Some(quota) => (Some(quota.clone()), format!("{} is the quota by the table of {TABLE_DATE}: {why}", quota.0)),
        None => (None, format!("which quota counts {} is not known: {why}", candidate.instance_type)),
    };
    match listed {
        Err(why) => by_table(format!("Service Quotas does not list it ({why})")),
        Ok(listed) => match closest(listed, &candidate.instance_type, market(candidate.lifecycle)) {
            Some(ListedQuota { code, name, vcpus, .. }) => {
                (Some(QuotaCode(code.clone())), format!("\"{name}\" ({code}) grants {vcpus} vCPUs in {region}"))
            }
            None => by_table(format!("Service Quotas lists none by name in {region}")),
        },
    }
}

/// Explains why a quota grants too few vCPUs for all machines of a gang, whatever else runs; `None` if it grants enough, or that is not known.
#[must_use]
pub fn too_few_vcpus(candidate: &Candidate, nodes: u8, listed: &[ListedQuota]) -> Option<(QuotaCode, String)> {
    let wanted = candidate.vcpus.checked_mul(u32::from(nodes))?;
    let ListedQuota { code, vcpus, .. } = closest(listed, &candidate.instance_type, market(candidate.lifecycle))?;
    (f64::from(wanted) > *vcpus).then(|| {
        let each = candidate.vcpus;
        (QuotaCode(code.clone()), format!("{nodes} × {each} = {wanted} vCPUs of {code}, {vcpus} granted"))
    })
}

/// Returns the quota by the table.
pub(super) fn tabled_quota(instance_type: &TypeName, lifecycle: Lifecycle) -> Option<QuotaCode> {
    quota::code(instance_type, market(lifecycle)).map(|code| QuotaCode(code.to_owned()))
}

const fn market(lifecycle: Lifecycle) -> PurchaseMarket {
    match lifecycle {
        Lifecycle::Spot => PurchaseMarket::Spot,
        Lifecycle::OnDemand => PurchaseMarket::OnDemand,
    }
}

fn closest<'a>(listed: &'a [ListedQuota], instance_type: &TypeName, market: PurchaseMarket) -> Option<&'a ListedQuota> {
    let (letters, generation) = family(instance_type.as_str());
    let exact = format!("{letters}{generation}");
    let closeness = |quota: &ListedQuota| {
        let named = families_of_name(&quota.name, market);
        let classed = quota.usage_class.as_deref().and_then(|class| family_of_class(class, market));
        [
            named.contains(&exact),
            classed.as_ref() == Some(&exact),
            named.contains(&letters),
            classed.as_ref() == Some(&letters),
        ]
        .into_iter()
        .position(|is_close| is_close)
    };
    let close = listed.iter().filter_map(|quota| Some((closeness(quota)?, quota)));
    close.min_by_key(|(closeness, _)| *closeness).map(|(_, quota)| quota)
}

/// `p5en.48xlarge` is of `p`, and of its 5th generation. `gr` are machines of `g` with more memory, and count as these.
fn family(instance_type: &str) -> (String, String) {
    let digits = instance_type.find(|one: char| one.is_ascii_digit()).unwrap_or(instance_type.len());
    let (letters, rest) = instance_type.split_at(digits);
    let generation = rest.chars().take_while(char::is_ascii_digit).collect();
    (if letters == "gr" { "g" } else { letters }.to_owned(), generation)
}

/// The families that a quota names, where it is of that market: `p4`, `p3` and `p2`, or `g` and `vt`.
fn families_of_name(name: &str, market: PurchaseMarket) -> Vec<String> {
    let families = match market {
        PurchaseMarket::Spot => name.strip_prefix("All ").and_then(|rest| rest.strip_suffix(" Spot Instance Requests")),
        PurchaseMarket::OnDemand => {
            name.strip_prefix("Running On-Demand ").and_then(|rest| rest.strip_suffix(" instances"))
        }
    };
    // "Standard (A, C, D, H, I, M, R, T, Z)" lists families as well.
    let families = families.unwrap_or_default().trim_start_matches("Standard (").trim_end_matches(')');
    let families = families.to_ascii_lowercase().replace(" and ", ", ");
    families.split(", ").filter(|family| !family.is_empty()).map(str::to_owned).collect()
}

/// `p5` of `P5/Spot`.
fn family_of_class(class: &str, market: PurchaseMarket) -> Option<String> {
    let (family, bought) = class.split_once('/')?;
    let expected = match market {
        PurchaseMarket::Spot => "Spot",
        PurchaseMarket::OnDemand => "OnDemand",
    };
    (bought == expected).then(|| family.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::{noon_plus, ranking};

    #[test]
    fn a_gang_needs_the_vcpus_of_all_its_machines() {
        let candidate =
            Candidate { vcpus: 48, instance_type: "g6.12xlarge".into(), ..ranking(noon_plus(0)).candidates[0].clone() };
        let granted = |vcpus| ListedQuota {
            code: "L-3819A6DF".to_owned(),
            name: "All G and VT Spot Instance Requests".to_owned(),
            usage_class: None,
            vcpus,
        };
        let refused = |nodes, vcpus| too_few_vcpus(&candidate, nodes, &[granted(vcpus)]).map(|(_, why)| why);
        assert_eq!(refused(4, 96.0).as_deref(), Some("4 × 48 = 192 vCPUs of L-3819A6DF, 96 granted"));
        assert_eq!((refused(2, 96.0), refused(4, f64::NAN)), (None, None));
        assert_eq!(too_few_vcpus(&candidate, 4, &[]), None);
    }

    /// Quotas as AWS lists them in 2026: name, code, class of the usage metric.
    const LISTED: [(&str, &str, &str); 9] = [
        ("All G and VT Spot Instance Requests", "L-3819A6DF", "G/Spot"),
        ("All P4, P3 and P2 Spot Instance Requests", "L-7212CCBC", "P/Spot"),
        ("All P5 Spot Instance Requests", "L-C4BD4855", "P5/Spot"),
        ("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "L-34B43A08", "Standard/Spot"),
        ("All Trn Spot Instance Requests", "L-6B0D517C", ""),
        ("Running On-Demand G and VT instances", "L-DB2E81BA", "G/OnDemand"),
        ("Running On-Demand P instances", "L-417A185B", "P/OnDemand"),
        ("Running Dedicated p5 Hosts", "L-8E60B0B1", ""),
        ("Running On-Demand DL instances", "L-6E869C2A", "DL/OnDemand"),
    ];

    fn listed(quotas: &[(&str, &str, &str)]) -> Vec<ListedQuota> {
        let one = |(name, code, class): &(&str, &str, &str)| ListedQuota {
            code: (*code).to_owned(),
            name: (*name).to_owned(),
            usage_class: Some((*class).to_owned()).filter(|class| !class.is_empty()),
            vcpus: 96.0,
        };
        quotas.iter().map(one).collect()
    }

    fn candidate(name: &str, lifecycle: Lifecycle) -> Candidate {
        let quota = tabled_quota(&name.into(), lifecycle);
        Candidate { instance_type: name.into(), lifecycle, quota, ..ranking(noon_plus(0)).candidates[0].clone() }
    }

    fn check(quotas: &[(&str, &str, &str)], name: &str, lifecycle: Lifecycle, expect: Option<&str>) {
        let (quota, words) = governing_quota(&candidate(name, lifecycle), Ok(&listed(quotas)));
        assert_eq!(quota.as_ref().map(|quota| quota.0.as_str()), expect, "{name} {lifecycle:?}: {words}");
    }

    #[test]
    fn its_name_says_what_a_quota_counts() {
        let spot = |name, expect| check(&LISTED, name, Lifecycle::Spot, Some(expect));
        spot("g5.xlarge", "L-3819A6DF");
        spot("gr6.4xlarge", "L-3819A6DF");
        spot("vt1.3xlarge", "L-3819A6DF");
        spot("p4d.24xlarge", "L-7212CCBC");
        spot("p5en.48xlarge", "L-C4BD4855");
        spot("trn1n.32xlarge", "L-6B0D517C");
        let on_demand = |name, expect| check(&LISTED, name, Lifecycle::OnDemand, Some(expect));
        on_demand("g6e.12xlarge", "L-DB2E81BA");
        on_demand("p5.48xlarge", "L-417A185B");
        on_demand("p6-b200.48xlarge", "L-417A185B");
        on_demand("dl1.24xlarge", "L-6E869C2A");
    }

    #[test]
    fn without_a_matching_name_the_usage_metric_decides() {
        check(&LISTED, "p6-b200.48xlarge", Lifecycle::Spot, Some("L-7212CCBC"));
        check(&[("Renamed", "L-NEW", "P5/Spot"), LISTED[1]], "p5.48xlarge", Lifecycle::Spot, Some("L-NEW"));
    }

    #[test]
    fn service_quotas_override_the_table() {
        let p6 = ("All P6 Spot Instance Requests", "L-P6", "P6/Spot");
        check(&[LISTED[1], p6, LISTED[2]], "p6-b300.48xlarge", Lifecycle::Spot, Some("L-P6"));
        let all_p = ("All P Spot Instance Requests", "L-ALLP", "P/Spot");
        check(&[all_p], "p5.48xlarge", Lifecycle::Spot, Some("L-ALLP"));
        let g7 = ("All G7 Spot Instance Requests", "L-G7", "");
        check(&[LISTED[0], g7], "g7e.2xlarge", Lifecycle::Spot, Some("L-G7"));
    }

    #[test]
    fn without_a_match_the_dated_table_decides() {
        check(&LISTED[5..], "p5.48xlarge", Lifecycle::Spot, Some("L-C4BD4855"));
        check(&LISTED[5..], "p6-b200.48xlarge", Lifecycle::Spot, None);
        check(&[], "g5.xlarge", Lifecycle::OnDemand, Some("L-DB2E81BA"));
    }

    #[test]
    fn the_granted_quota_is_named_or_why_it_is_unknown() {
        let (p5, p6) = (candidate("p5.48xlarge", Lifecycle::Spot), candidate("p6-b200.48xlarge", Lifecycle::Spot));
        let words = |candidate: &Candidate, listed: Result<&[ListedQuota], &str>| governing_quota(candidate, listed).1;
        assert_eq!(
            words(&p5, Ok(&listed(&LISTED))),
            "\"All P5 Spot Instance Requests\" (L-C4BD4855) grants 96 vCPUs in us-east-1"
        );
        assert_eq!(
            words(&p5, Ok(&[])),
            "L-C4BD4855 is the quota by the table of 2026-11-22: Service Quotas lists none by name in us-east-1"
        );
        assert_eq!(
            words(&p5, Err("AccessDenied")),
            "L-C4BD4855 is the quota by the table of 2026-11-22: Service Quotas does not list it (AccessDenied)"
        );
        assert_eq!(
            words(&p6, Err("AccessDenied")),
            "which quota counts p6-b200.48xlarge is not known: Service Quotas does not list it (AccessDenied)"
        );
    }
}
