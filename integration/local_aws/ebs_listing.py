"""DescribeVolumes and DescribeSnapshots: ids, owners, filters and pages as EC2 understands them.

Source: their pages in the Amazon EC2 API Reference, and "Pagination" and "List and filter" there and in the EC2 User
Guide. The filters that Curfew and its tests use are here; any other is refused, as EC2 refuses an unknown one. EC2 is eventually
consistent: what a test makes `unlisted` is found by its id only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from .ebs_corrections import snapshot_of, volume_of
from .ec2_corrections import passes_filter

_RESULTS_MIN = 5
_FILTER_VALUES_MAX = 200
_TOKEN = "page-from-"

Filter = Callable[[Any], Any]


@dataclass(frozen=True)
class _Kind:
    plural: str
    ids: str  # the parameter that names them
    set_name: str  # what EC2's errors call that
    one: Callable[[Any, str], Any]
    id_filter: str
    filters: dict[str, Filter]
    results_max: int  # of one page, whatever was asked for


def apply() -> None:
    ElasticBlockStore.describe_volumes = _describe_volumes
    ElasticBlockStore.describe_snapshots = _describe_snapshots


def _describe_volumes(response: ElasticBlockStore) -> ActionResult:
    return _described(response, _VOLUMES, response.ec2_backend.volumes)


def _describe_snapshots(response: ElasticBlockStore) -> ActionResult:
    """Without owners, those that were shared with this account too."""
    backend = response.ec2_backend
    if response._get_param("RestorableByUserIds"):
        raise NotImplementedError("RestorableByUserIds")
    owners = {backend.account_id if one == "self" else one for one in response._get_param("OwnerIds", [])}
    owned = {key: one for key, one in backend.snapshots.items() if not owners or one.owner_id in owners}
    return _described(response, _SNAPSHOTS, owned)


def _described(response: ElasticBlockStore, kind: _Kind, known: dict[str, Any]) -> ActionResult:
    ids, size = response._get_param(kind.ids, []), response._get_param("MaxResults")
    if ids and size is not None:
        raise EC2ClientError(
            "InvalidParameterCombination", f"The parameter {kind.set_name} cannot be used with the parameter maxResults"
        )
    if size is not None and int(size) < _RESULTS_MIN:
        raise _invalid(
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value greater than {_RESULTS_MIN}."
        )
    asked = [kind.one(response.ec2_backend, one) for one in ids]
    found = [one for one in asked if one.id in known] if ids else list(known.values())
    filters = _filters(response, kind)
    if not ids and kind.id_filter not in filters:
        found = [one for one in found if not getattr(one, "unlisted", False)]
    for name, values in filters.items():
        value_of = _tag_filter(name) or kind.filters[name]
        found = [one for one in found if passes_filter(value_of(one), values)]
    return _page(response, kind, found, size)


def _filters(response: ElasticBlockStore, kind: _Kind) -> dict[str, list[str]]:
    filters = response._filters_from_querystring()
    for name in filters:
        if name not in kind.filters and not name.startswith("tag:"):
            raise _invalid(f"The filter '{name}' is invalid")
    if sum(len(values) for values in filters.values()) > _FILTER_VALUES_MAX:
        raise EC2ClientError(
            "FilterLimitExceeded",
            f"The maximum number of filter values specified on a single call is {_FILTER_VALUES_MAX}",
        )
    return filters


def _page(response: ElasticBlockStore, kind: _Kind, found: list[Any], size: int | None) -> ActionResult:
    """All that are left where no size is asked for."""
    token = response._get_param("NextToken")
    if token and not (token.startswith(_TOKEN) and token.removeprefix(_TOKEN).isdigit()):
        raise _invalid("The token is invalid.")
    start = int(token.removeprefix(_TOKEN)) if token else 0
    end = len(found) if size is None else start + min(int(size), kind.results_max)
    following = f"{_TOKEN}{end}" if end < len(found) else None
    return ActionResult({kind.plural: found[start:end], "NextToken": following})


def _tag_filter(name: str) -> Filter | None:
    key = name.removeprefix("tag:")
    return None if key == name else lambda one: [tag["value"] for tag in one.get_tags() if tag["key"] == key]


def _field(name: str) -> Filter:
    return lambda resource: getattr(resource, name, None)


def _tag_keys(resource: Any) -> list[str]:
    return [tag["key"] for tag in resource.get_tags()]


def _invalid(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", message)


_VOLUMES = _Kind(
    plural="Volumes",
    ids="VolumeIds",
    set_name="volumeSet",
    id_filter="volume-id",
    one=volume_of,
    # The reference has said: "if you specify a value larger than 500, only 500 items are returned".
    results_max=500,
    filters={
        "attachment.instance-id": lambda volume: [attachment.instance_id for attachment in volume.attachments],
        "snapshot-id": _field("snapshot_id"),
        "status": _field("status"),
        "tag-key": _tag_keys,
        "volume-id": _field("id"),
    },
)

_SNAPSHOTS = _Kind(
    plural="Snapshots",
    ids="SnapshotIds",
    set_name="snapshotSet",
    id_filter="snapshot-id",
    one=snapshot_of,
    results_max=1000,
    filters={
        "description": _field("description"),
        "snapshot-id": _field("id"),
        "status": _field("status"),
        "tag-key": _tag_keys,
        "volume-id": _field("volume_id"),
    },
)
