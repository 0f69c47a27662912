"""ClientTokens as EC2 honours them; moto ignores them and makes a new resource each time.

Source: "Ensuring idempotency in Amazon EC2 API requests". The same token with the same parameters answers as the
first time; with other parameters it is IdempotentParameterMismatch; in another zone or region it is a new request. Once
its instance is terminated it is IdempotentInstanceTerminated ("Error codes for the Amazon EC2 API").
"""

from __future__ import annotations

from typing import Callable

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_ACTIONS = ("ec2:RunInstances", "ec2:CreateVolume")
_MISMATCH = "Arguments on this idempotent request are inconsistent with arguments used in previous request(s)."
_OVER = (
    "The request to launch an instance uses the same client token as a previous request for which the instance has been "
    "terminated."
)

Key = tuple[str, str, str, str]


class ClientTokens:
    """Not locked: the proxy carries out one call at a time."""

    def __init__(self) -> None:
        self._answers: dict[Key, tuple[dict[str, str], Response]] = {}

    def clear(self) -> None:
        self._answers.clear()

    def carry_out(self, call: AwsCall, request: Request, act: Callable[[], Response]) -> Response:
        form = dict(request.form) if call.action in _ACTIONS else {}
        token = form.pop("ClientToken", "")
        if not token:
            return act()
        key = (call.action, call.region, zone_named(call.region, form) or "", token)
        if key in self._answers:
            parameters, answer = self._answers[key]
            if parameters != form:
                return error_response(call, 400, "IdempotentParameterMismatch", _MISMATCH)
            if _is_over(call, token):
                return error_response(call, 400, "IdempotentInstanceTerminated", _OVER)
            return answer
        answer = act()
        if answer.status == 200:
            self._answers[key] = (form, answer)
        return answer


def _is_over(call: AwsCall, token: str) -> bool:
    """Whether what was launched by it has been terminated ("Error codes for the Amazon EC2 API")."""
    if call.action != "ec2:RunInstances":
        return False
    reservations = ec2_backends[DEFAULT_ACCOUNT_ID][call.region].reservations.values()
    launched = [one for each in reservations for one in each.instances if one.client_token == token]
    return bool(launched) and all(one.state == "terminated" for one in launched)


def zone_named(region: str, form: dict[str, str]) -> str | None:
    """The zone that a request names, by itself or by a subnet."""
    subnet_id = form.get("SubnetId") or form.get("NetworkInterface.1.SubnetId")
    if not subnet_id:
        return form.get("Placement.AvailabilityZone") or form.get("AvailabilityZone")
    for subnets in ec2_backends[DEFAULT_ACCOUNT_ID][region].subnets.values():
        if subnet_id in subnets:
            return subnets[subnet_id].availability_zone
    return None
