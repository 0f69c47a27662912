"""S3's answer for an absent object: 404 to a caller that may list the bucket, and else 403.

Source: "GetObject" and "HeadObject", Permissions (Amazon S3 API reference). The role of a job's machine may list only by prefix. Whether S3
takes the key of a read for the prefix is not documented, so a machine gets the answer that is harder to bear.
"""

from __future__ import annotations

from .aws_call import AwsCall
from .errors import access_denied, error_response
from .http_message import Request, Response

# Temporary credentials begin so ("IAM identifiers", IAM user guide); here only machines have any.
_OF_A_MACHINE = "ASIA"


def as_seen_by_caller(call: AwsCall, request: Request, response: Response) -> Response:
    is_absent = call.operation in ("GetObject", "HeadObject") and response.status == 404
    if not is_absent or not (request.access_key or "").startswith(_OF_A_MACHINE):
        return response
    return error_response(call, *access_denied(call))
