"""What RunInstances refuses: parameters, quotas and capacity, none of which moto looks at.

Source: "RunInstances" and "Error codes for the Amazon EC2 API" (EC2 API Reference); "Amazon EC2 instance type quotas"
(Amazon EC2 Instance Types guide): quotas count vCPUs of running instances by family and by how they are bought, and
what is shutting down still holds its own. A launch of several is all or nothing. Messages are those that people quote from real answers.

Profiles, the size of user data and the length of a token are always looked at; AMIs, types and zones never: tests launch
unregistered parameters. Capacity, and quotas that are enforced, are endless until a test sets them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Callable

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.iam.models import iam_backends

from . import spot_prices
from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response
from .idempotency import zone_named

LIFECYCLES = ("spot", "on-demand")
_USER_DATA_BYTES_MAX = 16 * 1024
_TOKEN_CHARACTERS_MAX = 64
_COUNTED = ("pending", "running", "stopping", "shutting-down")
# By the letters that a family begins with: the quota on demand, and of Spot.
_QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"),
    "gr": ("L-DB2E81BA", "L-3819A6DF"),
    "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "dl": ("L-6E869C2A", "L-85EED4F7"),
}

Refusal = tuple[int, str, str]


@dataclass
class Pool:
    """Instances that AWS still has of a type; `None` means any."""

    region: str
    instance_type: str | None
    zone: str | None
    lifecycle: str | None
    left: int

    def has(self, asked: Asked) -> bool:
        wanted = (self.instance_type, asked.instance_type), (self.zone, asked.zone), (self.lifecycle, asked.lifecycle)
        return self.region == asked.region and all(own in (None, other) for own, other in wanted)


@dataclass(frozen=True)
class Asked:
    region: str
    zone: str
    instance_type: str
    lifecycle: str
    count: int


class Launches:
    """Not locked: the proxy carries out one call at a time."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._pools: list[Pool] = []
        self._quotas: dict[tuple[str, str], float] = {}

    def set_capacity(
        self, region: str, left: int, instance_type: str | None, zone: str | None, lifecycle: str | None
    ) -> None:
        """The newest word on a pool counts."""
        if lifecycle not in (None, *LIFECYCLES):
            raise ValueError(f"a launch is {' or '.join(LIFECYCLES)}, not {lifecycle!r}")
        self._pools.insert(0, Pool(region, instance_type, zone, lifecycle, left))

    def set_quota(self, code: str, region: str, vcpus: float) -> None:
        self._quotas[region, code] = vcpus

    def carry_out(self, call: AwsCall, request: Request, act: Callable[[], Response]) -> Response:
        if call.action != "ec2:RunInstances":
            return act()
        form = request.form
        asked = _asked(call.region, form)
        pool = next((pool for pool in self._pools if pool.has(asked)), None)
        refusal = _of_parameters(asked, form) or self._of_quota(asked) or _of_price(asked, form)
        if refusal is None and pool is not None and pool.left < asked.count:
            refusal = _no_capacity(asked)
        if refusal is not None:
            return error_response(call, *refusal)
        answer = act()
        if pool is not None and answer.status == 200:
            pool.left -= asked.count
        return answer

    def _of_quota(self, asked: Asked) -> Refusal | None:
        code = quota_code(asked.instance_type, asked.lifecycle)
        limit = self._quotas.get((asked.region, code or ""))
        if limit is None or _held(asked.region, code) + asked.count * _vcpus(asked.instance_type) <= limit:
            return None
        if asked.lifecycle == "spot":
            return 400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
        return (
            400,
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the instance bucket "
            "that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request "
            "an adjustment to this limit.",
        )


def quota_code(instance_type: str, lifecycle: str) -> str | None:
    """The quota that counts it; `None` of families without accelerators."""
    family = instance_type.partition(".")[0]
    letters = family[: next((place for place, one in enumerate(family) if one.isdigit()), len(family))]
    codes = _QUOTAS.get(letters)
    if letters == "p" and lifecycle == "spot" and family.startswith("p5"):
        return "L-C4BD4855"
    return codes[lifecycle == "spot"] if codes else None


def _asked(region: str, form: dict[str, str]) -> Asked:
    zone = zone_named(region, form) or f"{region}a"
    lifecycle = "spot" if form.get("InstanceMarketOptions.MarketType") == "spot" else "on-demand"
    return Asked(region, zone, form.get("InstanceType", "m1.small"), lifecycle, int(form.get("MinCount", 1)))


def _of_parameters(asked: Asked, form: dict[str, str]) -> Refusal | None:
    if len(form.get("ClientToken", "")) > _TOKEN_CHARACTERS_MAX:
        return _invalid(f"Invalid value '{form['ClientToken']}' for clientToken")
    if len(base64.b64decode(form.get("UserData", ""))) > _USER_DATA_BYTES_MAX:
        return _invalid(f"User data is limited to {_USER_DATA_BYTES_MAX} bytes")
    profiles = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].get_instance_profiles()
    for parameter, known in (("Name", {one.name for one in profiles}), ("Arn", {one.arn for one in profiles})):
        value = form.get(f"IamInstanceProfile.{parameter}")
        if value is not None and value not in known:
            field, kind = f"iamInstanceProfile.{parameter.lower()}", "name" if parameter == "Name" else "ARN"
            return _invalid(f"Value ({value}) for parameter {field} is invalid. Invalid IAM Instance Profile {kind}")
    return None


def _of_price(asked: Asked, form: dict[str, str]) -> Refusal | None:
    """Where a test has said what Spot costs."""
    most = form.get("InstanceMarketOptions.SpotOptions.MaxPrice")
    backend = ec2_backends[DEFAULT_ACCOUNT_ID][asked.region]
    price = spot_prices.current(backend, asked.instance_type, asked.zone)
    if asked.lifecycle != "spot" or not most or price is None or float(most) >= price:
        return None
    said = f"Your Spot request price of {most} is lower than the minimum required Spot request fulfillment price of {price}."
    return 400, "SpotMaxPriceTooLow", said


def _no_capacity(asked: Asked) -> Refusal:
    if asked.lifecycle == "spot":
        said = "There is no Spot capacity available that matches your request."
    else:
        said = (
            f"We currently do not have sufficient {asked.instance_type} capacity in the Availability Zone you requested "
            f"({asked.zone}). Our system will be working on provisioning additional capacity."
        )
    return 500, "InsufficientInstanceCapacity", said


def _held(region: str, code: str | None) -> int:
    """vCPUs that a quota counts now, including invisible instances."""
    reservations = ec2_backends[DEFAULT_ACCOUNT_ID][region].reservations.values()
    return sum(
        _vcpus(one.instance_type)
        for reservation in reservations
        for one in reservation.instances
        if one.state in _COUNTED and quota_code(one.instance_type, one.lifecycle or "on-demand") == code
    )


def _vcpus(instance_type: str) -> int:
    return INSTANCE_TYPES.get(instance_type, {}).get("VCpuInfo", {}).get("DefaultVCpus", 0)


def _invalid(message: str) -> Refusal:
    return 400, "InvalidParameterValue", message
