"""The story of `reap-volumes`: one volume, or one snapshot, for each way that they can go, in two regions.

Unattached volumes are announced, photographed and deleted by one run each; once the struck runs are made up for, no
snapshot is kept any longer, so that what was one too many would be seen to go like the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from every_fault import EVERY, EXEMPTIONS, FAILS, Exemption, Plot, Story
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import EUROPE, ago, now
from reaping_volumes import VolumeAccount
from scenario_account import NOTICES, OneOfEach

STRUCK_RUNS = 3  # announced, photographed, deleted
RECOVERED = STRUCK_RUNS + 2  # one run makes up for what the fault cost, and in the next there is nothing left to do
RUNS = RECOVERED + 3  # all snapshots expire, the log forgets them, and then there is nothing left to do
REGIONS = (REGION, EUROPE)
OBSERVED = "orphaned and observed"
DELETED = ("orphaned", "due", "photographed", "safe")  # with a snapshot that is kept
GONE = ("deleted", "expired", "behind an AMI")  # volumes that are gone from the start
# Never touched: neither they nor their tags change.
SKIPPED = (
    *("protected", "snapshot of protected", "kept", "of a live job", "mistyped"),
    *("announced", "announced in Europe", "on a stopped instance", OBSERVED, "snapshot of behind an AMI"),
)

ANNOUNCED = ("announced", "announced in Europe")

_THINGS = (
    ("is called off", "called off"),
    ("its volume is gone", "outlived"),
    ("It will be ", "announced"),
    ("It would be snapshotted and deleted at", "would be announced"),
    ("It would be snapshotted and deleted now", "would be snapshotted and deleted"),
    ("Its snapshot was started", "snapshotted"),
    ("It was deleted", "deleted"),
    ("which has been stopped since", "on a stopped instance"),
)


@dataclass
class OneVolumeOfEach(OneOfEach):
    def before(self, run: int) -> None:
        storage = self.account
        if run == 1:
            storage.aws.complete_snapshots([self.ids[_snapshot("photographed")]], EUROPE)
        if run == RECOVERED:
            for region in REGIONS:
                filters = [{"Name": "tag-key", "Values": ["curfew:deleted-at"]}]
                dated = storage.aws.client("ec2", region).describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
                for snapshot in dated:
                    storage.expire(snapshot["SnapshotId"], region)

    def world(self) -> dict[str, dict[str, Any]]:
        found = {}
        for region in REGIONS:
            ec2 = self.account.aws.client("ec2", region)
            for volume in ec2.describe_volumes()["Volumes"]:
                found[self.names[volume["VolumeId"]]] = {"state": volume["State"], "tags": self.tags(volume)}
            filters = [{"Name": "tag-key", "Values": ["curfew:snapshot-of"]}]
            snapshots = ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
            for snapshot in sorted(snapshots, key=lambda one: one["StartTime"]):
                name = self._name(snapshot)
                found[name] = {"state": snapshot["State"], "tags": self.tags(snapshot)}
        return found

    def _name(self, snapshot: dict[str, Any]) -> str:
        """It gets one when it is first seen."""
        known = self.names.get(snapshot["SnapshotId"])
        if known is None:
            known = _snapshot(self.names[snapshot["VolumeId"]])
            while known in self.ids:
                known = f"another {known}"
            self.ids[known] = snapshot["SnapshotId"]
        return known

    def _thing(self, paragraph: str) -> tuple[str, str]:
        """Of a deletion that can be undone, also from what."""
        name, thing = super()._thing(paragraph)
        restored_from = paragraph.partition("--snapshot-id ")[2].partition(" ")[0]
        return name, f"{thing}, kept as {self.named(restored_from)}" if restored_from else thing


def _snapshot(volume: str) -> str:
    return f"snapshot of {volume}"


def one_volume_of_each(aws: LocalAws) -> OneVolumeOfEach:
    """Three runs have work in it."""
    storage = VolumeAccount(aws)
    later, europe = now() + timedelta(days=2), {"region": EUROPE}
    job = {"curfew:job": "vision/llama-0123abcd"}
    storage.put("active/vision/llama-0123abcd", b"{}")
    hosts = {"host": storage.host(), "stopped host": storage.stopped_host(ago(days=30), EUROPE)}
    source = _source(storage, {"Team": "nlp", "Owner": "grace"})
    ids = {
        "first seen": storage.volume(**europe),
        "orphaned": storage.untagged_volume(unattached_since=ago(days=20), snapshot_id=source),
        "due": storage.marked(**europe),
        "photographed": storage.marked(**europe),
        "safe": storage.marked(size=500),
        "attached again": storage.marked(),
        "used": storage.marked(**europe),
        OBSERVED: storage.orphan(tags={"curfew:mode": "observe"}),
        "protected": storage.marked(tags={"curfew:protected": ""}),
        "kept": storage.marked(tags={"curfew:keep-until": "2999-01-01"}, **europe),
        "of a live job": storage.marked(tags=job),
        "mistyped": storage.marked(tags={"curfew:keep-until": "soon"}),
        "announced": storage.marked(at=later),
        "announced in Europe": storage.marked(at=later, **europe),
        "on a stopped instance": storage.attached(hosts["stopped host"], **europe),
    }
    storage.attach(ids["attached again"], hosts["host"])
    storage.used_at(ids["used"], ago(days=1), EUROPE)
    snapshots = {
        "safe": storage.snapshot_of(ids["safe"]),
        "photographed": storage.snapshot_of(ids["photographed"], region=EUROPE, state="pending"),
        "protected": storage.snapshot_of(ids["protected"]),
        "deleted": storage.left_behind(),
        "expired": storage.left_behind(ago(days=40)),
        "behind an AMI": storage.left_behind(ago(days=40)),
    }
    _image(storage, snapshots["behind an AMI"])
    for name in GONE:
        ids[name] = storage.aws.tags(snapshots[name])["curfew:snapshot-of"]
    ids |= {_snapshot(name): snapshot for name, snapshot in snapshots.items()}
    return OneVolumeOfEach(storage, {**ids, **hosts, "source": source}, OBSERVED, _THINGS)


def _source(storage: VolumeAccount, tags: dict[str, str]) -> str:
    """A snapshot of somebody's own, whose volume is gone."""
    volume = storage.volume()
    source = storage.aws.client("ec2").create_snapshot(VolumeId=volume)["SnapshotId"]
    storage.aws.tag(source, tags)
    storage.aws.delete(volume)
    return source


def _image(storage: VolumeAccount, snapshot_id: str) -> None:
    device = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot_id}}
    storage.aws.client("ec2").register_image(Name="kept", RootDeviceName="/dev/sda1", BlockDeviceMappings=[device])


def never(story: Story) -> Iterator[str]:
    """No volume goes without a whole snapshot of it that is there; no snapshot ends while its volume is there, or before its
    time; and what is skipped does not change."""
    before, earlier = story["before"], story["before"]
    for number, run in enumerate(story["runs"]):
        world = run["world"]
        for name in earlier.keys() - world.keys():
            volume = name.rpartition("snapshot of ")[2]
            if name == volume and not _is_kept(volume, world):
                yield f"run {number + 1}: {name} is deleted, and there is no whole snapshot of it"
            if name != volume and volume in earlier:
                yield f"run {number + 1}: {name} is deleted, and its volume was there"
            if name != volume and number < RECOVERED and volume != "expired":
                yield f"run {number + 1}: {name} is deleted before its time"
        for name in SKIPPED:
            may_be = [before[name], *([_unlabelled(before[name])] if name in ANNOUNCED else [])]
            if world.get(name) not in may_be:
                yield f"run {number + 1}: {name} is {world.get(name)}, and was {before[name]}"
        earlier = world


def _unlabelled(resource: dict[str, Any]) -> dict[str, Any]:
    """Without the label of an announcement, which is gone while the log of announcements is; in the end it is there again."""
    return {**resource, "tags": {key: value for key, value in resource["tags"].items() if key != "curfew:marked"}}


def _is_kept(volume: str, world: Story) -> bool:
    return any(name.endswith(_snapshot(volume)) and one["state"] == "completed" for name, one in world.items())


PLOT = Plot(
    function="reap-volumes",
    seed=one_volume_of_each,
    regions=REGIONS,
    deadline_seconds=900,
    struck_runs=STRUCK_RUNS,
    runs=RUNS,
    asked_again=0,
    ended=("absent",),
    ends=("delete",),
    exemptions=(
        *EXEMPTIONS,
        Exemption(
            "s3:GetObject",
            "config/",
            ("not_found",),
            "a later end",
            "what is observed would end after the default grace, which is not over in this story",
            untold=((OBSERVED, "would be snapshotted and deleted"),),
        ),
        Exemption(
            "s3:GetObject",
            "active/",
            ("not_found",),
            "a snapshot more",
            "a job that is not in the bucket is over, so that its volume is due; it is not deleted once the job is back",
            besides=(("of a live job", "snapshotted"),),
            more=(_snapshot("of a live job"),),
        ),
        *(
            Exemption(
                action,
                on.format(volume),
                EVERY,
                "besides",
                "where the deletion of a volume could not be dated, told or written down, nobody knows that the end of its snapshot was told",
                besides=((_snapshot(volume), f"outlived, kept as {_snapshot(volume)}"),),
            )
            for action, on in (("ec2:CreateTags", "snapshot of {}"), ("sns:Publish", ""), ("s3:PutObject", NOTICES))
            for volume in DELETED
        ),
    ),
    fails=FAILS,
    wrongs=never,
    of_a_look=1,
)
