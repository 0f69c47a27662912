"""An account that is reaped: builders for what stands in it, and the real function run on it.

account = Account(aws)                          # in tests: the fixture `account`
account.configure(idle={"grace": "1h"})
gpu = account.idle(account.gpu(tags={"curfew:on-idle": "terminate"}))
run = account.tick()
assert run.step(gpu)["action"] == "mark"
"""

from __future__ import annotations

import json
import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from earlier_runs import key_of, log_of, record_of_labels, rfc3339
from local_aws import LocalAws
from local_aws.client import REGION
from moved_clock import MovedClock
from runtime_api import Function, Invocation
from template_actions import permissions

REPOSITORY = Path(__file__).resolve().parents[2]


def binary(function: str) -> Path:
    return REPOSITORY / "target" / "debug" / function


def scheduled(function: str) -> bytes:
    return (REPOSITORY / "events" / function / "scheduled-rule.json").read_bytes()


BINARY = binary("reap-instances")
SUBSCRIBER = "platform@example.com"
BUCKET = "curfew-state"
EUROPE = "eu-central-1"
REGIONS = [EUROPE, REGION]  # those that the account has enabled, in order
TAGGED = {"Team": "vision", "Owner": "ada"}

# Of all functions: what changes nothing.
EC2_LOOKS = {action for action, row in permissions().items() if action.startswith("ec2:") and not row["condition"]}

# Every team is in enforce mode, without grace: one run marks, and the next one acts.
EAGER: dict[str, Any] = {
    "mode": "enforce",
    "untagged": {"mode": "enforce", "settle": "0s", "grace": "0s"},
    "idle": {"window": "15m", "grace": "0s", "local_disk": "expendable"},
    "lifetime": {"grace": "0s"},
    "limits": {"fleet_share_max_percent": 100},
}

_WARM: list[Function] = []

_PERIOD = timedelta(minutes=5)
_QUIET = {"gpu": 0.0, "cpu": 0.2, "bytes": 40_000.0}
_BUSY = {"gpu": 97.0, "cpu": 60.0, "bytes": 9e8}


def now() -> datetime:
    return datetime.now(timezone.utc)


def ago(**span: float) -> datetime:
    return now() - timedelta(**span)


def within_a_month() -> datetime:
    """Now, but tomorrow on the first of a month: on that day what began hours before, and what is reported, is of the month before."""
    return now() + timedelta(days=1 if now().day == 1 else 0)


def let_a_second_pass() -> None:
    """Until the next one begins: two beats of one second are one."""
    time.sleep(1.01 - time.time() % 1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def stop_the_warm() -> None:
    while _WARM:
        _WARM.pop().__exit__(None, None, None)


@dataclass(frozen=True)
class Run:
    """What one invocation answered, asked of AWS, and told."""

    invocation: Invocation
    calls: list[dict[str, Any]]
    messages: list[dict[str, Any]]

    @property
    def response(self) -> dict[str, Any]:
        return self.invocation.response

    @property
    def error(self) -> str:
        """The sentence of an invocation that failed."""
        assert self.invocation.error is not None, f"the function succeeded: {self.invocation.body!r}"
        return self.invocation.error["errorMessage"]

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.response["steps"]

    @property
    def skipped(self) -> dict[str, int]:
        return self.response["skipped"]

    @property
    def gaps(self) -> list[dict[str, Any]]:
        return self.response["gaps"]

    @property
    def counts(self) -> Counter:
        return Counter(call["action"] for call in self.calls)

    @property
    def ec2_writes(self) -> list[tuple[str, ...]]:
        """Every call that changes something on EC2: its action and the resources it names. Whatever is not known to
        only look counts as one."""
        return [
            (call["action"].removeprefix("ec2:"), *call["resources"])
            for call in self.calls
            if call["action"].startswith("ec2:") and call["action"] not in EC2_LOOKS
        ]

    def step(self, resource_id: str) -> dict[str, Any]:
        found = [step for step in self.steps if step["resource"] == resource_id]
        assert len(found) == 1, f"{len(found)} steps for {resource_id}: {self.response}"
        return found[0]

    def said(self, resource_id: str) -> tuple[str, str, str]:
        """Action, rule and outcome of its step."""
        step = self.step(resource_id)
        return step["action"], step["evidence"]["rule"], step["outcome"]

    def message(self, team: str = "vision") -> str:
        found = [one["message"] for one in self.messages if one["attributes"]["team"] == team]
        assert len(found) == 1, f"{len(found)} messages for {team}: {self.messages}"
        return found[0]

    def severities(self) -> dict[str, str]:
        """Of each team's message; one that got two would be seen by `message`."""
        return {one["attributes"]["team"]: one["attributes"]["severity"] for one in self.messages}

    @property
    def is_quiet(self) -> bool:
        """Nothing was told, nothing was changed on EC2, and nothing new is remembered of what was told."""
        puts = [key for call in self.calls if call["action"] == "s3:PutObject" for key in call["resources"]]
        return not self.messages and not self.ec2_writes and not any("/notices/" in key for key in puts)


class Account:
    """A state bucket, a topic that somebody gets by e-mail, and the reaper, in enforce mode unless said otherwise."""

    function = "reap-instances"
    eager = EAGER

    def __init__(self, aws: LocalAws, heard: bool = True) -> None:
        self.aws = aws
        aws.client("s3").create_bucket(Bucket=BUCKET)
        self.topic_arn = aws.client("sns").create_topic(Name="curfew")["TopicArn"]
        if heard:
            self.subscribe()
        self.configure()
        self._function: Function | None = None
        self._over: dict[str, str | None] = {}
        self._is_as_new = True
        self._clock: MovedClock | None = None
        self._told = 0  # messages, so far

    def __enter__(self) -> Account:
        return self

    def __exit__(self, *_: object) -> None:
        """As with Lambda, a process serves the next invocation, be it of another test; but not one that met faults,
        whose quota of retries is not what it was."""
        if self._function is not None and self._is_as_new:
            _WARM.append(self._function)
        elif self._function is not None:
            self._function.__exit__(None, None, None)
        self._function = None

    # What is there

    def subscribe(self, topic_arn: str | None = None) -> None:
        """By e-mail, as people do: SNS suspends that at too many messages in a second, and nothing else."""
        self.aws.client("sns").subscribe(TopicArn=topic_arn or self.topic_arn, Protocol="email", Endpoint=SUBSCRIBER)
        self.aws.confirm_subscription(SUBSCRIBER)

    def configure(self, **sections: Any) -> None:
        """Writes the configuration: the eager one, with these keys instead of its own or besides."""
        config = deepcopy(self.eager)
        for name, value in sections.items():
            if isinstance(value, dict):
                config.setdefault(name, {}).update(value)
            else:
                config[name] = value
        self.write_config(_toml(config))

    def write_config(self, text: str | bytes) -> None:
        self.put("config/curfew.toml", text if isinstance(text, bytes) else text.encode())

    def put(self, key: str, body: bytes) -> None:
        self.aws.put(BUCKET, key, body)

    def read(self, key: str) -> Any:
        found = self.aws.object(BUCKET, key)
        # Where there is none S3 says so.
        return json.loads(found if found is not None else self.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        return self.aws.keys(BUCKET, prefix)

    def gpu(
        self,
        instance_type: str = "g5.xlarge",
        region: str = REGION,
        launched: datetime | None = None,
        tags: dict[str, str] | None = None,
        **fields: Any,
    ) -> str:
        """A running instance of team vision that nothing is wrong with, 5 hours old; `tags` come on top."""
        tags = {**TAGGED, **(tags or {})}
        return self.aws.run_instance(instance_type, tags, region, launch_time=launched or ago(hours=5), **fields)

    def of_job(self, instance_id: str, job: str = "vision/a-0123abcd", region: str = REGION) -> str:
        """Writes a state of that job that knows the instance, as a machine that EC2 has not shown gone yet."""
        terms = {"gpu": {"count": 1, "memory_gib_min": 0, "types": []}, "spot": None, "max_runtime_seconds": 3600}
        terms |= {"finish_by": None, "max_usd": None, "checkpoint": None}
        terms["machine"] = {"regions": [], "subnets": [], "security_groups": []}
        machine = {"instance": instance_id, "region": region, "zone": f"{region}a", "type": "g5.xlarge", "lifecycle": "on-demand"}
        machine |= {"rate": 1.006, "rate_max": 1.006, "attempt": 1, "candidate": 0}
        machine |= {"launched_at": rfc3339(ago(hours=5)), "ends_at": rfc3339(ago(hours=-5))}
        state = {"schema": 1, "job": job, "owner": None, "terms": terms, "submitted_at": rfc3339(ago(hours=6)), "attempt": 1}
        state |= {"phase": {"state": "submitted"}, "previous_attempt": machine, "used": {"seconds": 0, "usd": 0.0}}
        state |= {"progress": {"step": None, "attempts_without": 0}, "reserved": None, "ranking": None}
        self.put(f"jobs/{job}/state.json", json.dumps({**state, "unplaced_since": None, "notified": None}).encode())
        return instance_id

    def untagged(self, instance_type: str = "g5.xlarge", region: str = REGION, **fields: Any) -> str:
        """One without any tags but these."""
        tags = fields.pop("tags", {})
        launched = fields.pop("launched", ago(hours=5))
        return self.aws.run_instance(instance_type, tags, region, launch_time=launched, **fields)

    def idle(self, instance_id: str, region: str = REGION, gpus: int = 1, memory_mib: float = 3.0) -> str:
        """Two hours of nothing, up to now."""
        self._report(instance_id, region, gpus, _QUIET, memory_mib)
        return instance_id

    def busy(self, instance_id: str, region: str = REGION, gpus: int = 1) -> str:
        self._report(instance_id, region, gpus, _BUSY, 20_000.0)
        return instance_id

    def reports(self, instance_id: str, metric: str, values: list[float], region: str = REGION) -> None:
        """One of EC2's metrics: the last value is the newest."""
        start = now() - _PERIOD * len(values)
        self.aws.put_metrics("AWS/EC2", metric, {"InstanceId": instance_id}, values, start, region=region)

    def _report(self, instance_id: str, region: str, gpus: int, level: dict[str, float], memory_mib: float) -> None:
        count = 24
        start = now() - _PERIOD * count
        for index in range(gpus):
            device = {"InstanceId": instance_id, "index": str(index)}
            for metric, value in (("utilization_gpu", level["gpu"]), ("memory_used", memory_mib)):
                self.aws.put_metrics("CWAgent", f"nvidia_smi_{metric}", device, [value] * count, start, region=region)
        for metric, value in (("CPUUtilization", level["cpu"]), ("NetworkIn", level["bytes"]), ("NetworkOut", 100.0)):
            self.reports(instance_id, metric, [value] * count, region)

    def state(self, instance_id: str, region: str = REGION) -> str:
        return self.aws.instance(instance_id, region)["State"]["Name"]

    def tag(self, resource_id: str, region: str = REGION, **tags: str) -> None:
        """`tag(id, mode="enforce")` sets `curfew:mode`; an underscore is a hyphen."""
        named = {f"curfew:{key.replace('_', '-')}": value for key, value in tags.items()}
        self.aws.tag(resource_id, named, region)

    def mark(self, resource_id: str, region: str = REGION) -> str | None:
        return self.aws.tags(resource_id, region).get("curfew:marked")

    # What earlier runs left in the log

    def remember(self, resource_id: str, region: str = REGION, **entry: Any) -> None:
        """Adds to what the log of notifications has about a resource."""
        key = self.notices(region)
        log = self.read(key) if key in self.keys(key) else log_of({})
        log["resources"].setdefault(resource_id, {}).update(entry)
        self.put(key, json.dumps(log).encode())

    def remember_labels(self, instance_id: str, region: str = REGION) -> str:
        """As if Curfew had written the labels of this instance itself, and had seen its expiry in time."""
        instance = self.aws.instance(instance_id, region)
        tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
        self.remember(instance_id, region, **record_of_labels(instance["LaunchTime"], tags))
        return instance_id

    def was_announced(self, instance_id: str, mark: str, region: str = REGION) -> str:
        """An earlier run has announced this, and written the mark."""
        self.tag(instance_id, region, marked=mark)
        return self.remember_labels(instance_id, region)

    # The reaper

    def environment(self, **over: str | None) -> dict[str, str]:
        variables = {
            **self.aws.environment(),
            "CURFEW_BUCKET": BUCKET,
            "CURFEW_TOPIC_ARN": self.topic_arn,
            "CURFEW_MODE": "enforce",
            **over,
        }
        return {name: value for name, value in variables.items() if value is not None}

    def restart(self, **over: str | None) -> None:
        """The next run is by a new process, with this environment."""
        self.stop()
        self._over = over
        self._is_as_new = False

    def stop(self) -> None:
        """Ends the process."""
        if self._function is not None:
            self._function.__exit__(None, None, None)
        self._function = None

    @property
    def process_id(self) -> int:
        assert self._function is not None, "nothing has run yet"
        return self._function.process_id

    def tick(self, event: Any = None, deadline_s: float = 900, timeout_s: float = 180) -> Run:
        """One run, by its schedule if not by another event, and what it did: the calls and messages since the last one
        are not of it."""
        if self._function is None:
            self._function = self._warm_or_new()
        self._is_as_new &= not self.aws.faults()
        self.aws.clear_calls()
        event = scheduled(self.function) if event is None else event
        invocation = self._function.invoke(event, deadline_s, timeout_s)
        told = self.aws.messages()
        run = Run(invocation, self.aws.calls(), told[self._told :])
        self._told = len(told)
        return run

    def tick_at(self, moment: datetime, stands: bool = True, **how: Any) -> Run:
        """One run at this moment by its process's own clock, which stands meanwhile, if not said otherwise, and then runs on from there: how long
        the run takes until it looks at the clock changes nothing."""
        # A little later, for a moment's fraction is often left out.
        begin = moment + timedelta(milliseconds=1)
        clock = self.move_to(begin)
        if not stands:
            return self.tick(**how)
        clock.stand_at(begin)
        try:
            return self.tick(**how)
        finally:
            clock.move_to(begin)

    def move_to(self, moment: datetime) -> MovedClock:
        """From now on its process has a clock of its own, which shows this moment and runs on from there."""
        if self._clock is None:
            self.stop()
            self._clock, self._is_as_new = MovedClock(), False
        if self._function is None:
            self._function = self._warm_or_new()
        self._function.wait_until_ready()
        self._clock.move_to(moment)
        return self._clock

    def _warm_or_new(self) -> Function:
        environment = self.environment(**self._over)
        for place, warm in enumerate(_WARM):
            if self._is_as_new and (warm.name, warm.env) == (self.function, environment):
                return _WARM.pop(place)
        return Function(binary(self.function), env=environment, clock=self._clock).__enter__()

    def notices(self, region: str = REGION) -> str:
        """The key of what is remembered of a region."""
        return key_of(self.function, region)

    def audit(self, run: Run) -> dict[str, Any]:
        """The audit record of a run."""
        day = moment(run.response["at"]).strftime("%Y-%m-%d")
        return self.read(f"plans/{day}/{self.function}/{run.response['run']}.json")


def _toml(config: dict[str, Any], path: str = "") -> str:
    """Nested dicts as a TOML document. JSON's texts, numbers, booleans and lists are TOML's too."""
    tables = {name: value for name, value in config.items() if isinstance(value, dict)}
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in config.items() if name not in tables]
    text = "\n".join([f"[{path}]" if path else "", *lines, ""])
    for name, table in tables.items():
        text += _toml(table, f"{path}.{json.dumps(name)}" if path else json.dumps(name))
    return text
