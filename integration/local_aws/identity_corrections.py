"""Who asks. Credentials that moto's IAM has not given anybody are those of the account's root user, and no policy of a bucket is enforced.

Moto takes the former for a user of STS, which AWS does not have (AWS STS API reference, "GetCallerIdentity": the ARN is that of a user, of
an assumed role, of a federated user, or of the root user). Of a bucket's policy it ignores the conditions, so that what is denied under
one is denied to everybody.
"""

from __future__ import annotations

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket
from moto.sts.models import STSBackend

_moto_identity = STSBackend.get_caller_identity


def apply() -> None:
    def get_caller_identity(self: STSBackend, access_key_id: str, region: str) -> tuple[str, str, str]:
        user_id, arn, account = _moto_identity(self, access_key_id, region)
        return (account, f"arn:aws:iam::{account}:root", account) if arn.endswith(":user/moto") else (user_id, arn, account)

    STSBackend.get_caller_identity = get_caller_identity
    FakeBucket.get_permission = lambda self, action, resource: PermissionResult.NEUTRAL
