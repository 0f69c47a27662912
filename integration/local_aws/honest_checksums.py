"""Checksums of S3: what arrives is compared with what the request says of it, and HEAD words them as S3 does.

Sources: "Checking object integrity in Amazon S3" (Amazon S3 user guide); "PutObject", "UploadPart", "CompleteMultipartUpload",
"HeadObject" and "Error responses" (Amazon S3 API reference); "Signature calculations: transferring payload in multiple chunks" (the same).
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any, Callable
from urllib.parse import unquote
from xml.dom import minidom

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from .aws_call import AwsCall, bucket_and_key
from .errors import error_response
from .http_message import Request, Response

_ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}
_HEADER = "x-amz-checksum-"
# Headers that begin so, and are no checksum.
_OTHERS = {"algorithm", "mode", "type"}


def carry_out(call: AwsCall, request: Request, forward: Callable[[Request], Response]) -> Response:
    try:
        if call.operation in ("PutObject", "UploadPart"):
            _check_body(request)
            _name_algorithm(request)
        if call.operation == "CompleteMultipartUpload":
            _check_parts(request)
    except _Refused as refused:
        return error_response(call, refused.status, refused.code, refused.message)
    response = forward(request)
    if call.operation == "HeadObject" and response.status == 200:
        _add_number_of_parts(request, response)
    return response


class _Refused(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def _check_body(request: Request) -> None:
    signed = request.headers.get("x-amz-content-sha256", "")
    is_chunked = signed.startswith("STREAMING-")
    content, trailer = _unchunked(request.body) if is_chunked else (request.body, {})
    if len(signed) == 64 and hashlib.sha256(content).hexdigest() != signed:
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise _Refused("XAmzContentSHA256Mismatch", message)
    for name, value in {**request.headers, **trailer}.items():
        algorithm = name.removeprefix(_HEADER)
        if algorithm != name and algorithm not in _OTHERS and _checksum(algorithm, content) != value:
            message = f"The {algorithm.upper()} you specified did not match the calculated checksum."
            raise _Refused("BadDigest", message)


def _unchunked(body: bytes) -> tuple[bytes, dict[str, str]]:
    """The content of aws-chunked, and the trailer. A chunk is its size in hex, perhaps with a signature, and its bytes."""
    content, rest = bytearray(), body
    while True:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        content += rest[:size]
        rest = rest[size:].removeprefix(b"\r\n")
    lines = (line.partition(":") for line in rest.decode().splitlines())
    return bytes(content), {name.strip().lower(): value.strip() for name, _, value in lines if name}


def _checksum(algorithm: str, content: bytes) -> str:
    if algorithm not in _ALGORITHMS:
        raise _Refused("NotImplemented", f"the local AWS knows no {algorithm}", 501)
    return base64.b64encode(_ALGORITHMS[algorithm](content)).decode()


def _name_algorithm(request: Request) -> None:
    """Moto keeps a checksum only if another header names its algorithm, which S3 does not ask for."""
    given = [name.removeprefix(_HEADER) for name in request.headers if name.startswith(_HEADER)]
    algorithms = [algorithm.upper() for algorithm in given if algorithm in _ALGORITHMS]
    if algorithms and "x-amz-sdk-checksum-algorithm" not in request.headers:
        request.headers["x-amz-sdk-checksum-algorithm"] = algorithms[0]
        request.environ["HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM"] = algorithms[0]


def _check_parts(request: Request) -> None:
    """Of an upload that was begun with an algorithm each part has to be named with its checksum."""
    bucket, _ = bucket_and_key(request)
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    uploads = found.multiparts if found is not None else {}
    upload = uploads.get(request.query_parameters["uploadId"])
    if upload is None:
        message = "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
        raise _Refused("NoSuchUpload", message, 404)
    algorithm = upload.metadata.get("x-amz-checksum-algorithm")
    if algorithm is None:
        return
    for part in minidom.parseString(request.body).getElementsByTagName("Part"):
        number, given = _text(part, "PartNumber"), _text(part, f"Checksum{algorithm}")
        if given is None:
            message = f"The upload was created using a {algorithm.lower()} checksum. The complete request must include the checksum for each part. It was missing for part {number} in the request."
            raise _Refused("InvalidRequest", message)
        stored = upload.parts.get(int(number or 0))
        if stored is not None and _checksum(algorithm.lower(), stored.value) != given:
            message = "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
            raise _Refused("InvalidPart", message)


def _text(part: Any, name: str) -> str | None:
    found = part.getElementsByTagName(name)
    return found[0].firstChild.data if found and found[0].firstChild else None


def _add_number_of_parts(request: Request, response: Response) -> None:
    """A checksum of parts' checksums ends in their number, and HEAD says of which kind it is."""
    bucket, key = bucket_and_key(request)
    version = request.query_parameters.get("versionId")
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, unquote(key), version_id=version)
    if found is None or found.checksum_type != "COMPOSITE" or found.checksum_algorithm is None:
        return
    name = f"{_HEADER}{found.checksum_algorithm.lower()}"
    for index, (header, value) in enumerate(response.headers):
        if header.lower() == name and "-" not in value:
            response.headers[index] = (header, f"{value}-{found.checksum_parts}")
            response.headers.append((f"{_HEADER}type", found.checksum_type))
            break
