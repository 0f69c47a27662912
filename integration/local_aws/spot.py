"""Spot requests behind Spot instances. Moto's RunInstances launches Spot instances that no request stands behind."""

from __future__ import annotations

from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance
from moto.ec2.utils import random_spot_request_id

TYPES = ("one-time", "persistent")


class SpotRequest(TaggedEC2Resource):
    """What DescribeSpotInstanceRequests answers; moto's serializer picks the attributes by name."""

    def __init__(self, instance: Instance, request_type: str, options: dict[str, Any]) -> None:
        self.id = self.spot_instance_request_id = random_spot_request_id()
        self.ec2_backend = instance.ec2_backend
        self.instance = instance
        self.instance_id = instance.id
        self.type = request_type
        self.state = "active"
        self.status = {"Code": "fulfilled", "Message": "Your Spot request is fulfilled.", "UpdateTime": utcnow()}
        self.create_time = utcnow()
        self.product_description = "Linux/UNIX"
        usual = "terminate" if request_type == "one-time" else "stop"
        self.instance_interruption_behavior = options.get("InstanceInterruptionBehavior", usual)
        self.spot_price = options.get("MaxPrice")
        self.launched_availability_zone = instance.availability_zone


def attach_request(instance: Instance, request_type: str, options: dict[str, Any] | None = None) -> None:
    if request_type not in TYPES:
        raise ValueError(f"a Spot request is {' or '.join(TYPES)}, not {request_type!r}")
    request = SpotRequest(instance, request_type, options or {})
    instance.lifecycle = "spot"
    instance.spot_instance_request_id = request.id
    instance.ec2_backend.spot_instance_requests[request.id] = request


def request_type(instance: Instance) -> str | None:
    request_id = getattr(instance, "spot_instance_request_id", None)
    request = instance.ec2_backend.spot_instance_requests.get(request_id)
    return request.type if request else None
