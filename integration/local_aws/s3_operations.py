"""Names the S3 operation behind a REST request, and the IAM actions that it needs.

Source: "Amazon S3 API Reference" (operations) and "Actions, resources, and condition keys for Amazon S3" (IAM).
"""

from __future__ import annotations

# Operations whose IAM action is not their own name.
_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "ListBuckets": ("s3:ListAllMyBuckets",),
    "ListObjects": ("s3:ListBucket",),
    "ListObjectsV2": ("s3:ListBucket",),
    "ListObjectVersions": ("s3:ListBucketVersions",),
    "HeadBucket": ("s3:ListBucket",),
    "HeadObject": ("s3:GetObject",),
    "CopyObject": ("s3:GetObject", "s3:PutObject"),
    "UploadPartCopy": ("s3:GetObject", "s3:PutObject"),
    "CreateMultipartUpload": ("s3:PutObject",),
    "UploadPart": ("s3:PutObject",),
    "CompleteMultipartUpload": ("s3:PutObject",),
    "ListMultipartUploads": ("s3:ListBucketMultipartUploads",),
    "ListParts": ("s3:ListMultipartUploadParts",),
    "DeleteObjects": ("s3:DeleteObject",),
}


# Where the request names a version.
_OF_VERSIONS = {"s3:GetObject": "s3:GetObjectVersion", "s3:DeleteObject": "s3:DeleteObjectVersion"}


def permissions(operation: str, is_of_version: bool = False) -> tuple[str, ...]:
    needed = _PERMISSIONS.get(operation, (f"s3:{operation}",))
    return tuple(_OF_VERSIONS.get(action, action) for action in needed) if is_of_version else needed


def operation(method: str, bucket: str, key: str, query: dict[str, str], headers: dict[str, str]) -> str:
    """The operation's name, as in the SDKs. An unknown one answers `Unknown`, never a guess."""
    if not bucket:
        return "ListBuckets" if method == "GET" else "Unknown"
    if key:
        return _object_operation(method, query, "x-amz-copy-source" in headers)
    return _bucket_operation(method, query)


def _bucket_operation(method: str, query: dict[str, str]) -> str:
    if "versioning" in query:
        return {"GET": "GetBucketVersioning", "PUT": "PutBucketVersioning"}.get(method, "Unknown")
    if "policy" in query:
        return {"GET": "GetBucketPolicy", "PUT": "PutBucketPolicy", "DELETE": "DeleteBucketPolicy"}.get(method, "Unknown")
    if method == "GET":
        if "uploads" in query:
            return "ListMultipartUploads"
        if "versions" in query:
            return "ListObjectVersions"
        return "ListObjectsV2" if query.get("list-type") == "2" else "ListObjects"
    if method == "POST" and "delete" in query:
        return "DeleteObjects"
    return {"PUT": "CreateBucket", "DELETE": "DeleteBucket", "HEAD": "HeadBucket"}.get(method, "Unknown")


def _object_operation(method: str, query: dict[str, str], is_copy: bool) -> str:
    if method == "POST":
        if "uploads" in query:
            return "CreateMultipartUpload"
        return "CompleteMultipartUpload" if "uploadId" in query else "Unknown"
    if "uploadId" in query:
        if method == "PUT":
            return "UploadPartCopy" if is_copy else "UploadPart"
        return {"GET": "ListParts", "DELETE": "AbortMultipartUpload"}.get(method, "Unknown")
    if method == "PUT":
        return "CopyObject" if is_copy else "PutObject"
    return {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}.get(method, "Unknown")
