"""An account with one instance for each rule and each kind of step, and everything that can be seen of it from outside:
what became of each instance, what was written down, and what people were told.

Instances have names, for their ids differ from one seed to the next; moments are left out of what is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import BUCKET, Account, ago, now, rfc3339

OBSERVED = "idle and observed"
ON_SPOT = ("idle to terminate", "idle on persistent Spot")
ENDED = ("stopped", "terminated")
NOTICES = f"notices/reap-instances/{REGION}.json"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z|\d\d:\d\d-\d\d:\d\d")
_INSTANCE = re.compile(r"i-[0-9a-f]{17}")

# What a paragraph says of its instance, by words that only such a paragraph has; the first that it contains.
_THINGS = (
    ("tries again: ", "failed"),
    ("is called off", "called off"),
    ("It will be ", "announced"),
    ("It would be stopped at", "would be announced"),
    ("It would be stopped now", "would be stopped"),
    ("It was stopped", "stopped"),
    ("It was terminated", "terminated"),
    ("It was started", "started"),
    ("Curfew leaves it alone", "notified"),
)


@dataclass
class OneOfEach:
    account: Account
    ids: dict[str, str]  # by name

    @property
    def names(self) -> dict[str, str]:
        return {instance_id: name for name, instance_id in self.ids.items()}

    def named(self, text: str) -> str:
        """Without ids and moments."""
        return _MOMENT.sub("<time>", _INSTANCE.sub(lambda found: self.names.get(found[0], found[0]), text))

    def world(self) -> dict[str, dict[str, Any]]:
        """State and tags of each instance."""
        pages = self.account.aws.client("ec2").get_paginator("describe_instances").paginate()
        instances = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
        return {
            self.names[one["InstanceId"]]: {
                "state": one["State"]["Name"],
                "tags": {tag["Key"]: self.named(tag["Value"]) for tag in one.get("Tags", ())},
            }
            for one in instances
        }

    def recorded(self) -> dict[str, list[str]]:
        """By instance: every action and outcome that an audit record has of it."""
        found: dict[str, list[str]] = {name: [] for name in self.ids}
        for key in self.account.keys("plans/"):
            for step in self.account.read(key)["steps"]:
                found[self.names[step["resource"]]].append(step["action"])
        return found

    def remembered(self) -> dict[str, Any]:
        """What the next run knows of what was told, but for faults: these may be remembered for a day."""
        if NOTICES not in self.account.keys("notices/"):
            return {}
        notices = self.account.read(NOTICES)
        told = {
            self.names[one]: sorted(topic for topic in topics if not topic.startswith("undone-"))
            for one, topics in notices["told"].items()
        }
        told = {name: topics for name, topics in told.items() if topics}
        marks = {kind: sorted(self.names[one] for one in notices[kind]) for kind in notices if kind.endswith("_marks")}
        return {"told": told, "owed": len(notices["owed"]), **marks}

    def a_window_passes(self) -> None:
        """What was asked of CloudWatch is asked again: without this memory, as after a window."""
        for key in self.account.keys("activity/"):
            self.account.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)

    def told(self, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Every paragraph of these messages: of which instance (none: of the account), and what it says."""
        return [self._thing(paragraph) for one in messages for paragraph in one["message"].split("\n\n")[1:-1]]

    def _thing(self, paragraph: str) -> tuple[str, str]:
        about = _INSTANCE.match(paragraph)
        if about is None:
            account_wide = re.match(rf"({REGION}, \w+:\w+)|(Curfew acts on nothing)", paragraph)
            assert account_wide, f"nobody knows what this is about: {paragraph}"
            return "", account_wide[0]
        found = next((thing for words, thing in _THINGS if words in paragraph), "found")
        if found == "failed":
            found = f"failed to {re.search('could not ([a-z]+) it', paragraph)[1]}"
        return self.names[about[0]], found


def one_of_each(aws: LocalAws) -> OneOfEach:
    """Two runs have work in it, and the third has none."""
    account = Account(aws)
    account.configure(lifetime={"action": "stop"})
    past, over, evening = ago(minutes=5), ago(minutes=2), now() + timedelta(minutes=25)
    terminate, notify = {"curfew:on-idle": "terminate"}, {"curfew:on-idle": "notify"}
    spot, persistent = "one-time", "persistent"
    over_hours, evening_hours = (_hours(end) for end in (over, evening))
    always = "Mon-Sun 00:00-24:00 UTC"
    ids = {
        "expired": account.busy(account.gpu(tags={"curfew:expires-at": rfc3339(past)})),
        "untagged": account.untagged("inf2.xlarge"),
        "idle": account.idle(account.gpu()),
        "idle to terminate": account.idle(account.gpu(spot_instance_request=spot, tags=terminate)),
        "idle to notify": account.idle(account.gpu(tags=notify)),
        "idle on persistent Spot": account.idle(account.gpu(spot_instance_request=persistent)),
        OBSERVED: account.idle(account.gpu(tags={"curfew:mode": "observe"})),
        "old": account.busy(account.gpu(launched=ago(days=9), tags={"Team": "nlp"})),
        "before its evening": account.busy(account.gpu(tags={"curfew:hours": evening_hours})),
        "after its hours": account.busy(account.gpu(tags={"curfew:hours": over_hours})),
        "asleep in its hours": account.gpu(
            tags={"curfew:hours": always, "curfew:stopped": f"hours {rfc3339(ago(hours=11))}"},
            launched=ago(days=2),
            state="stopped",
        ),
        "mended": account.busy(account.gpu()),
        "uninstrumented": account.gpu(),
        "mistyped": account.idle(account.gpu(tags={"curfew:idle-after": "soon"})),
        "protected": account.idle(account.gpu(tags={"curfew:protected": ""})),
        "busy": account.busy(account.gpu()),
    }
    account.tag(ids["after its hours"], marked=f"{ids['after its hours']} hours=stop@{rfc3339(_minute(over))}")
    account.tag(ids["mended"], marked=f"{ids['mended']} idle=stop@{rfc3339(past)}")
    return OneOfEach(account, ids)


def _minute(moment: Any) -> Any:
    """A whole minute, as hours are written."""
    return moment.replace(second=0, microsecond=0)


def _hours(end: Any) -> str:
    """Every day four hours, up to then; it may be over midnight."""
    return f"Mon-Sun {end - timedelta(hours=4):%H:%M}-{end:%H:%M} UTC"
