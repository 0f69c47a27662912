"""The story of `run-jobs`: a job that is warned of an interruption and comes to its end, one whose heartbeats stop, one that a
person cancels, and a spec that is wrong; the first pool has no capacity, and a budget pays. What must never be of them is in
job_invariants.py.

Machines and what their agents write are played by the story, by what stands in EC2 alone. So whatever a fault has changed,
the world continues: a machine sends its heartbeats, a command comes to its end once it has run, a person
cancels what there is. Each run begins at its moment of a clock of its own, which is a few hours behind EC2's at most.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from every_fault import EXEMPTIONS, ONLY_LOG_UNREAD, Call, Plot
from job_invariants import CANCELLED, ENDS, JOBS, STOPS_BEATING, WRONG, lives, never
from jobs import LISTS_AT_MINUTE, SPEC, JobAccount, sample
from local_aws import LocalAws
from local_aws.client import ACCOUNT, REGION
from moto.s3.models import FakeKey, s3_backends
from reaping import BUCKET, Run, ago, moment, now, rfc3339
from reaping_budgets import budget_key, month
from scenario_account import OneOfEach

# By run, minutes since the story began. A launch that is denied to a job which had a machine is held for a quarter of an hour: it comes at
# minute 30, and its job ends at 45. The last run finds nothing left to do.
MINUTES = (0, 1, 3, 15, 16, 17, 18, 30, 45, 46)
# The runs in which that happens, if there is a machine by then. No two jobs want money in one run: which comes second would be chance.
SUBMITTED, WARNED, ENDING, CANCELLING = (0, 1, 4), 2, 5, 6  # and in the fourth heartbeats have been missing long enough
STRUCK_RUNS = CANCELLING + 1
LISTS_ALL = 3  # the story begins so that this run lists all jobs
BUDGETED = (0, STRUCK_RUNS)  # the runs before which `enforce-budgets` has said where budgets stand: that is believed for an hour
TEAM_USD, ACCOUNT_USD = 100, 500
EXPIRES_AFTER = timedelta(minutes=10)

SUBMITTED_IN = {ENDS: SUBMITTED[0], STOPS_BEATING: SUBMITTED[1], WRONG: SUBMITTED[1], CANCELLED: SUBMITTED[2]}

_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,}=*")
_OF_WHICH = re.compile(f"/({'|'.join(JOBS)})(-[0-9a-f]{{8}})?")
_OF_A_JOB = re.compile(r"vision/(\w+)-[0-9a-f]{8} \(owner ")
_THINGS = (
    (re.compile(r"attempt (\d+) runs on"), "runs {}"),
    (re.compile(r"it (succeeded|failed|expired|was cancelled) at"), "ended: {}"),
    (re.compile(r"once it is gone another one is launched"), "interrupted"),
    (re.compile(r"It is launched again"), "lost"),
    (re.compile(r"nothing can be launched for it"), "waits"),
    (re.compile(r"it is not launched"), "held"),
)


@dataclass
class OneJobOfEach(OneOfEach):
    began: datetime = field(default_factory=now)
    warned: str = ""
    is_sweep: bool = True
    heard: list[tuple[str, str]] = field(default_factory=list)
    beaten: set[str] = field(default_factory=set)
    built: dict[str, list[str]] = field(default_factory=dict)
    instances: list[dict[str, Any]] = field(default_factory=list)  # as they were seen last, and what was read last of the bucket
    objects: dict[str, str] = field(default_factory=dict)
    documents: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def jobs(self) -> JobAccount:
        assert isinstance(self.account, JobAccount)
        return self.account

    def at(self, number: int) -> datetime:
        return self.began + timedelta(minutes=MINUTES[number])

    # What happens meanwhile

    def before(self, run: int) -> None:
        if run == 0:
            self.began = _begin()
        at = self.at(run)
        self.heard.clear()
        if run in BUDGETED:
            self._budgets(at)
        for name in (name for name, submitted in SUBMITTED_IN.items() if submitted == run):
            key = self.jobs.submit(name, "command = 1" if name == WRONG else SPEC)
            # An answer of the same second as what it answers is looked at again: S3's moments are whole seconds.
            self.jobs.aws.set_object(BUCKET, key, now() - timedelta(minutes=1))
        if self.warned:
            self.jobs.aws.interrupt(self.warned)  # the two minutes are over
        live = [one for one in self.instances if lives(one["State"]["Name"]) and one["InstanceId"] != self.warned]
        self.warned = ""
        for machine in live:
            self._play(machine["InstanceId"], _tags(machine), run, at)
            if run == WARNED and _name(_tags(machine)["curfew:job"]) == ENDS:
                self.warned = machine["InstanceId"]
        cancelled = self._id(CANCELLED)
        if run >= CANCELLING and cancelled and f"jobs/{cancelled}/cancel.json" not in self.objects:
            self.jobs.put(f"jobs/{cancelled}/cancel.json", _document(at=rfc3339(at), by="ada"))

    def _budgets(self, at: datetime) -> None:
        """As `enforce-budgets` says again and again; what is reserved is another's."""
        for key, usd, of in ((self._key("vision"), TEAM_USD, {"team": "vision"}), (self._key(), ACCOUNT_USD, {})):
            before = self._read(key) or {}
            said = {"month": month(at), "budget_usd": usd, "spent_usd": 0.0, "over_budget": "hold", "mode": "enforce"}
            self.jobs.put(key, _document(**{**before, **said, **of, "as_of": rfc3339(at - timedelta(minutes=1))}))

    def _play(self, instance: str, tags: dict[str, str], run: int, at: datetime) -> None:
        """What the agent of a machine does before that run."""
        job, attempt = tags["curfew:job"], int(tags["curfew:attempt"])
        name = _name(job)
        folder = f"attempts/{job}/{attempt}"
        if name == ENDS and run >= ENDING:
            result = {"succeeded": True, "code": 0, "why": "", "at": rfc3339(at)}
            self.jobs.put(f"attempts/{job}/head.json", _document(attempt=attempt, result=result))
            self.jobs.put(f"{folder}/exit.json", _document(attempt=attempt, at=rfc3339(at), reason="succeeded", code=0, why=""))
            self.jobs.aws.shut_down(instance)
            return
        is_new = instance not in self.beaten
        if name == STOPS_BEATING and attempt == 1 and not is_new:
            return
        self.beaten.add(instance)
        key = f"{folder}/heartbeat.json"
        self.jobs.put(key, _document(at=rfc3339(at), attempt=attempt, doing="running"))
        self.jobs.aws.set_object(BUCKET, key, at - timedelta(seconds=20))
        if is_new:
            self.jobs.put(f"attempts/{job}/head.json", _document(attempt=attempt, checkpoint={"attempt": attempt, "step": 10 * run}))

    def run(self, number: int, **how: Any) -> Run:
        event = None
        cancelled = f"jobs/{self._id(CANCELLED)}/cancel.json"
        written = {SUBMITTED[0]: f"inbox/vision/{ENDS}.toml", SUBMITTED[2]: f"inbox/vision/{CANCELLED}.toml", CANCELLING: cancelled}
        if number in written and not (number == CANCELLING and self._id(CANCELLED) is None):
            event = sample("s3-object-created-inbox")
            event["detail"]["bucket"]["name"], event["detail"]["object"]["key"] = BUCKET, written[number]
        if self.warned:
            event = self.jobs.event_of("ec2-spot-interruption-warning", self.warned)
        self.is_sweep = event is None
        return self.jobs.tick_at(self.at(number), event=event, **how)

    # What is seen

    def named_object(self, key: str) -> str:
        """By its key, without ids of runs and builds."""
        folder = key.partition("/")[0] + "/"
        return folder if folder in ("plans/", "agent/", "config/", "prices/") else key

    def failed_steps(self, run: Run) -> list[tuple[str, str]]:
        """They are not notified: a failed step is retried, and the state says so."""
        return []

    def world(self) -> dict[str, dict[str, Any]]:
        """Nothing is there from the beginning; what is launched is kept."""
        return {}

    def recorded(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self.jobs.keys("plans/"):
            for step in self.jobs.read(key)["steps"]:
                found.setdefault(_name(step["evidence"]["job"]), []).append(f"{step['action']} {step['outcome']}")
        return {name: sorted(steps) for name, steps in found.items()}

    def remembered(self) -> dict[str, Any]:
        """A memory of nothing is none."""
        return {key: one for key, one in super().remembered().items() if any(one.values())}

    def told(self, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Without the notifications about jobs, which follow from their states, and are judged by those."""
        return [thing for thing in super().told(messages) if thing[0] not in JOBS]

    def _thing(self, paragraph: str) -> tuple[str, str]:
        if paragraph.startswith(f"The job s3://{BUCKET}/inbox/vision/{WRONG}.toml was not accepted"):
            return WRONG, "rejected"
        of = _OF_A_JOB.match(paragraph)
        if of is None:
            return super()._thing(paragraph)
        said = ((words.search(paragraph), thing) for words, thing in _THINGS)
        thing = next((thing.format(*found.groups()) for found, thing in said if found), "found")
        self.heard.append((of[1], thing))
        return of[1], thing

    def kept(self) -> dict[str, Any]:
        self._look()
        reserved = {"team": self._key("vision"), "account": self._key()}
        return {
            "jobs": {name: self._job(name) for name in JOBS},
            "machines": [self._machine(one) for one in self.instances],
            "warned": self.warned,
            "is_sweep": self.is_sweep,
            "heard": list(self.heard),
            "answers": {name: self._answer(name) for name in SUBMITTED_IN},
            "active": [_name(key) for key in self.objects if key.startswith("active/")],
            "reserved": {
                holder: {_name(job): one for job, one in (self._read(key) or {}).get("reservations", {}).items()}
                for holder, key in reserved.items()
            },
        }

    def _key(self, team: str | None = None) -> str:
        return budget_key(team, self.began)

    def _look(self) -> None:
        """Once a run: looking costs as much as what is looked at."""
        pages = self.jobs.aws.client("ec2").describe_instances()["Reservations"]
        self.instances = [one for page in pages for one in page["Instances"]]
        stored = _stored()
        self.objects = {key: stored[key].etag for key in stored if isinstance(stored[key], FakeKey)}

    def _read(self, key: str) -> Any:
        """A document as it was at the last look; `None` where there was none."""
        if key not in self.objects:
            return None
        version = (key, self.objects[key])
        if version not in self.documents:
            self.documents[version] = json.loads(_stored()[key].value)
        return self.documents[version]

    def _id(self, name: str) -> str | None:
        ids = {"/".join(key.split("/")[1:3]) for key in self.objects if key.startswith(f"jobs/vision/{name}-")}
        assert len(ids) <= 1, f"one document became two jobs: {ids}"
        return next(iter(ids), None)

    def _job(self, name: str) -> dict[str, Any] | None:
        document = self._read(f"jobs/{self._id(name)}/state.json")
        if document is None:
            return None
        phase = document["phase"]
        of = phase.get("of", {})
        machine = of if phase["state"] == "running" else of.get("machine")
        ends_at = machine and moment(machine["ends_at"])
        return {
            "state": phase["state"],
            "result": of.get("result"),
            "why": of.get("why"),
            "closed": of.get("closed", False),
            "attempt": document["attempt"],
            "machine": machine and machine["instance"],
            "machine_attempt": machine and machine["attempt"],
            "expires_at": ends_at and rfc3339(ends_at + EXPIRES_AFTER),
            "reserved": document["reserved"],
        }

    def _answer(self, name: str) -> str | None:
        if f"inbox/vision/{name}.toml" not in self.objects:
            return None
        answers = [ending for ending in ("accepted", "rejected") if f"inbox/vision/{name}.{ending}.json" in self.objects]
        return " and ".join(answers) or "nothing"

    def _machine(self, one: dict[str, Any]) -> dict[str, Any]:
        tags, instance = _tags(one), one["InstanceId"]
        if instance not in self.built:
            self.built[instance] = list(self._badly_built(one, tags))
        return {
            "id": instance,
            "job": _name(tags.get("curfew:job", "/")),
            "attempt": int(tags.get("curfew:attempt", 0)),
            "state": one["State"]["Name"],
            "expires_at": tags.get("curfew:expires-at"),
            "wrong": self.built[instance],
        }

    def _badly_built(self, one: dict[str, Any], tags: dict[str, str]) -> Iterator[str]:
        """What a machine lacks that each must have from the moment when it is launched."""
        ec2, instance = self.jobs.aws.client("ec2"), one["InstanceId"]
        asked = {"InstanceId": instance, "Attribute": "instanceInitiatedShutdownBehavior"}
        if ec2.describe_instance_attribute(**asked)["InstanceInitiatedShutdownBehavior"]["Value"] != "terminate":
            yield "it only stops when it shuts itself down"
        wanted = {"Team": "vision", "Owner": "ada@example.com", "curfew:mode": "enforce", "Name": _id_of(tags)}
        lacks = {key: tags.get(key) for key, value in wanted.items() if tags.get(key) != value}
        lacks |= {key: None for key in ("curfew:job", "curfew:attempt", "curfew:expires-at") if key not in tags}
        if lacks:
            yield f"its tags are not what they must be: {lacks}"
        volumes = [device["Ebs"]["VolumeId"] for device in one["BlockDeviceMappings"]]
        for volume in ec2.describe_volumes(VolumeIds=volumes)["Volumes"]:
            if not volume["Encrypted"]:
                yield "a volume of it is not encrypted"
            if _tags(volume) != tags:
                yield f"a volume of it has the tags {_tags(volume)}"
        if not all(device["Ebs"]["DeleteOnTermination"] for device in one["BlockDeviceMappings"]):
            yield "a volume outlives it"
        data = self.jobs.user_data(instance)
        parts = [base64.b64decode(part) for part in _BASE64.findall(data)]
        who = [b'"' + tags.get(key, "?").encode() for key in ("curfew:job", "curfew:attempt")]
        if "text/cloud-boothook" not in data or not any(who[0] in part and who[1][1:] in part for part in parts):
            yield "its user data does not say who it is"


def _begin() -> datetime:
    """The last time before now by which all stories make the same calls. Budgets are of a month, so no story continues into the next."""
    listing = now().replace(minute=LISTS_AT_MINUTE, second=0, microsecond=0)
    begins = (listing + timedelta(hours=1 - back, minutes=-MINUTES[LISTS_ALL]) for back in range(3))
    return next(at for at in begins if at <= now() and month(at) == month(at + timedelta(minutes=MINUTES[-1] + 10)))


def _document(**fields: Any) -> bytes:
    return json.dumps({"schema": 1, **fields}).encode()


def _tags(of: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in of.get("Tags", ())}


def _id_of(tags: dict[str, str]) -> str:
    return tags.get("curfew:job", "").rpartition("/")[2]


def _stored() -> Any:
    """What moto, which is in this process, has in the bucket: asking for it by HTTP took a third of the time of a trial."""
    return s3_backends[ACCOUNT]["aws"].buckets[BUCKET].keys


def _name(job: str) -> str:
    """Of `vision/ends-0123abcd` what its document calls it."""
    return job.rpartition("/")[2].rpartition("-")[0]


def one_job_of_each(aws: LocalAws) -> OneJobOfEach:
    jobs = JobAccount(aws)
    hold = {"over_budget": "hold"}
    jobs.configure(
        account={"monthly_budget_usd": ACCOUNT_USD, **hold}, teams={"vision": {"monthly_budget_usd": TEAM_USD, **hold}}
    )
    aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.2, "us-east-1b": 0.3, "us-east-1c": 0.4}, since=ago(hours=5))
    aws.set_capacity(0, "g5.xlarge", zone="us-east-1a")
    return OneJobOfEach(jobs, {}, "", ())


def alike(call: Call) -> tuple[object, ...]:
    """What is asked for one job is asked for each. Each swap of a state is one of its own, as is each message, and each call after
    a warning."""
    on = _OF_WHICH.sub("/job", re.sub(r"(/attempts/.*)/\d+/", r"\1/", call.on))
    is_swap = call.action == "s3:PutObject" and on.endswith("/state.json")
    in_run = call.run if call.action == "sns:Publish" else call.run == WARNED
    return call.action, on, in_run, call.nth if is_swap else 0


PLOT = Plot(
    function="run-jobs",
    seed=one_job_of_each,
    regions=(REGION,),
    deadline_seconds=300,
    struck_runs=STRUCK_RUNS,
    runs=len(MINUTES),
    asked_again=0,
    ended=("terminated",),
    ends=(),
    exemptions=(
        *EXEMPTIONS,
        replace(
            ONLY_LOG_UNREAD,
            why="without the memory of the home region a run cannot tell a fault just once a day; the response has it",
            untold=(("", f"{REGION}, s3:GetObject"),),
        ),
    ),
    fails={("s3:GetObject", "config/"): "ReconcileError: "},  # the configuration is unknown
    wrongs=never,
    of_a_look=1,
    hangs=False,
    alike=alike,
)
