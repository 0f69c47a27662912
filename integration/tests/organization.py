"""Several accounts of one organization: the hub, whose credentials a test has, and members, each with builders of its own.

    company = Organization(aws)
    member = company.member("111122223333", "research")
    gpu = member.idle(member.gpu())
    said = company.scan("--json")

Moto takes the account from the credentials, and gives credentials of any role that is asked for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import boto3
from moto.ec2.models import ec2_backends
from moto.organizations.models import FakeAccount, organizations_backends

from command import Said, curfew
from local_aws import LocalAws
from local_aws.client import ACCOUNT, REGION
from reaping import Account

HUB = ACCOUNT
ROLE = "curfew-look"


class MemberAws(LocalAws):
    """The same local AWS with the credentials of another account."""

    def __init__(self, aws: LocalAws, account: str) -> None:
        super().__init__(aws.endpoint)
        self.account = account
        role = f"arn:aws:iam::{account}:role/setup"
        self._credentials = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="setup")["Credentials"]

    def _client(self, service: str, region: str = REGION) -> Any:
        own = self._credentials
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=own["AccessKeyId"],
            aws_secret_access_key=own["SecretAccessKey"],
            aws_session_token=own["SessionToken"],
        )

    def set_instance(self, instance: str, region: str = REGION, **fields: Any) -> None:
        """The back door knows the hub's instances alone."""
        launched: datetime = fields.pop("launch_time")
        assert not fields, "extend set_instance"
        ec2_backends[self.account][region].get_instance(instance).launch_time = launched.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Member(Account):
    """Builders for what stands in an account in which nothing is deployed."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws

    def volume(self, size: int = 500, region: str = REGION) -> str:
        return self.aws.create_volume(size, {"Team": "vision", "Owner": "ada"}, region)


class Organization:
    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        aws.fault("cloudformation:DescribeStackResources", "custom", code="ValidationError", message="Stack with id curfew does not exist", times=None)
        aws.client("organizations").create_organization(FeatureSet="ALL")
        self.hub = Member(aws)
        self._backend = organizations_backends[HUB]["aws"]

    def member(self, account: str, name: str = "research") -> Member:
        """An active account of the organization."""
        listed = FakeAccount(self._backend.org, AccountName=name, Email=f"{account}@example.com")
        listed.id = account
        self._backend.accounts.append(listed)
        return Member(MemberAws(self.aws, account))

    def suspend(self, account: str) -> None:
        self._backend.get_account_by_id(account).close()

    def refuse(self, account: str) -> None:
        """Its role does not exist, or does not trust the hub."""
        self.aws.fault("sts:AssumeRole", "access_denied", match=account, times=None)

    def scan(self, *arguments: str) -> Said:
        return curfew(self.aws.environment(), "scan", "--organization", *arguments)
