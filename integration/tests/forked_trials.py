"""Many trials of one seeded account: it is seeded once, and each trial is carried out on a copy of it.

Seeding takes seconds, and moto keeps one account a process. So one process seeds it, and forks for each trial: the copy
costs milliseconds, trials see nothing of each other, and several are under way at once.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import IO, Any

from local_aws import LocalAws, check_calls, sns_corrections
from local_aws.client import ACCOUNT
from local_aws.proxy import Proxy
from local_aws.server import serving
from moto.backends import get_backend
from moto.core.utils import get_service_model

_POLL_SECONDS = 0.02
_THREADS_END_SECONDS = 60.0
# What a first use makes, a tenth of a trial, is made here, and not in each copy: botocore and moto read descriptions of megabytes.
_USED_ONCE = ("autoscaling", "cloudwatch", "ec2", "elb", "elbv2", "kms", "s3", "sagemaker", "sns", "sqs", "ssm")

Seed = Callable[[LocalAws], Any]
Trial = Callable[[LocalAws, Any, Any], Any]  # the copy's endpoint, what the seed answered, the subject; answers JSON


class TrialFailed(AssertionError):
    """A trial raised, or took too long."""


def trials(
    seed: Seed, trial: Trial, subjects: Sequence[Any], at_once: int, limit_s: float, regions: Sequence[str]
) -> Iterator[tuple[Any, Any]]:
    """Each subject with what its trial answered, in the order in which they end.

    `seed`, `trial` and the subjects go to another process, so they are functions of a module, and plain values. A trial
    that takes longer than `limit_s` is killed, with everything that it started.
    """
    spawn = multiprocessing.get_context("spawn")  # of this process, whose threads are many, no copy is safe
    receiver, sender = spawn.Pipe(duplex=False)
    arguments = (sender, seed, trial, subjects, at_once, limit_s, regions)
    process = spawn.Process(target=_seed_and_fork, args=arguments, daemon=True)
    process.start()
    sender.close()
    try:
        for _ in subjects:
            try:
                place, answer, failure = receiver.recv()
            except EOFError:
                raise TrialFailed("the process that seeds the account ended") from None
            if failure is not None:
                raise TrialFailed(f"{subjects[place]}\n{failure}")
            yield subjects[place], answer
    finally:
        process.terminate()
        process.join()


@dataclass
class _Running:
    place: int
    process_id: int
    answer: IO[bytes]
    until: float


def _seed_and_fork(
    results: Connection,
    seed: Seed,
    trial: Trial,
    subjects: Sequence[Any],
    at_once: int,
    limit_s: float,
    regions: Sequence[str],
) -> None:
    running: dict[int, _Running] = {}
    signal.signal(signal.SIGTERM, lambda *_: _kill_all(running))
    proxy = Proxy(regions)
    with serving(proxy) as aws:
        seeded = seed(aws)
        for service in _USED_ONCE:
            aws.client(service)
            get_service_model(service)
            get_backend(service)[ACCOUNT]
        sns_corrections.signing_key()
        aws.client.cache_clear()
    del aws
    _wait_until_alone()
    waiting = list(enumerate(subjects))[::-1]
    while waiting or running:
        while waiting and len(running) < at_once:
            place, subject = waiting.pop()
            one = _forked(proxy, trial, seeded, place, subject, limit_s)
            running[one.process_id] = one
        for process_id in _ended(running):
            one = running.pop(process_id)
            one.answer.seek(0)
            answer, failure = json.loads(one.answer.read() or b'[null, "killed: it took too long"]')
            one.answer.close()
            results.send((one.place, answer, failure))


def _wait_until_alone() -> None:
    """A copy has no thread but the one that forks: what another one held would be held for ever."""
    gc.collect()  # closes the clients' connections, by which the server's threads end
    until = time.monotonic() + _THREADS_END_SECONDS
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    assert threading.active_count() == 1, f"threads before the fork: {threading.enumerate()}"
    gc.freeze()  # a copy that looks for garbage in what it shares would copy all of it


def _forked(proxy: Proxy, trial: Trial, seeded: Any, place: int, subject: Any, limit_s: float) -> _Running:
    answer = tempfile.TemporaryFile()
    process_id = os.fork()
    if process_id:
        return _Running(place, process_id, answer, time.monotonic() + limit_s)
    try:
        os.setpgid(0, 0)  # whatever it starts is killed with it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with serving(proxy) as aws:
            outcome = (trial(aws, seeded, subject), None)
            check_calls(aws)
    except BaseException:
        outcome = (None, traceback.format_exc())
    answer.write(json.dumps(outcome).encode())
    answer.flush()
    os._exit(0)  # no cleaning up: it would be that of the process of which this is a copy


def _ended(running: dict[int, _Running]) -> list[int]:
    """Waits for one to end; kills those that take too long."""
    while True:
        process_id, _ = os.waitpid(-1, os.WNOHANG)
        if process_id:
            return [process_id]
        for one in running.values():
            if time.monotonic() > one.until:
                os.killpg(one.process_id, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _kill_all(running: dict[int, _Running]) -> None:
    for one in running.values():
        os.killpg(one.process_id, signal.SIGKILL)
    os._exit(1)
