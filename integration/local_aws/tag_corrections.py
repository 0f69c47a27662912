"""Tags as EC2 takes them: which keys and values, how many, and what DeleteTags without any removes.

Source: "CreateTags", "DeleteTags" and "Tag" (Amazon EC2 API Reference), "Tag restrictions" (Amazon EC2 User Guide).
Launches are not checked: tests and the demo launch what a service would have tagged.
"""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, TagLimitExceeded
from moto.ec2.models import EC2Backend
from moto.ec2.responses.tags import TagResponse

_TAGS_MAX = 50  # not counting those of AWS
_KEY_MAX = 128
_VALUE_MAX = 256
_AWS = "aws:"

_moto_create_tags = TagResponse.create_tags
_moto_delete_tags = TagResponse.delete_tags


def apply() -> None:
    TagResponse.create_tags = _create_tags
    TagResponse.delete_tags = _delete_tags
    EC2Backend.create_tags = _write


def check(tags: dict[str, str], already: dict[str, str]) -> None:
    """Fails as EC2 does where these may not be added to those."""
    for key, value in tags.items():
        _check_owner(key)
        if not key or len(key) > _KEY_MAX:
            raise _invalid(key, "key", f"Tag keys have 1 to {_KEY_MAX} characters")
        if len(value) > _VALUE_MAX:
            raise _invalid(value, "value", f"Tag values have at most {_VALUE_MAX} characters")
    own = {key for key in (*tags, *already) if not key.startswith(_AWS)}
    if len(own) > _TAGS_MAX:
        raise TagLimitExceeded()


def _create_tags(response: TagResponse) -> ActionResult:
    backend = response.ec2_backend
    tags = {tag["Key"]: tag.get("Value") or "" for tag in response._get_param("Tags", [])}
    backend.do_resources_exist(response._get_param("Resources", []))
    for resource_id in response._get_param("Resources", []):
        check(tags, already=backend.tags.get(resource_id, {}))
    return _moto_create_tags(response)


def _write(backend: EC2Backend, resource_ids: list[str], tags: dict[str, str]) -> bool:
    """Without moto's limit, which counts AWS's own tags too."""
    for resource_id in resource_ids:
        backend.tags[resource_id].update(tags)
    return True


def _delete_tags(response: TagResponse) -> ActionResult:
    """Without tags all go that are not AWS's own."""
    asked = response._get_param("Tags", [])
    for tag in asked:
        _check_owner(tag["Key"])
    result = _moto_delete_tags(response)
    if not asked:
        for resource_id in response._get_param("Resources", []):
            tags = response.ec2_backend.tags.get(resource_id, {})
            for key in [key for key in tags if not key.startswith(_AWS)]:
                del tags[key]
    return result


def _check_owner(key: str) -> None:
    if key.lower().startswith(_AWS):
        raise _invalid(key, "key", "Tag keys starting with 'aws:' are reserved for internal use")


def _invalid(value: Any, what: str, why: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", f"Value ( {value} ) for parameter {what} is invalid. {why}")
