"""Invariants of jobs under any fault of a call: see scenario_jobs.py for the story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from every_fault import Story

ENDS, STOPS_BEATING, CANCELLED, WRONG = "ends", "silent", "cancelled", "wrong"
JOBS = (ENDS, STOPS_BEATING, CANCELLED)
# The expected state at the end, unless the first launch was denied.
EXPECTED_ENDS = {ENDS: ("ended", "succeeded"), STOPS_BEATING: ("running", None), CANCELLED: ("ended", "cancelled")}
DENIES = ("access_denied", "scp_denied")
JOB_USD = 8 * 1.006  # eight hours of one g5.xlarge


def never(story: Story) -> Iterator[str]:
    """No job has two machines, except for the two minutes of a warned one; no machine, document or reservation is forgotten; and
    what a job has come to is heard, once."""
    struck = next(((n, call) for n, run in enumerate(story["runs"]) for call in run["calls"] if call["fault"]), (-1, {}))
    heard: Counter = Counter()
    for number, run in enumerate(story["runs"]):
        kept = run["kept"]
        heard.update(map(tuple, kept["heard"]))
        said = [*_machines(kept)]
        if number != struck[0] and kept["is_sweep"]:
            said += [*_after_a_clean_sweep(kept, heard)]
        yield from (f"run {number + 1}: {one}" for one in said)
    yield from _repeated(heard, *struck)
    yield from _fates(story["runs"][-1], struck[1])


def _machines(kept: Story) -> Iterator[str]:
    live = Counter(one["job"] for one in kept["machines"] if lives(one["state"]) and one["id"] != kept["warned"])
    yield from (f"{job} has {count} machines" for job, count in live.items() if count > 1)


def _after_a_clean_sweep(kept: Story, heard: Counter) -> Iterator[str]:
    for name, answer in kept["answers"].items():
        if answer not in (None, "rejected" if name == WRONG else "accepted"):
            yield f"the document {name} is answered by {answer}"
    for name, job in kept["jobs"].items():
        live = [one for one in kept["machines"] if one["job"] == name and lives(one["state"]) and one["id"] != kept["warned"]]
        if job is None:
            if kept["answers"][name] is not None or live:
                yield f"{name} is forgotten"
            continue
        yield from (f"{name} {wrong}" for wrong in _job(name, job, live, kept, heard))


def _job(name: str, job: Story, live: list[Story], kept: Story, heard: Counter) -> Iterator[str]:
    if [one["id"] for one in live] != ([job["machine"]] if job["state"] == "running" else []):
        yield f"is {job['state']} on {job['machine']}, and there are {live}"
    elif live and live[0]["expires_at"] != job["expires_at"]:
        yield f"has a machine that expires at {live[0]['expires_at']}, and not at {job['expires_at']}"
    if (name in kept["active"]) == job["closed"]:
        yield f"is {'still' if job['closed'] else 'not'} on the index"
    for holder, reserved in kept["reserved"].items():
        one = reserved.get(name)
        is_held = one is not None and "ended" not in one
        if job["closed"] and is_held:
            yield f"is closed, and still has {one} of the {holder}"
        if job["state"] == "running" and not is_held:
            yield f"runs on no money of the {holder}: {one}"
        if is_held and not 0.9 * JOB_USD <= one["usd"] <= JOB_USD + 0.01:
            yield f"has reserved {one} of the {holder}"
    thing = _says(job)
    if thing not in (None, *(thing for of, thing in heard if of == name)):
        yield f"is {thing}, and was not notified"


def _says(job: Story) -> str | None:
    """The notifications that it must have caused."""
    if job["state"] == "ended":
        return f"ended: {'was cancelled' if job['result'] == 'cancelled' else job['result']}"
    if job["state"] == "running":
        return f"runs {job['machine_attempt']}"
    return {"waiting": "waits", "held": "held", "interrupted": "interrupted"}.get(job["state"])


def _repeated(heard: Counter, _: int, struck: Story) -> Iterator[str]:
    """SNS may have accepted a message despite an error; and a sent notification may not be recorded."""
    is_of_state = struck.get("action") == "s3:PutObject" and struck["on"].endswith("/state.json")
    is_unsure = struck.get("action") == "sns:Publish" or is_of_state
    most = 1 + (struck["attempts"] if is_unsure else 0)
    yield from (f"{name}: {thing} was told {times} times" for (name, thing), times in heard.items() if times > most)


def _fates(last: Story, struck: Story) -> Iterator[str]:
    """A denied launch fails a job that never had a machine, with a notification; every other job ends as expected."""
    is_denied = struck.get("action") == "ec2:RunInstances" and struck["fault"] in DENIES
    failed = 0
    for one in last["kept"]["machines"]:
        yield from (f"{one['job']}, attempt {one['attempt']}: {wrong}" for wrong in one["wrong"])
    for name, job in last["kept"]["jobs"].items():
        state = job and (job["state"], job["result"])
        if is_denied and state == ("ended", "failed"):
            failed += 1
        elif state != EXPECTED_ENDS[name]:
            yield f"{name} is {job}, and not {EXPECTED_ENDS[name]}"
        if job and job["state"] == "ended" and not job["closed"]:
            yield f"{name} is not closed"
    if failed > 1:
        yield f"one denied launch failed {failed} jobs"
    if last["kept"]["heard"]:
        yield f"the last run is not quiet: {last['kept']['heard']}"


def lives(state: str) -> bool:
    return state in ("pending", "running", "stopping", "stopped")
