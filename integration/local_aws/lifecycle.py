"""How instances end by themselves, and while a machine that was booted for one shuts down.

Source: "Spot Instance interruptions" and "Instance initiated shutdown behavior" (Amazon EC2 User Guide), `StateReason` (EC2 API
Reference). Everything lives in moto's backend, so that moto's reset forgets it.
"""

from __future__ import annotations

from typing import Any

from moto.ec2.models.instances import Instance, StateReason

RECLAIMED = "Server.SpotInstanceTermination"
BY_ITSELF = "Client.InstanceInitiatedShutdown"
BY_CALL = "Client.UserInitiatedShutdown"
_WORDS = {
    RECLAIMED: f"{RECLAIMED}: Spot instance termination",
    BY_ITSELF: f"{BY_ITSELF}: Instance initiated shutdown",
    BY_CALL: f"{BY_CALL}: User initiated shutdown",
}
STATE_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


def instance_of(backend: Any, instance_id: str) -> Instance | None:
    reservations = backend.reservations.values()
    return next((one for reservation in reservations for one in reservation.instances if one.id == instance_id), None)


def hold_ends(backend: Any, held: bool) -> None:
    """Whether TerminateInstances leaves an instance `shutting-down` until it is `gone`; else it is `terminated` at once."""
    backend.__dict__["ends_are_held"] = held


def are_ends_held(backend: Any) -> bool:
    return backend.__dict__.get("ends_are_held", False)


def end(instance: Instance, code: str) -> None:
    """Begins its end; `gone` completes it."""
    if instance.state not in ("shutting-down", "terminated"):
        _set(instance, "shutting-down", code)


def shut_down(instance: Instance) -> None:
    """From within, by its shutdown behaviour."""
    if instance.instance_initiated_shutdown_behavior == "terminate":
        end(instance, BY_ITSELF)
    else:
        _set(instance, "stopping", BY_ITSELF)
    gone(instance)


def gone(instance: Instance) -> None:
    """It is off, so that what had begun to end it is over."""
    if instance.state == "stopping":
        _set(instance, "stopped", instance.state_reason.code)
    if instance.state != "shutting-down":
        return
    reason, transition = instance.state_reason, instance._reason
    Instance.terminate(instance)
    instance.state_reason, instance._reason = reason, transition
    request = instance.ec2_backend.spot_instance_requests.get(getattr(instance, "spot_instance_request_id", None))
    if request is not None:
        code = "instance-terminated-no-capacity" if reason.code == RECLAIMED else "instance-terminated-by-user"
        request.state, request.status = "closed", {**request.status, "Code": code}


def _set(instance: Instance, state: str, code: str) -> None:
    instance._state.name, instance._state.code = state, STATE_CODES[state]
    instance.state_reason, instance._reason = StateReason(_WORDS[code], code), ""
