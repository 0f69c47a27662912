//! The hosts of services, by the rules that the SDK of each service has (`endpoint-rule-set-1.json` of botocore 1.44): region and partition,
//! FIPS, dual stack, and the endpoints that a configuration names.

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;
use model::fault::InvalidValue;
use model::partition::Partition;

/// A service that Curfew calls without its SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwsService {
    ApplicationAutoScaling,
    CloudFormation,
    CostExplorer,
    Ecr,
    EventBridge,
    Fsx,
    Iam,
    Lambda,
    Organizations,
    Pricing,
    ResourceGroupsTagging,
    SageMaker,
    SavingsPlans,
    SecretsManager,
    ServiceQuotas,
    Ses,
    Ssm,
}

/// The kind of host that a configuration asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointVariant {
    pub(crate) is_fips: bool,
    pub(crate) is_dual_stack: bool,
}

impl AwsService {
    /// `serviceId` of its model: `AWS_ENDPOINT_URL_SECRETS_MANAGER` is that of `Secrets Manager` (AWS SDKs and tools reference guide,
    /// "Service-specific endpoints").
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::ApplicationAutoScaling => "Application Auto Scaling",
            Self::CloudFormation => "CloudFormation",
            Self::CostExplorer => "Cost Explorer",
            Self::Ecr => "ECR",
            Self::EventBridge => "EventBridge",
            Self::Fsx => "FSx",
            Self::Iam => "IAM",
            Self::Lambda => "Lambda",
            Self::Organizations => "Organizations",
            Self::Pricing => "Pricing",
            Self::ResourceGroupsTagging => "Resource Groups Tagging API",
            Self::SageMaker => "SageMaker",
            Self::SavingsPlans => "savingsplans",
            Self::SecretsManager => "Secrets Manager",
            Self::ServiceQuotas => "Service Quotas",
            Self::Ses => "SESv2",
            Self::Ssm => "SSM",
        }
    }

    pub(crate) const fn signing_name(self) -> &'static str {
        match self {
            Self::ApplicationAutoScaling => "application-autoscaling",
            Self::CloudFormation => "cloudformation",
            Self::CostExplorer => "ce",
            Self::Ecr => "ecr",
            Self::EventBridge => "events",
            Self::Fsx => "fsx",
            Self::Iam => "iam",
            Self::Lambda => "lambda",
            Self::Organizations => "organizations",
            Self::Pricing => "pricing",
            Self::ResourceGroupsTagging => "tagging",
            Self::SageMaker => "sagemaker",
            Self::SavingsPlans => "savingsplans",
            Self::SecretsManager => "secretsmanager",
            Self::ServiceQuotas => "servicequotas",
            Self::Ses => "ses",
            Self::Ssm => "ssm",
        }
    }

    /// The host without a configured endpoint.
    pub(crate) fn host(self, partition: &Partition, region: &str, variant: EndpointVariant) -> String {
        let EndpointVariant { is_fips, is_dual_stack } = variant;
        let is_gov = partition.name == "aws-us-gov";
        let is_china = partition.name == "aws-cn";
        let is_american = is_gov || partition.name == "aws";
        let fips = if is_fips { "-fips" } else { "" };
        let service = match self {
            Self::Ecr if is_dual_stack => format!("ecr{fips}"),
            Self::Ecr => format!("api.ecr{fips}"),
            Self::SageMaker if is_fips && is_american && !is_dual_stack => "api-fips.sagemaker".to_owned(),
            Self::SageMaker => format!("api.sagemaker{fips}"),
            // The usual hosts in GovCloud are those with FIPS.
            Self::ApplicationAutoScaling | Self::CloudFormation | Self::ServiceQuotas | Self::Ssm
                if is_gov && !is_dual_stack =>
            {
                self.signing_name().to_owned()
            }
            Self::EventBridge | Self::Iam | Self::Organizations if is_gov => self.signing_name().to_owned(),
            Self::Pricing => format!("api.pricing{fips}"),
            Self::Ses => format!("email{fips}"),
            _ => format!("{}{fips}", self.signing_name()),
        };
        // Its usual hosts are dual stack, but for FIPS in China.
        let is_always_dual = self == Self::SecretsManager && (is_american || is_china && !is_fips);
        let suffix = if is_dual_stack && !is_always_dual { partition.dual_stack_suffix } else { partition.dns_suffix };
        let place = match self {
            Self::Iam if is_gov => "us-gov.",
            Self::Iam if is_china && is_fips => "",
            Self::Iam if is_dual_stack => "global.",
            Self::Iam if !is_china => "",
            Self::SavingsPlans if partition.name == "aws" && is_dual_stack && !is_fips => "global.",
            Self::SavingsPlans if partition.name == "aws" && !is_fips => "",
            _ => &format!("{}.", self.region(partition, region, is_fips)),
        };
        format!("{service}.{place}{suffix}")
    }

    /// The region that a signature names. Each partition has one for Cost Explorer, one for IAM, and one for Organizations; Savings Plans has one in the commercial
    /// partition, but for FIPS.
    pub(crate) fn region<'a>(self, partition: &'a Partition, region: &'a str, is_fips: bool) -> &'a str {
        match self {
            Self::Iam if partition.name == "aws-cn" => "cn-north-1",
            Self::SavingsPlans if partition.name == "aws" && !is_fips => partition.global_region,
            Self::CostExplorer | Self::Iam | Self::Organizations => partition.global_region,
            _ => region,
        }
    }

    /// The URL for a call in that region.
    ///
    /// # Errors
    /// If Curfew does not support the partition, or the configuration names both an endpoint and FIPS, which the SDKs refuse as well.
    pub(crate) fn endpoint(self, region: &str, config: &SdkConfig) -> Result<String, InvalidValue> {
        let variant = EndpointVariant {
            is_fips: config.use_fips().unwrap_or_default(),
            is_dual_stack: config.use_dual_stack().unwrap_or_default(),
        };
        match self.configured(config) {
            None => Ok(format!("https://{}", self.host(Partition::supported(region)?, region, variant))),
            Some(url) if variant.is_fips => Err(InvalidValue::new(format!(
                "a FIPS endpoint is asked for, and the configuration names the endpoint {url}: unset AWS_USE_FIPS_ENDPOINT or the endpoint"
            ))),
            Some(url) => Ok(url),
        }
    }

    /// The endpoint that code names, or the environment or the profile for this service, or for all services.
    fn configured(self, config: &SdkConfig) -> Option<String> {
        let for_all = || config.endpoint_url().map(str::to_owned);
        if config.get_origin("endpoint_url").is_client_config() {
            return for_all();
        }
        let key =
            ServiceConfigKey::builder().service_id(self.id()).env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
        let own = config.service_config().zip(key.ok()).and_then(|(settings, key)| settings.load_config(key));
        own.or_else(for_all)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use aws_config::Region;
    use aws_types::service_config::LoadServiceConfig;

    use super::*;

    /// The hosts that botocore has; `integration/tests/test_endpoints.py` compares it with the installed one.
    const HOSTS: &str = include_str!("endpoint/hosts.txt");

    const SERVICES: [AwsService; 17] = [
        AwsService::ApplicationAutoScaling,
        AwsService::CloudFormation,
        AwsService::CostExplorer,
        AwsService::Ecr,
        AwsService::EventBridge,
        AwsService::Fsx,
        AwsService::Iam,
        AwsService::Lambda,
        AwsService::Organizations,
        AwsService::Pricing,
        AwsService::ResourceGroupsTagging,
        AwsService::SageMaker,
        AwsService::SavingsPlans,
        AwsService::SecretsManager,
        AwsService::ServiceQuotas,
        AwsService::Ses,
        AwsService::Ssm,
    ];

    #[test]
    fn the_hosts_are_those_of_the_sdks() {
        let mut expect = String::new();
        for service in SERVICES {
            for region in ["us-east-1", "ap-southeast-9", "us-gov-west-1", "cn-north-1"] {
                for (is_fips, is_dual_stack) in [(false, false), (true, false), (false, true), (true, true)] {
                    let variant = EndpointVariant { is_fips, is_dual_stack };
                    let partition = Partition::find(region).unwrap();
                    let host = service.host(partition, region, variant);
                    let signed = service.region(partition, region, is_fips);
                    let fips = if is_fips { "fips" } else { "-" };
                    let stack = if is_dual_stack { "dual" } else { "-" };
                    writeln!(expect, "{} | {region} | {fips} | {stack} | {host} | {signed}", service.id()).unwrap();
                }
            }
        }
        assert_eq!(HOSTS, expect);
    }

    #[derive(Debug)]
    struct OwnEndpoint(&'static str);

    impl LoadServiceConfig for OwnEndpoint {
        fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
            let is_own = (key.service_id(), key.env()) == (self.0, "AWS_ENDPOINT_URL");
            is_own.then(|| "http://own".to_owned())
        }
    }

    fn check(config: aws_types::sdk_config::Builder, region: &str, expect: Result<&str, &str>) {
        let config = config.region(Region::new("us-east-1")).build();
        match (AwsService::SecretsManager.endpoint(region, &config), expect) {
            (Ok(url), Ok(expect)) => assert_eq!(url, expect),
            (Err(why), Err(expect)) => assert!(why.to_string().contains(expect), "{why}"),
            (found, expect) => panic!("{found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn the_configuration_chooses_the_endpoint() {
        let config = SdkConfig::builder;
        check(config(), "eu-west-1", Ok("https://secretsmanager.eu-west-1.amazonaws.com"));
        check(config().use_fips(true), "us-west-2", Ok("https://secretsmanager-fips.us-west-2.amazonaws.com"));
        let own = || OwnEndpoint("Secrets Manager");
        check(config().endpoint_url("http://all"), "eu-west-1", Ok("http://all"));
        check(config().endpoint_url("http://all").service_config(own()), "eu-west-1", Ok("http://own"));
        let other = OwnEndpoint("SSM");
        check(config().endpoint_url("http://all").service_config(other), "eu-west-1", Ok("http://all"));
        check(config().service_config(own()).use_fips(true), "eu-west-1", Err("the endpoint http://own"));
    }

    #[test]
    fn a_partition_that_is_not_supported_has_no_endpoint() {
        check(SdkConfig::builder(), "eusc-de-east-1", Err("which Curfew does not support"));
        check(SdkConfig::builder(), "evil.example/", Err("there is no region"));
    }
}
