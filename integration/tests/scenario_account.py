"""An account with one resource for each rule and each kind of step, and everything that can be seen of it from outside:
what became of each resource, what was written down, and what people were told.

Resources have names, for their ids differ from one seed to the next; moments are left out of what is compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from reaping import Account, Run

NOTICES = "notices/"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z|\d\d:\d\d-\d\d:\d\d")
_RESOURCE = re.compile(r"(i|vol|snap|ami)-[0-9a-f]{8,17}")
_OF_THE_ACCOUNT = re.compile(r"[a-z]+(-[a-z]+)+-\d, [\w-]+:\w+|Curfew changes nothing")
_FAILED = re.compile(r"could not ([a-z]+) it: .* (?:The next run tries again|Curfew tries again once a day)\.")
_CALLED_OFF_ALTHOUGH_FAILED = re.compile(r"could not ([a-z]+) it: .* is called off\.")
# The memory of single resources in the log, besides notifications.
_ABOUT = ("since", "announced", "expiry_seen", "carried_out", "snapshot_runs", "safety", "last_host")


@dataclass
class OneOfEach:
    """What the functions have in common; a function's own account says what its world is, and what its paragraphs say."""

    account: Account
    ids: dict[str, str]  # by name
    observed: str  # the one in observe mode: no action, and no notification of its failure
    things: tuple[tuple[str, str], ...]  # what a paragraph says, by words that only such a one has; the first that it has
    looks_like: re.Pattern[str] = _RESOURCE  # an id

    @property
    def names(self) -> dict[str, str]:
        return {resource_id: name for name, resource_id in self.ids.items()}

    def named(self, text: str) -> str:
        """Without ids and moments."""
        return _MOMENT.sub("<time>", self.looks_like.sub(lambda found: self.names.get(found[0], found[0]), text))

    def before(self, run: int) -> None:
        """What happens before a run, the first being 0."""

    def let_refusals_lapse(self) -> None:
        """A day passes, after which Curfew tries again what a policy of the organisation refused; a story takes minutes."""
        for key in self.account.keys(NOTICES):
            notices = self.account.read(key)
            for record in notices["resources"].values():
                record.pop("refused", None)
                record.pop("label_refused", None)
            self.account.put(key, json.dumps(notices).encode())

    def run(self, number: int, **how: float) -> Run:
        """One of the story's runs."""
        return self.account.tick(**how)

    def writes(self, run: Run) -> list[tuple[str, ...]]:
        """Every call of a run that changes something: its action, and the resources it names."""
        return run.ec2_writes

    def named_object(self, key: str) -> str:
        """By what a call of S3 is known: the folder of its object, where a story does not tell objects apart."""
        return key if key.startswith(NOTICES) else key.partition("/")[0] + "/"

    def failed_steps(self, run: Run) -> list[tuple[str, str]]:
        """Failures of steps. A step in observe mode is never notified as failed."""
        failed = [(self.names[step["resource"]], step["action"]) for step in run.steps if step["outcome"] == "failed"]
        return [(name, f"failed to {action}") for name, action in failed if name != self.observed]

    def world(self) -> dict[str, dict[str, Any]]:
        """State and tags of each resource, by name."""
        raise NotImplementedError

    def kept(self) -> dict[str, Any]:
        """What else a run left behind, where a function's plot judges it."""
        return {}

    def tags(self, resource: dict[str, Any]) -> dict[str, str]:
        return {tag["Key"]: self.named(tag["Value"]) for tag in resource.get("Tags", ())}

    def recorded(self) -> dict[str, list[str]]:
        """By resource: every action that an audit record has of it."""
        found: dict[str, list[str]] = {name: [] for name in self.ids}
        for key in self.account.keys("plans/"):
            for step in self.account.read(key)["steps"]:
                found[self.names[step["resource"]]].append(step["action"])
        return found

    def remembered(self) -> dict[str, Any]:
        """By region the notification log for the next run, except for faults, which may be remembered for a day."""
        return {key.removeprefix(NOTICES): self._notices(self.account.read(key)) for key in self.account.keys(NOTICES)}

    def _notices(self, notices: dict[str, Any]) -> dict[str, Any]:
        records = {self.names[one]: record for one, record in notices["resources"].items()}
        told = {
            name: sorted(topic for topic in record.get("notified", ()) if not topic.startswith("undone-"))
            for name, record in records.items()
        }
        told = {name: topics for name, topics in told.items() if topics}
        about = {kind: sorted(name for name, record in records.items() if record.get(kind)) for kind in _ABOUT}
        return {"told": told, "owed": len(notices["undelivered"]), **about}

    def told(self, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Every paragraph of these messages: its resource (none: the account), and its text."""
        paragraphs = [paragraph for one in messages for paragraph in one["message"].split("\n\n")[1:-1]]
        return [thing for paragraph in paragraphs for thing in self._things(paragraph)]

    def _things(self, paragraph: str) -> list[tuple[str, str]]:
        """One, but that what is called off is so although a step failed."""
        name, thing = self._thing(paragraph)
        failed = _CALLED_OFF_ALTHOUGH_FAILED.search(paragraph)
        return [(name, thing), *([(name, f"failed to {failed[1]}")] if failed else [])]

    def _thing(self, paragraph: str) -> tuple[str, str]:
        about = self.looks_like.match(paragraph)
        if about is None:
            account_wide = _OF_THE_ACCOUNT.match(paragraph)
            assert account_wide, f"no resource is named in: {paragraph}"
            return "", account_wide[0]
        name, failed = self.names[about[0]], _FAILED.search(paragraph)
        if failed:
            return name, f"failed to {failed[1]}"
        return name, next((thing for words, thing in self.things if words in paragraph), "found")
