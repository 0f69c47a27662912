"""EventBridge, and the schedule: wakes the real functions whenever the real ones would be.

Which events wake `run-jobs` is what its rules in template.yaml say; the events are the samples of `events/`, about the instance or the
object at hand.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from local_aws import LocalAws
from local_aws.client import ACCOUNT
from moved_clock import MovedClock
from runtime_api import Function, Invocation

from .host import Host

REPOSITORY = Path(__file__).resolve().parents[2]
_LOOK_SECONDS = 0.1
_OBJECTS = ("inbox/*.toml", "jobs/*/cancel.json", "jobs/*/extend.json")
# The rule of template.yaml knows the first state of each end; the local AWS goes to the last at once.
_STATES = ("running", "stopping", "stopped", "shutting-down", "terminated")
_WARNING, _STATE = "ec2-spot-interruption-warning", "ec2-instance-state-change"


@dataclass(frozen=True)
class Woken:
    """One invocation: of what, why, and what came of it."""

    function: str
    why: str
    invocation: Invocation


class Control:
    """The control plane, from `with` on. `environment` is what its functions get; `every`, the seconds between two beats of the schedule, of
    all functions or of each; `at_once`, how many invocations of `run-jobs` there may be at a time, as Lambda starts another environment where
    the first is busy. `runs` has all invocations, in the order in which they ended."""

    def __init__(
        self,
        aws: LocalAws,
        environment: dict[str, str],
        functions: Iterable[str] = ("run-jobs",),
        every: float | dict[str, float] = 1.0,
        at_once: int = 1,
        clock: MovedClock | None = None,
        binaries: Path = REPOSITORY / "target" / "debug",
    ) -> None:
        self.aws, self.bucket, self.functions = aws, environment["CURFEW_BUCKET"], tuple(functions)
        self.every = every if isinstance(every, dict) else dict.fromkeys(self.functions, every)
        self.runs: list[Woken] = []
        self.looks = 0  # at what happens and at the time
        self._environments = {
            name: [Function(binaries / name, environment, clock=clock) for _ in range(at_once if name == "run-jobs" else 1)]
            for name in self.functions
        }
        self._events: dict[str, queue.Queue[tuple[str, Any] | None]] = {name: queue.Queue() for name in self.functions}
        self._runs_now = threading.Event()
        self._runs_now.set()
        self._over = threading.Event()
        self._busy = _Count()
        self._may_begin = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._failure: str | None = None

    def __enter__(self) -> Control:
        self._seen_states = self._states()
        self._seen_objects: dict[str, str] = {}
        for name, environments in self._environments.items():
            for function in environments:
                function.__enter__()
                self._begin(self._serve, name, function)
        self._begin(self._watch)
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._over.set()
        self._runs_now.set()
        for name, environments in self._environments.items():
            for _ in environments:
                self._events[name].put(None)
        for thread in self._threads:
            thread.join()
        for environments in self._environments.values():
            for function in environments:
                function.__exit__(None, None, None)
        if kind is None:
            assert self._failure is None, self._failure

    # What happens to it

    def pause(self) -> None:
        """The control plane is gone: no event is delivered, nor kept. Comes back when nothing of it runs any more."""
        self._runs_now.clear()
        self._busy.wait_until_none()

    def resume(self) -> None:
        """It is back, and gets no news of the time in between."""
        self._seen_states, self._seen_objects = self._states(), self._objects()
        self._runs_now.set()

    def wake(self, function: str = "run-jobs") -> None:
        """A beat of its schedule, now."""
        self._send(function, "schedule", _sample(function, "scheduled-rule"))

    @contextmanager
    def between_runs(self) -> Iterator[None]:
        """Nothing of it runs meanwhile; what is sent waits."""
        with self._may_begin:
            self._busy.wait_until_none()
            yield

    @property
    def is_idle(self) -> bool:
        """Whether every event that was sent has been handled."""
        return all(events.unfinished_tasks == 0 for events in self._events.values())

    # What AWS does to machines

    def interrupt(self, host: Host, notice: float = 6.0) -> None:
        """AWS interrupts a Spot machine: the machine and the bus get a warning, and later it is off, and EC2 reports why."""
        until = time.monotonic() + notice
        host.warn(notice)
        self._tell(_WARNING, host)
        host.dark.wait(max(until - time.monotonic(), 0))
        host.pull_the_plug()
        self.aws.interrupt(host.id, region=host.region)

    def pull_the_plug(self, host: Host, silent: bool = False) -> None:
        """It is off, without a warning. EC2 says that it took it back; or, where that is `silent`, goes on saying that it runs, as of a machine
        that hangs."""
        host.pull_the_plug()
        if not silent:
            self.aws.interrupt(host.id, region=host.region)

    # How it is done

    def _begin(self, what: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=self._guarded, args=(what, *arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, what: Any, *arguments: Any) -> None:
        try:
            what(*arguments)
        except Exception:  # re-raised in the thread that ends it
            self._failure = traceback.format_exc()

    def _serve(self, name: str, function: Function) -> None:
        """One environment: an invocation at a time."""
        while (asked := self._events[name].get()) is not None:
            with ExitStack() as stack:
                with self._may_begin:
                    stack.enter_context(self._busy)
                try:
                    if self._runs_now.is_set() and not self._over.is_set():
                        self.runs.append(Woken(name, asked[0], function.invoke(asked[1])))
                finally:
                    self._events[name].task_done()

    def _watch(self) -> None:
        beats_at = {name: time.monotonic() for name in self.functions}
        while not self._over.wait(_LOOK_SECONDS):
            self.looks += 1
            if not self._runs_now.is_set():
                continue
            for name in self.functions:
                # A beat that comes while the last one still runs finds nothing new: one is enough.
                if beats_at[name] <= time.monotonic() and self._events[name].empty():
                    beats_at[name] = time.monotonic() + self.every[name]
                    self.wake(name)
            if "run-jobs" in self.functions:
                self._tell_changes()

    def _tell_changes(self) -> None:
        objects, states = self._objects(), self._states()
        for key, written in objects.items():
            if self._seen_objects.get(key) != written and any(fnmatchcase(key, pattern) for pattern in _OBJECTS):
                event = _sample("run-jobs", "s3-object-created-inbox")
                event["detail"]["bucket"]["name"], event["detail"]["object"]["key"] = self.bucket, key
                self._send("run-jobs", key, event)
        for (instance, region), state in states.items():
            if self._seen_states.get((instance, region)) != state and state in _STATES:
                event = _of_instance(_STATE, instance, region)
                event["detail"]["state"] = state
                self._send("run-jobs", f"{instance} is {state}", event)
        self._seen_objects, self._seen_states = objects, states

    def _tell(self, name: str, host: Host) -> None:
        if self._runs_now.is_set() and "run-jobs" in self.functions:
            self._send("run-jobs", f"{name} of {host.id}", _of_instance(name, host.id, host.region))

    def _send(self, function: str, why: str, event: Any) -> None:
        self._events[function].put((why, event))

    def _objects(self) -> dict[str, str]:
        return {one["key"]: one["written"] for one in self.aws.objects(self.bucket)}

    def _states(self) -> dict[tuple[str, str], str]:
        return {(one["id"], one["region"]): one["state"] for one in self.aws.machines()}


class _Count:
    """Of those that are at work."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._number += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._number -= 1
            self._changed.notify_all()

    def wait_until_none(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._number == 0)


@cache
def _text(function: str, name: str) -> str:
    return (REPOSITORY / "events" / function / f"{name}.json").read_text()


def _sample(function: str, name: str) -> dict[str, Any]:
    """An event as AWS sends it."""
    return json.loads(_text(function, name))


def _of_instance(name: str, instance: str, region: str) -> dict[str, Any]:
    event = _sample("run-jobs", name)
    event["region"], event["detail"]["instance-id"] = region, instance
    event["resources"] = [f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance}"]
    return event
