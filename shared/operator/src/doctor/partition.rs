//! The partition of the account: what Curfew lacks in it.

use model::id::Region;
use model::partition::Partition;

use super::DoctorFinding;

/// Judges the home region.
#[must_use]
pub fn check(home: &Region) -> Vec<DoctorFinding> {
    let partition = match Partition::supported(home.as_str()) {
        Ok(partition) => partition,
        Err(refusal) => {
            let remedy = "deploy Curfew in a region of a partition that it supports";
            return vec![DoctorFinding::problem(home, refusal.to_string(), remedy)];
        }
    };
    let lack = match (partition.has_price_list, partition.is_billed_in_usd) {
        (true, true) => return Vec::new(),
        (false, true) => {
            "on-demand prices are those of a dated table, because the Price List has no endpoint in this partition"
        }
        (_, false) => "all prices are unknown, because AWS bills in another currency than USD in this partition",
    };
    let found = format!("{lack} ({}): budgets and reports list use without a price as such", partition.name);
    vec![DoctorFinding::note(home, found, "see Partitions in docs/deploy.md")]
}

#[cfg(test)]
mod tests {
    use crate::doctor::FindingSeverity;

    fn check(home: &str, expect: Option<(FindingSeverity, &str)>) {
        let findings = super::check(&home.into());
        let found = findings.first().map(|finding| (finding.severity, finding.found.as_str()));
        match (found, expect) {
            (None, None) => {}
            (Some((severity, found)), Some((expected, words))) => {
                assert!(severity == expected && found.contains(words), "{found}");
            }
            (found, expect) => panic!("{found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn a_partition_is_refused_or_its_gaps_are_noted() {
        check("us-east-1", None);
        check("us-gov-west-1", Some((FindingSeverity::Note, "the Price List has no endpoint")));
        check("cn-north-1", Some((FindingSeverity::Note, "another currency than USD")));
        check("eusc-de-east-1", Some((FindingSeverity::Problem, "aws-eusc, which Curfew does not support")));
    }
}
