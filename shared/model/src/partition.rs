//! The partitions of AWS: what their regions, hosts and ARNs are called, and which of them Curfew supports.

use crate::fault::InvalidValue;
use crate::region::check_exists;

/// A partition: regions with hosts, accounts and ARNs of their own (AWS whitepaper "AWS Fault Isolation Boundaries", "Partitions").
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    /// The second part of its ARNs.
    pub name: &'static str,
    /// Beginnings of the names of regions, before a word and a number.
    region_prefixes: &'static [&'static str],
    /// The region of services that have only one in the partition, such as Cost Explorer.
    pub global_region: &'static str,
    /// The end of the hosts of services.
    pub dns_suffix: &'static str,
    /// The end of the hosts of services that have IPv6 addresses too.
    pub dual_stack_suffix: &'static str,
    /// False if Curfew refuses to work there.
    pub is_supported: bool,
    /// True if the Price List API has an endpoint with prices in USD.
    pub has_price_list: bool,
    /// True if AWS bills in USD, and so names Spot prices in USD.
    pub is_billed_in_usd: bool,
}

/// `partitions.json` of botocore 1.44, which all SDKs share: `regionRegex`, `implicitGlobalRegion` and the suffixes. A new region of a known form needs no change here.
/// Curfew supports the partitions whose differences AWS documents in public: "AWS `GovCloud` (US) User Guide" and "Getting started with Amazon
/// Web Services in China". The Price List has no endpoint in `GovCloud`, and in China its prices are in CNY. Of partitions without support nothing
/// is known about money.
static PARTITIONS: [Partition; 8] = [
    Partition {
        name: "aws",
        region_prefixes: &["us-", "eu-", "ap-", "sa-", "ca-", "me-", "af-", "il-", "mx-"],
        global_region: "us-east-1",
        dns_suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        is_supported: true,
        has_price_list: true,
        is_billed_in_usd: true,
    },
    Partition {
        name: "aws-us-gov",
        region_prefixes: &["us-gov-"],
        global_region: "us-gov-west-1",
        dns_suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        is_supported: true,
        has_price_list: false,
        is_billed_in_usd: true,
    },
    Partition {
        name: "aws-cn",
        region_prefixes: &["cn-"],
        global_region: "cn-northwest-1",
        dns_suffix: "amazonaws.com.cn",
        dual_stack_suffix: "api.amazonwebservices.com.cn",
        is_supported: true,
        has_price_list: false,
        is_billed_in_usd: false,
    },
    Partition {
        name: "aws-eusc",
        region_prefixes: &["eusc-de-"],
        global_region: "eusc-de-east-1",
        dns_suffix: "amazonaws.eu",
        dual_stack_suffix: "api.amazonwebservices.eu",
        is_supported: false,
        has_price_list: false,
        is_billed_in_usd: false,
    },
    Partition {
        name: "aws-iso",
        region_prefixes: &["us-iso-"],
        global_region: "us-iso-east-1",
        dns_suffix: "c2s.ic.gov",
        dual_stack_suffix: "api.aws.ic.gov",
        is_supported: false,
        has_price_list: false,
        is_billed_in_usd: false,
    },
    Partition {
        name: "aws-iso-b",
        region_prefixes: &["us-isob-"],
        global_region: "us-isob-east-1",
        dns_suffix: "sc2s.sgov.gov",
        dual_stack_suffix: "api.aws.scloud",
        is_supported: false,
        has_price_list: false,
        is_billed_in_usd: false,
    },
    Partition {
        name: "aws-iso-e",
        region_prefixes: &["eu-isoe-"],
        global_region: "eu-isoe-west-1",
        dns_suffix: "cloud.adc-e.uk",
        dual_stack_suffix: "api.cloud-aws.adc-e.uk",
        is_supported: false,
        has_price_list: false,
        is_billed_in_usd: false,
    },
    Partition {
        name: "aws-iso-f",
        region_prefixes: &["us-isof-"],
        global_region: "us-isof-south-1",
        dns_suffix: "csp.hci.ic.gov",
        dual_stack_suffix: "api.aws.hci.ic.gov",
        is_supported: false,
        has_price_list: false,
        is_billed_in_usd: false,
    },
];

impl Partition {
    /// The partition of a region, by the form of its name; `None` if no partition has regions of that form.
    #[must_use]
    pub fn find(region: &str) -> Option<&'static Self> {
        let is_own = |prefix: &&str| region.strip_prefix(*prefix).is_some_and(is_word_and_number);
        PARTITIONS.iter().find(|partition| partition.region_prefixes.iter().any(is_own))
    }

    /// The partition of a region in which Curfew works.
    ///
    /// # Errors
    /// If no partition has regions of that form, or Curfew does not support the partition.
    pub fn supported(region: &str) -> Result<&'static Self, InvalidValue> {
        let Some(partition) = Self::find(region) else {
            // Every listed region has a partition, so this one is not listed, and the refusal names what may be meant.
            let unknown = || InvalidValue::new(format!("there is no region {region}"));
            return Err(check_exists(&region.into(), &[]).err().unwrap_or_else(unknown));
        };
        if partition.is_supported {
            return Ok(partition);
        }
        let supported: Vec<&str> = PARTITIONS.iter().filter(|one| one.is_supported).map(|one| one.name).collect();
        Err(InvalidValue::new(format!(
            "{region} is in the partition {}, which Curfew does not support; it supports {}",
            partition.name,
            supported.join(", ")
        )))
    }

    /// The end of the hosts with IPv6 addresses that belong to one account, such as registries: `on.aws` beside `api.aws` (Amazon ECR user guide,
    /// "Making requests to Amazon ECR registries"; kubernetes/cloud-provider-aws has the same pair for every partition).
    #[must_use]
    pub fn dual_stack_account_suffix(&self) -> String {
        format!("on.{}", self.dual_stack_suffix.trim_start_matches("api."))
    }
}

/// `west-1`: how the patterns of botocore end.
fn is_word_and_number(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(word, number)| is_word(word) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(region: &str, expect: Option<&str>) {
        assert_eq!(Partition::find(region).map(|partition| partition.name), expect, "{region}");
    }

    #[test]
    fn a_region_has_the_partition_of_its_form() {
        check("us-east-1", Some("aws"));
        check("ap-southeast-9", Some("aws"));
        check("us-gov-west-1", Some("aws-us-gov"));
        check("cn-northwest-1", Some("aws-cn"));
        check("eusc-de-east-1", Some("aws-eusc"));
        check("us-iso-west-1", Some("aws-iso"));
        check("us-isob-east-1", Some("aws-iso-b"));
        check("eu-isoe-west-1", Some("aws-iso-e"));
        check("us-isof-south-1", Some("aws-iso-f"));
    }

    #[test]
    fn a_region_of_another_form_has_none() {
        for region in [
            "",
            "us",
            "us-east",
            "us-east-",
            "us--1",
            "us-east-1a",
            "us-east-1-",
            "US-EAST-1",
            "eusc-fr-east-1",
            "us-mil-east-1",
            "nowhere-1",
            "xx-north-1",
            "us-east-1.evil.example/",
            "us-e/st-1",
            "us-east-\u{661}",
            "us-east-1\n",
        ] {
            check(region, None);
        }
    }

    #[test]
    fn what_curfew_does_not_support_is_refused() {
        let check = |region: &str, expect: Result<&str, &str>| {
            let found = Partition::supported(region);
            match (&found, expect) {
                (Ok(partition), Ok(name)) => assert_eq!(partition.name, name),
                (Err(refusal), Err(words)) => assert!(refusal.to_string().contains(words), "{refusal}"),
                _ => panic!("{found:?}, not {expect:?}"),
            }
        };
        check("eu-central-1", Ok("aws"));
        check("us-gov-east-1", Ok("aws-us-gov"));
        check("cn-north-1", Ok("aws-cn"));
        check(
            "eusc-de-east-1",
            Err("is in the partition aws-eusc, which Curfew does not support; it supports aws, aws-us-gov, aws-cn"),
        );
        check("us-iso-east-1", Err("the partition aws-iso,"));
        check("us-east", Err("there is no region us-east"));
        check("us-east-1a", Err("did you mean us-east-1?"));
    }

    #[test]
    fn the_hosts_of_accounts_have_an_end_of_their_own() {
        let check = |region: &str, expect: &str| {
            assert_eq!(Partition::find(region).unwrap().dual_stack_account_suffix(), expect);
        };
        check("us-east-1", "on.aws");
        check("cn-north-1", "on.amazonwebservices.com.cn");
        check("eu-isoe-west-1", "on.cloud-aws.adc-e.uk");
    }
}
