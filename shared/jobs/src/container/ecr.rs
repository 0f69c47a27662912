//! Private registries of Amazon ECR, by their hosts.

use model::partition::Partition;

/// A private registry of Amazon ECR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EcrRegistry {
    pub account: String,
    pub region: String,
    /// True for a host with FIPS, whose password comes from an endpoint with FIPS as well.
    pub is_fips: bool,
}

/// The hosts with IPv4 addresses alone, and those with both (Amazon ECR user guide, "Making requests to Amazon ECR registries"; AWS general
/// reference, "Amazon ECR endpoints and quotas").
const KINDS: [HostKind; 4] = [
    HostKind { service: ".dkr.ecr.", is_fips: false, is_dual_stack: false },
    HostKind { service: ".dkr.ecr-fips.", is_fips: true, is_dual_stack: false },
    HostKind { service: ".dkr-ecr.", is_fips: false, is_dual_stack: true },
    HostKind { service: ".dkr-ecr-fips.", is_fips: true, is_dual_stack: true },
];

struct HostKind {
    service: &'static str,
    is_fips: bool,
    is_dual_stack: bool,
}

impl EcrRegistry {
    /// The registry of a host; `None` if it is not exactly one of Amazon ECR's: a password of the machine's role goes to it.
    pub(super) fn find(host: &str) -> Option<Self> {
        KINDS.iter().find_map(|kind| {
            let (account, rest) = host.split_once(kind.service)?;
            let (region, suffix) = rest.split_once('.')?;
            let partition = Partition::find(region)?;
            let is_own = if kind.is_dual_stack {
                suffix == partition.dual_stack_account_suffix()
            } else {
                suffix == partition.dns_suffix
            };
            let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
            (is_own && is_account).then(|| Self {
                account: account.to_owned(),
                region: region.to_owned(),
                is_fips: kind.is_fips,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, expect: Option<(&str, bool)>) {
        let expect = expect.map(|(region, is_fips)| EcrRegistry {
            account: "123456789012".to_owned(),
            region: region.to_owned(),
            is_fips,
        });
        assert_eq!(EcrRegistry::find(host), expect, "{host}");
    }

    #[test]
    fn a_registry_has_four_hosts() {
        check("123456789012.dkr.ecr.eu-west-1.amazonaws.com", Some(("eu-west-1", false)));
        check("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com", Some(("us-east-1", true)));
        check("123456789012.dkr-ecr.us-west-2.on.aws", Some(("us-west-2", false)));
        check("123456789012.dkr-ecr-fips.us-gov-west-1.on.aws", Some(("us-gov-west-1", true)));
        check("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", Some(("cn-north-1", false)));
        check("123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", Some(("cn-north-1", false)));
        check("123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu", Some(("eusc-de-east-1", false)));
    }

    #[test]
    fn no_other_host_gets_a_password() {
        for host in [
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example",
            "123456789012.dkr-ecr.eu-west-1.on.aws.evil.example",
            "evil.example.123456789012.dkr.ecr.eu-west-1.amazonaws.com",
            "123456789012.dkr.ecr.eu-west-1.evil.example",
            "123456789012.dkr.ecr.evil.amazonaws.com",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com.cn",
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com",
            "123456789012.dkr-ecr.cn-north-1.on.aws",
            "123456789012.dkr-ecr.eu-west-1.amazonaws.com",
            "123456789012.dkr.ecr.eu-west-1.on.aws",
            "123456789012.dkr-ecr.eu-west-1.api.aws",
            "123456789012.dkr.ecr-fipsy.eu-west-1.amazonaws.com",
            "123456789012.dkr.ecr.dkr.ecr.eu-west-1.amazonaws.com",
            "12345678901.dkr.ecr.eu-west-1.amazonaws.com",
            "1234567890123.dkr.ecr.eu-west-1.amazonaws.com",
            "x.dkr.ecr.eu-west-1.amazonaws.com",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com:443",
            "123456789012.DKR.ECR.eu-west-1.amazonaws.com",
            "public.ecr.aws",
            "",
        ] {
            check(host, None);
        }
    }
}
