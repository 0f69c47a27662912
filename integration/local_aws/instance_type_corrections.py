"""Instance types and where they are offered: filters with wildcards, and pages, which moto's have not.

Source: "DescribeInstanceTypes" and "DescribeInstanceTypeOfferings" (EC2 API Reference): 100 and 1,000 a page at most.
"""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import InstanceTypeBackend, InstanceTypeOfferingBackend
from moto.ec2.responses.instances import InstanceResponse

_TYPES_MAX = 100
_OFFERINGS_MAX = 1000
_OFFERING_FILTERS = {"instance-type": "InstanceType", "location": "Location"}

_moto_types = InstanceTypeBackend.describe_instance_types
_moto_offerings = InstanceTypeOfferingBackend.describe_instance_type_offerings
_moto_answer_types = InstanceResponse.describe_instance_types
_moto_answer_offerings = InstanceResponse.describe_instance_type_offerings


def apply() -> None:
    InstanceTypeBackend.describe_instance_types = _types
    InstanceTypeOfferingBackend.describe_instance_type_offerings = _offerings
    InstanceResponse.describe_instance_types = _paged(_moto_answer_types, "InstanceTypes", _TYPES_MAX)
    InstanceResponse.describe_instance_type_offerings = _paged(
        _moto_answer_offerings, "InstanceTypeOfferings", _OFFERINGS_MAX
    )


def _types(backend: Any, instance_types: list[str] | None = None, filters: Any = None) -> list[Any]:
    from .ec2_corrections import passes_filter

    matching = _moto_types(backend, instance_types)
    for name, accepted in (filters or {}).items():
        matching = [one for one in matching if passes_filter(one.get_filter_value(name), accepted)]
    return matching


def _offerings(backend: Any, location_type: str | None = None, filters: Any = None) -> list[Any]:
    from .ec2_corrections import passes_filter

    matching = _moto_offerings(backend, location_type, {})
    for name, accepted in (filters or {}).items():
        if name not in _OFFERING_FILTERS:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        matching = [one for one in matching if passes_filter(one.get(_OFFERING_FILTERS[name]), accepted)]
    return matching


def _paged(answer: Any, items: str, page_max: int) -> Any:
    def answer_a_page(response: InstanceResponse) -> ActionResult:
        whole = answer(response).result[items]
        first = int(response._get_param("NextToken") or 0)
        past = first + min(int(response._get_param("MaxResults") or page_max), page_max)
        page = {items: whole[first:past]}
        return ActionResult(page | ({"NextToken": str(past)} if past < len(whole) else {}))

    return answer_a_page
