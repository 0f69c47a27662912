"""The hosts of services that Curfew calls without their SDK: those of botocore, which has the endpoint rules of all SDKs."""

from __future__ import annotations

from pathlib import Path

from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import Loader

HOSTS = Path(__file__).parents[2] / "shared/signed_call/src/endpoint/hosts.txt"
SERVICES = (
    "application-autoscaling",
    "cloudformation",
    "ce",
    "ecr",
    "events",
    "fsx",
    "iam",
    "lambda",
    "organizations",
    "pricing",
    "resourcegroupstaggingapi",
    "sagemaker",
    "savingsplans",
    "secretsmanager",
    "service-quotas",
    "sesv2",
    "ssm",
)
REGIONS = ("us-east-1", "ap-southeast-9", "us-gov-west-1", "cn-north-1")


def hosts() -> str:
    loader, lines = Loader(), []
    partitions = loader.load_data("partitions")
    for service in SERVICES:
        provider = EndpointProvider(loader.load_service_model(service, "endpoint-rule-set-1"), partitions)
        name = loader.load_service_model(service, "service-2")["metadata"]["serviceId"]
        for region in REGIONS:
            for fips, dual in ((False, False), (True, False), (False, True), (True, True)):
                endpoint = provider.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual)
                signed = endpoint.properties.get("authSchemes", [{}])[0].get("signingRegion", region)
                variant = f"{'fips' if fips else '-'} | {'dual' if dual else '-'}"
                lines.append(f"{name} | {region} | {variant} | {endpoint.url.removeprefix('https://')} | {signed}\n")
    return "".join(lines)


def test_the_hosts_are_those_of_botocore() -> None:
    assert HOSTS.read_text() == hosts(), "write what hosts() returns to it, and correct AwsService::host"
