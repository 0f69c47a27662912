"""What a run asks of AWS, and that the template grants exactly that. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from granted import assert_role_fits, objects
from reaping import EUROPE, Run, ago
from reaping_volumes import EC2_WRITES, READS, VolumeAccount


def test_the_role_may_do_what_was_done_and_nothing_else(storage: VolumeAccount) -> None:
    runs = _everything(storage)
    # Without s3:ListBucket an absent object looks forbidden; nothing is listed.
    assert_role_fits("reap-volumes", runs, READS | EC2_WRITES, {"s3:ListBucket"})
    # config/, prices/ and active/ are only read; notices/ and plans/ are the function's own.
    read = {"config/curfew.toml", "prices/current.json", "notices/reap-volumes", "active/vision"}
    assert objects(runs, "s3:GetObject") == read
    written = objects(runs, "s3:PutObject")
    days = {key for key in written if key.startswith("plans/")}
    assert written - days == {"notices/reap-volumes"} and days


def _everything(storage: VolumeAccount) -> list[Run]:
    """Runs that mark, unmark, notify, snapshot, delete, and fail."""
    storage.orphan(tags={"curfew:job": "vision/a-0123abcd"})
    storage.untagged_volume(EUROPE, unattached_since=ago(days=20), snapshot_id="snap-0123456789abcdef0")
    storage.orphan(tags={f"k{number}": "" for number in range(46)})
    storage.attach(storage.marked())
    storage.left_behind(ago(days=40))
    storage.left_behind()
    runs = [storage.tick() for _ in range(3)]
    done = {step["action"] for run in runs for step in run.steps if step["outcome"] == "done"}
    assert done == {"mark", "unmark", "notify", "snapshot", "delete"}
    storage.write_config("mood = 1")
    return [*runs, storage.tick(), storage.tick(b"{}")]
