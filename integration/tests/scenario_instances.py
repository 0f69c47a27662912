"""The story of `reap-instances`: one instance for each rule and each kind of step, in one region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from every_fault import EVERY, EXEMPTIONS, FAILS, ONLY_LOG_UNREAD, Exemption, Plot, Story
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import BUCKET, Account, ago, now, rfc3339
from scenario_account import NOTICES, OneOfEach

STRUCK_RUNS = 3  # two with work, and the one that remembers that it is done
OBSERVED = "idle and observed"
ON_SPOT = ("idle to terminate", "idle on persistent Spot")

_THINGS = (
    ("is called off", "called off"),
    ("It will be ", "announced"),
    ("It would be stopped at", "would be announced"),
    ("It would be stopped now", "would be stopped"),
    ("It was stopped", "stopped"),
    ("It was terminated", "terminated"),
    ("Its start was requested", "started"),
    ("Curfew only notifies: ", "notified"),
)


@dataclass
class OneInstanceOfEach(OneOfEach):
    def before(self, run: int) -> None:
        """After the struck ones a window passes: what was asked of CloudWatch is asked again, as without this memory."""
        for key in self.account.keys("activity/") if run >= STRUCK_RUNS else ():
            self.account.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)

    def world(self) -> dict[str, dict[str, Any]]:
        pages = self.account.aws.client("ec2").get_paginator("describe_instances").paginate()
        instances = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
        return {
            self.names[one["InstanceId"]]: {"state": one["State"]["Name"], "tags": self.tags(one)} for one in instances
        }


def one_instance_of_each(aws: LocalAws) -> OneInstanceOfEach:
    """Two runs have work in it, and the third has none."""
    account = Account(aws)
    account.configure(lifetime={"action": "stop"})
    past, over, evening = ago(minutes=5), ago(minutes=2), now() + timedelta(minutes=25)
    terminate, notify = {"curfew:on-idle": "terminate"}, {"curfew:on-idle": "notify"}
    spot, persistent = "one-time", "persistent"
    over_hours, evening_hours = (_hours(end) for end in (over, evening))
    always = "Mon-Sun 00:00-24:00 UTC"
    ids = {
        "expired": account.remember_labels(account.busy(account.gpu(tags={"curfew:expires-at": rfc3339(past)}))),
        "untagged": account.untagged("inf2.xlarge"),
        "idle": account.idle(account.gpu()),
        "idle to terminate": account.idle(account.gpu(spot_instance_request=spot, tags=terminate)),
        "idle to notify": account.idle(account.gpu(tags=notify)),
        "idle on persistent Spot": account.idle(account.gpu(spot_instance_request=persistent)),
        OBSERVED: account.idle(account.gpu(tags={"curfew:mode": "observe"})),
        "old": account.busy(account.gpu(launched=ago(days=9), tags={"Team": "nlp"})),
        "before its evening": account.busy(account.gpu(tags={"curfew:hours": evening_hours})),
        "after its hours": account.busy(account.gpu(tags={"curfew:hours": over_hours})),
        "asleep in its hours": account.remember_labels(
            account.gpu(
                tags={"curfew:hours": always, "curfew:stopped": f"hours {rfc3339(ago(hours=11))}"},
                launched=ago(days=2),
                state="stopped",
            )
        ),
        "mended": account.busy(account.gpu()),
        "uninstrumented": account.gpu(),
        "mistyped": account.idle(account.gpu(tags={"curfew:idle-after": "soon"})),
        "protected": account.idle(account.gpu(tags={"curfew:protected": ""})),
        "busy": account.busy(account.gpu()),
    }
    account.was_announced(ids["after its hours"], f"hours=stop@{rfc3339(_minute(over))}")
    account.was_announced(ids["mended"], f"idle=stop@{rfc3339(past)}")
    return OneInstanceOfEach(account, ids, OBSERVED, _THINGS)


def _minute(moment: Any) -> Any:
    """A whole minute, as hours are written."""
    return moment.replace(second=0, microsecond=0)


def _hours(end: Any) -> str:
    """Every day four hours, up to then; it may be over midnight."""
    return f"Mon-Sun {end - timedelta(hours=4):%H:%M}-{end:%H:%M} UTC"


def _nothing_else(_: Story) -> Iterator[str]:
    """What must never be of instances is said of all functions."""
    yield from ()


PLOT = Plot(
    function="reap-instances",
    seed=one_instance_of_each,
    regions=(REGION,),
    deadline_seconds=270,
    struck_runs=STRUCK_RUNS,
    runs=STRUCK_RUNS + 4,  # three make up for what the fault cost
    asked_again=STRUCK_RUNS,
    ended=("stopped", "terminated"),
    ends=("stop", "terminate"),
    of_a_look=1,
    exemptions=(
        *EXEMPTIONS,
        ONLY_LOG_UNREAD,
        Exemption(
            "ec2:DescribeSpotInstanceRequests",
            "",
            EVERY,
            "besides",
            "that a Spot request could not be read, and so nothing is done, is told of each instance besides",
            besides=tuple((name, "notified") for name in ON_SPOT),
        ),
    ),
    # In an account with one region.
    fails={
        **FAILS,
        ("s3:GetObject", f"{NOTICES}reap-instances/{REGION}.json"): "NothingSeen: ",  # without the log people would be notified twice
        ("ec2:DescribeInstances", ""): "NothingSeen: ",  # nothing is there to judge
        ("ec2:DescribeInstanceTypes", ""): "NothingSeen: ",  # the types with a GPU are unknown
    },
    wrongs=_nothing_else,
    # The mark that could not be removed after a stop. Once the instance runs again it is of an earlier life, and goes.
    stays=("ec2:DeleteTags", "stopped", "curfew:marked"),
    # Of what its owner let expire: it is stopped unannounced, and marked just before, as the role stops nothing unmarked.
    unannounced="expired=stop@",
)
