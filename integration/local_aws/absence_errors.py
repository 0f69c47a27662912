"""What a machine is told of an absent object or secret: that it may not read it.

An absent object is 404 to a caller that may list the bucket, and else 403 ("GetObject" and "HeadObject", Permissions, Amazon S3 API reference). The
role of a job's machine may list only by prefix. Whether S3 takes the key of a read for the prefix is not documented, so a machine gets the answer that
is harder to bear.

Secrets Manager authorizes before it looks, so to a role without `*` an absent secret is AccessDenied; Parameter Store asks it with the caller's rights
(jenkinsci/aws-secrets-manager-credentials-provider-plugin#65, #74; Systems Manager user guide, "Referencing AWS Secrets Manager secrets from Parameter
Store parameters").
"""

from __future__ import annotations

import json
from dataclasses import replace

from .aws_call import AwsCall
from .errors import access_denied, error_response
from .http_message import Request, Response

# Temporary credentials begin so ("IAM identifiers", IAM user guide); here only machines have any.
_OF_A_MACHINE = "ASIA"
_REFERENCE = "/aws/reference/secretsmanager/"


def as_seen_by_caller(call: AwsCall, request: Request, response: Response) -> Response:
    if not (request.access_key or "").startswith(_OF_A_MACHINE):
        return response
    if call.operation in ("GetObject", "HeadObject") and response.status == 404:
        return error_response(call, *access_denied(call))
    if name := _absent_secret(call, request, response):
        asked = replace(call, resources=(name,), permissions=("secretsmanager:GetSecretValue",))
        return error_response(call, 400, "AccessDeniedException", access_denied(asked)[2])
    return response


def _absent_secret(call: AwsCall, request: Request, response: Response) -> str | None:
    """What was asked for, where there is no such secret. One without a value exists."""
    if call.action == "secretsmanager:GetSecretValue":
        is_absent = b"can't find the specified secret." in response.body
        return json.loads(request.body)["SecretId"] if is_absent else None
    if call.action == "ssm:GetParameter" and b"ParameterNotFound" in response.body:
        name = json.loads(request.body)["Name"]
        return name.removeprefix(_REFERENCE) if name.startswith(_REFERENCE) else None
    return None
