"""Rules that make chosen calls fail, hang or lose their answer, or that change the account just before a call.

A rule says which calls it means (action, region, a text that the request must mention), how many of them it
lets through first, how often it strikes, and what it does: a `fault`, or a `before` (see `back_door.apply`).
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import errors
from .aws_call import AwsCall
from .http_message import Request, Response

ERRORS: Dict[str, Callable[[AwsCall], Tuple[int, str, str]]] = {
    "throttle": errors.throttle,
    "error500": errors.error500,
    "access_denied": errors.access_denied,
    "scp_denied": errors.scp_denied,
    "not_found": errors.not_found,
    "insufficient_capacity": errors.insufficient_capacity,
}
# reset: closed before any answer, not carried out. lost_answer: carried out, then closed.
FAULTS = (*ERRORS, "custom", "slow", "reset", "lost_answer")


@dataclass
class Rule:
    action: str  # `ec2:StopInstances`; `*` and `?` are wildcards
    fault: Optional[str] = None
    before: Optional[Dict[str, Any]] = None
    region: Optional[str] = None
    match: Optional[str] = None
    skip: int = 0
    times: Optional[int] = 1  # None: always
    seconds: float = 1.0  # slow
    status: int = 400  # custom
    code: str = "CustomError"
    message: str = ""
    seen: int = 0
    struck: int = 0

    def __post_init__(self) -> None:
        if (self.fault is None) == (self.before is None):
            raise ValueError("a rule has either a fault or a before")
        if self.fault is not None and self.fault not in FAULTS:
            raise ValueError(f"unknown fault {self.fault!r}; there are {', '.join(FAULTS)}")

    def strikes(self, call: AwsCall, request: Request) -> bool:
        """Counts the call if the rule means it, and says whether it is the rule's turn."""
        if not fnmatchcase(call.action, self.action) or self.region not in (None, call.region):
            return False
        if self.match is not None and not request.mentions(self.match):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True

    def error(self, call: AwsCall) -> Optional[Response]:
        """The error answer of this rule; None for the faults of time and connection."""
        if self.fault == "custom":
            return errors.error_response(call, self.status, self.code, self.message)
        if self.fault in ERRORS:
            return errors.error_response(call, *ERRORS[self.fault](call))
        return None


class RuleBook:
    def __init__(self) -> None:
        self._rules: List[Rule] = []
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def listed(self) -> List[Dict[str, Any]]:
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def striking(self, call: AwsCall, request: Request) -> Tuple[List[Rule], Optional[Rule]]:
        """Every `before` whose turn it is, and the first fault; a later fault waits for the next call."""
        with self._lock:
            hooks = [rule for rule in self._rules if rule.before is not None and rule.strikes(call, request)]
            faults = (rule for rule in self._rules if rule.fault is not None and rule.strikes(call, request))
            return hooks, next(faults, None)
