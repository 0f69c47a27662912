"""How instances come and go: what AWS does to them by itself, and when others see it.

Source: "Spot Instance interruptions" and "Instance initiated shutdown behavior" (Amazon EC2 User Guide),
`StateReason` and "Eventual consistency in the Amazon EC2 API" (EC2 API Reference). What takes time is carried out
before the next call to EC2 of that region. A test advances the time instead of waiting, so that a busy machine changes nothing.
Everything lives in moto's backend, so that moto's reset forgets it.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance, StateReason
from moto.ec2.responses.instances import InstanceResponse

RECLAIMED = "Server.SpotInstanceTermination"
BY_ITSELF = "Client.InstanceInitiatedShutdown"
_WORDS = {
    RECLAIMED: "Server.SpotInstanceTermination: Spot instance termination",
    BY_ITSELF: "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
    "Client.UserInitiatedShutdown": "Client.UserInitiatedShutdown: User initiated shutdown",
}
_STATE_CODES = {"shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}

_moto_all_reservations = EC2Backend.all_reservations
_moto_describe_instances = InstanceResponse.describe_instances


def apply() -> None:
    EC2Backend.all_reservations = _visible_reservations
    InstanceResponse.describe_instances = _describe_instances


def instance_of(backend: Any, instance_id: str) -> Instance | None:
    """Whoever may see it."""
    reservations = backend.reservations.values()
    return next((one for reservation in reservations for one in reservation.instances if one.id == instance_id), None)


# ------------------------------------------------------------------------------------------------------------- ends


def advance(backend: Any, seconds: float) -> None:
    """Lets that much time pass for the instances of a region."""
    backend.__dict__["advanced_seconds"] = backend.__dict__.get("advanced_seconds", 0.0) + seconds


def _now(backend: Any) -> float:
    """In seconds."""
    return time.monotonic() + backend.__dict__.get("advanced_seconds", 0.0)


def settle(backend: Any) -> None:
    """Does what is due by now."""
    due = [one for one in _pending(backend) if one[0] <= _now(backend)]
    for one in due:
        _pending(backend).remove(one)
        one[1]()


def interrupt(backend: Any, instance: Instance, warning_seconds: float, ending_seconds: float) -> None:
    """Its time is over after the warning; after another while it is gone."""
    _later(backend, warning_seconds, lambda: end(backend, instance, RECLAIMED, ending_seconds))


def shut_down(backend: Any, instance: Instance, ending_seconds: float) -> None:
    """From within, as its own timer does."""
    if instance.instance_initiated_shutdown_behavior == "terminate":
        end(backend, instance, BY_ITSELF, ending_seconds)
        return
    _set(instance, "stopping", BY_ITSELF)
    _later(backend, ending_seconds, lambda: _set(instance, "stopped", BY_ITSELF))


def end(backend: Any, instance: Instance, code: str, ending_seconds: float) -> None:
    if instance.state in ("shutting-down", "terminated"):
        return
    _set(instance, "shutting-down", code)
    _later(backend, ending_seconds, lambda: _end_for_good(instance))


def gone(backend: Any, instance: Instance) -> None:
    """It is off, so that what had begun to end it is over."""
    if instance.state == "shutting-down":
        _end_for_good(instance)
    elif instance.state == "stopping":
        _set(instance, "stopped", instance.state_reason.code)


def end_slowly(backend: Any, seconds: float) -> None:
    """TerminateInstances leaves an instance `shutting-down` for so long; at once `terminated`, if not for this."""
    backend.__dict__["ending_seconds"] = seconds


def ending_seconds(backend: Any) -> float:
    return backend.__dict__.get("ending_seconds", 0.0)


def _end_for_good(instance: Instance) -> None:
    if instance.state == "terminated":
        return
    reason, transition = instance.state_reason, instance._reason
    Instance.terminate(instance)
    instance.state_reason, instance._reason = reason, transition
    request = instance.ec2_backend.spot_instance_requests.get(getattr(instance, "spot_instance_request_id", None))
    if request is not None:
        request.state = "closed"
        reclaimed = reason.code == RECLAIMED
        request.status = {
            **request.status,
            "Code": "instance-terminated-no-capacity" if reclaimed else "instance-terminated-by-user",
        }


def _set(instance: Instance, state: str, code: str) -> None:
    instance._state.name, instance._state.code = state, _STATE_CODES[state]
    instance.state_reason, instance._reason = StateReason(_WORDS[code], code), ""


def _later(backend: Any, seconds: float, act: Callable[[], None]) -> None:
    if seconds <= 0:
        act()
    else:
        _pending(backend).append((_now(backend) + seconds, act))


def _pending(backend: Any) -> list[tuple[float, Callable[[], None]]]:
    return backend.__dict__.setdefault("pending_ends", [])


# ------------------------------------------------------------------------------------------------------- visibility


def hide_new(backend: Any, calls: int, seconds: float) -> None:
    """What is launched from now on is seen by nobody for so many calls of DescribeInstances, or so many seconds."""
    backend.__dict__["hide_new"] = (calls, seconds)


def launched(backend: Any, instance: Instance) -> None:
    calls, seconds = backend.__dict__.get("hide_new", (0, 0.0))
    if calls or seconds:
        instance.hidden_calls, instance.hidden_until = calls, _now(backend) + seconds
        backend.__dict__.setdefault("hidden", []).append(instance)


def forget(instance: Instance) -> None:
    """As EC2 does about an hour after an instance was terminated."""
    instance.forgotten = True
    instance.ec2_backend.__dict__.setdefault("hidden", []).append(instance)


def _is_hidden(instance: Instance) -> bool:
    if getattr(instance, "forgotten", False):
        return True
    return instance.hidden_calls > 0 or instance.hidden_until > _now(instance.ec2_backend)


def _visible_reservations(backend: Any, filters: Any = None) -> list[Any]:
    reservations = _moto_all_reservations(backend, filters)
    hidden = {one.id for one in backend.__dict__.get("hidden", []) if _is_hidden(one)}
    if hidden:
        for reservation in reservations:  # moto made copies
            reservation.instances = [one for one in reservation.instances if one.id not in hidden]
    return [reservation for reservation in reservations if reservation.instances]


def _describe_instances(response: InstanceResponse) -> Any:
    backend = response.ec2_backend
    try:
        return _moto_describe_instances(response)
    finally:
        for one in backend.__dict__.get("hidden", []):
            one.hidden_calls = max(getattr(one, "hidden_calls", 0) - 1, 0)
