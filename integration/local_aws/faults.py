"""Rules that make chosen calls fail, hang, or lose or damage their answer, or that change the account just before a call.

A rule says which calls it means (action, region, a text that the request must mention), how many of them it
lets through first, how often it strikes, and what it does: a `fault`, or a `before`: methods of the back door, with their arguments.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Callable

from . import errors
from .aws_call import AwsCall
from .http_message import Request, Response

ERRORS: dict[str, Callable[[AwsCall], tuple[int, str, str]]] = {
    "throttle": errors.throttle,
    "error500": errors.error500,
    "access_denied": errors.access_denied,
    "scp_denied": errors.scp_denied,
    "not_found": errors.not_found,
    "insufficient_capacity": errors.insufficient_capacity,
}
# Carried out, and the answer comes damaged: half of it, none of it, or half of it and then the end of the connection.
DAMAGED = ("garbled", "empty", "cut_off")
# reset: closed before any answer, not carried out. lost_answer: carried out, then closed.
FAULTS = (*ERRORS, *DAMAGED, "custom", "slow", "reset", "lost_answer")

_CARRIED_OUT_SECONDS = 30


@dataclass
class Rule:
    action: str  # `ec2:StopInstances`; `*` and `?` are wildcards
    fault: str | None = None
    before: dict[str, Any] | None = None
    region: str | None = None
    match: str | None = None
    skip: int = 0
    times: int | None = 1  # None: always
    every_attempt: bool = False  # a struck call is struck again when the SDK repeats it
    seconds: float = 1.0  # slow: at most
    status: int = 400  # custom
    code: str = "CustomError"
    message: str = ""
    seen: int = 0
    struck: int = 0
    invocations: list[str] = field(default_factory=list)  # that were struck, as the SDK names them

    def __post_init__(self) -> None:
        if (self.fault is None) == (self.before is None):
            raise ValueError("a rule has either a fault or a before")
        if self.fault is not None and self.fault not in FAULTS:
            raise ValueError(f"unknown fault {self.fault!r}; there are {', '.join(FAULTS)}")
        # No fields, because they are not listed: whether to go on at once, and of each slow call whether it is over.
        self.released = threading.Event()
        self.slow_calls: list[threading.Event] = []

    def strikes(self, call: AwsCall, request: Request) -> bool:
        """Counts the call if the rule means it, and says whether it is the rule's turn."""
        if not fnmatchcase(call.action, self.action) or self.region not in (None, call.region):
            return False
        if self.match is not None and self.match not in call.resources and not request.mentions(self.match):
            return False
        if self.every_attempt and request.invocation in self.invocations:
            self.struck += 1
            return True
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        self.invocations += filter(None, [request.invocation])
        return True

    def error(self, call: AwsCall) -> Response | None:
        """The error answer of this rule; None for the faults of time and connection."""
        if self.fault == "custom":
            return errors.error_response(call, self.status, self.code, self.message)
        if self.fault in ERRORS:
            return errors.error_response(call, *ERRORS[self.fault](call))
        return None


class RuleBook:
    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def release(self, action: str) -> None:
        """Removes the rules of that action, ends the wait of each call that they made slow, and returns when all are carried out."""
        with self._lock:
            removed = [rule for rule in self._rules if rule.action == action]
            self._rules = [rule for rule in self._rules if rule.action != action]
        if not removed:
            raise ValueError(f"no rule is about {action}")
        for rule in removed:
            rule.released.set()
        for is_over in [one for rule in removed for one in rule.slow_calls]:
            is_over.wait(_CARRIED_OUT_SECONDS)

    def listed(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def fault(self, call: AwsCall, request: Request) -> Rule | None:
        """The first fault whose turn it is; the rules after it do not count this call."""
        with self._lock:
            return next((rule for rule in self._rules if rule.fault and rule.strikes(call, request)), None)

    def changes(self, call: AwsCall, request: Request) -> list[tuple[str, dict[str, Any]]]:
        """What every `before` whose turn it is wants changed."""
        with self._lock:
            struck = [rule.before for rule in self._rules if rule.before and rule.strikes(call, request)]
        return [change for changes in struck for change in changes.items()]
