"""Judges a story in which one call met one fault: it equals the faultless one, except for what the fault explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from every_fault import DAMAGED, STRUCK_RUN_SECONDS_MAX, Case, Plot, Story, repeats

_ABSENT = {"state": "absent", "tags": {}}


def violations(plot: Plot, case: Case, seen: Story, faultless: Story) -> list[str]:
    """Every way in which a story with a fault is worse than it may be."""
    seen = _without(seen, {name for exemption in plot.exemptions if exemption.covers(case) for name in exemption.more})
    return [
        *_struck(case, seen),
        *_in_order(plot, case, seen, faultless),
        *_nothing_wrong(plot, seen, faultless),
        *plot.wrongs(seen),
        *_completed(plot, case, seen, faultless),
        *_told_once(plot, case, seen, faultless),
    ]


def _without(seen: Story, names: set[str]) -> Story:
    worlds = [{name: one for name, one in run["world"].items() if name not in names} for run in seen["runs"]]
    remembered = {key: {about: _without_names(of, names) for about, of in log.items()} for key, log in seen["remembered"].items()}
    return {**seen, "runs": [{**run, "world": world} for run, world in zip(seen["runs"], worlds)], "remembered": remembered}


def _without_names(of: Any, names: set[str]) -> Any:
    return [name for name in of if name not in names] if isinstance(of, list) else of


def _allowed(plot: Plot, case: Case) -> set[str]:
    return {exemption.allows for exemption in plot.exemptions if exemption.covers(case)}


def _struck(case: Case, seen: Story) -> Iterator[str]:
    struck = [(n, call) for n, run in enumerate(seen["runs"]) for call in run["calls"] if call["fault"]]
    meant = (case.call.run, case.call.region, case.call.action, case.call.on)
    if [(n, call["region"], call["action"], call["on"]) for n, call in struck] != [meant]:
        yield f"another call was struck, or none: {struck}"
        return
    attempts = struck[0][1]["attempts"]
    is_either = case.fault == "hang" or (case.call.in_trouble and case.fault in DAMAGED)
    if not is_either and (attempts > 1) != repeats(case.call, case.fault):
        yield f"the SDK made {attempts} attempts: it does not repeat what it did"


def _in_order(plot: Plot, case: Case, seen: Story, faultless: Story) -> Iterator[str]:
    """A response, or an error where nothing could be achieved; the next run finds the function as it was."""
    for number, run in enumerate(seen["runs"]):
        failed = [step for step in run["failed_steps"] if step not in _failures_by(faultless, number)]
        if number != case.call.run and (run["error"] or run["gaps"] or failed):
            yield f"run {number + 1} was clean, and has {run['error']}, {run['gaps']}, {failed}"
    run = seen["runs"][case.call.run]
    fails = plot.fails.get((case.call.action, case.call.on))
    if run["error"] and (case.passes or fails is None or not run["error"].startswith(fails)):
        yield f"the run did not end in order: {run['error']}"
    if run["seconds"] > STRUCK_RUN_SECONDS_MAX:
        yield f"the run took {run['seconds']:.0f} s"


def _failures_by(faultless: Story, number: int) -> list[Any]:
    """The steps that fail in a faultless story up to a run: some are tried once a day, and after a fault a run later."""
    return [step for run in faultless["runs"][: number + 1] for step in run["failed_steps"]]


def _nothing_wrong(plot: Plot, seen: Story, faultless: Story) -> Iterator[str]:
    """What happened is a part of what would have happened, and no earlier; nothing is marked before its
    announcement was heard, and nothing is ended without a record."""
    may_be = {name: {one["state"]} for name, one in faultless["before"].items()}
    heard = {name for name, one in seen["before"].items() if "curfew:marked" in one["tags"]}
    lived = {name for name, one in seen["before"].items() if one["state"] not in plot.ended}
    for number, (run, model) in enumerate(zip(seen["runs"], faultless["runs"])):
        heard |= {name for name, thing in run["told"] if thing == "announced"}
        for name, one in _all(run["world"], model["world"], lived):
            may_be.setdefault(name, {_ABSENT["state"]}).add(model["world"].get(name, _ABSENT)["state"])
            if one["state"] not in may_be[name]:
                yield f"run {number + 1}: {name} is {one['state']}, which it is not in a faultless story"
            if one["state"] not in plot.ended:
                lived.add(name)
            elif name in lived and not set(plot.ends) & set(seen["recorded"][name]):
                yield f"run {number + 1}: {name} is {one['state']}, and no record says so"
            mark = one["tags"].get("curfew:marked")
            is_wish = mark is not None and plot.unannounced is not None and plot.unannounced in mark
            if mark is not None and name not in heard and not is_wish:
                yield f"run {number + 1}: {name} is marked, and was not notified"


def _completed(plot: Plot, case: Case, seen: Story, faultless: Story) -> Iterator[str]:
    last, model = seen["runs"][-1], faultless["runs"][-1]
    for name, one in _all(last["world"], model["world"]):
        tags = dict(one["tags"])
        if plot.stays is not None and (case.call.action, one["state"]) == plot.stays[:2] and case.call.on == name:
            tags.pop(plot.stays[2], None)
        expected = model["world"].get(name, _ABSENT)
        # The stop needs no label; only what starts again does.
        if case.call.action in ("ec2:CreateTags", "sagemaker:AddTags") and (case.call.on, case.fault) == (name, "scp_denied"):
            tags.pop("curfew:stopped", None)
            expected = {**expected, "tags": {key: value for key, value in expected["tags"].items() if key != "curfew:stopped"}}
        if {**one, "tags": tags} != expected:
            yield f"{name} ended as {one}, not as {model['world'].get(name)}"
    if last["told"] or last["remembers"] or last["writes"] != model["writes"]:
        yield f"the last run is not quiet: it told {last['told']}, wrote {last['writes']}"
    if seen["remembered"] != faultless["remembered"] and "other telling" not in _allowed(plot, case):
        yield f"{seen['remembered']} is remembered, not {faultless['remembered']}"


def _told_once(plot: Plot, case: Case, seen: Story, faultless: Story) -> Iterator[str]:
    """Each thing of the faultless story exactly once, whatever run tells it; and the fault itself once."""
    expected, told = _things(faultless["runs"]), _things(seen["runs"])
    struck = seen["runs"][case.call.run]
    known = _failures_by(faultless, case.call.run)
    faults = Counter(tuple(step) for step in struck["failed_steps"] if step not in known)
    faults.update(("", gap) for gap in struck["gaps"])
    if struck["error"]:
        faults.update({thing for thing in told if thing[0] == ""} or {("", "why the run failed")})
    allowed = _allowed(plot, case)
    missing, more = expected + faults - told, told - expected - faults
    if "silence" in allowed and struck["error"]:
        missing.pop(("", "why the run failed"), None)
    if "repeats" in allowed:
        more -= _repeated(plot, case, seen, expected)
    for exemption in plot.exemptions:
        more -= Counter(exemption.besides if exemption.covers(case) else ())
        missing -= Counter(exemption.untold if exemption.covers(case) else ())
    if "other telling" in allowed:
        more -= _things([struck])
        again = _repeated(plot, case, seen, expected)
        more -= Counter({thing: 1 for thing in again if thing[1] in ("announced", "would be announced")})
    if missing:
        yield f"not told: {dict(missing)}"
    if more:
        yield f"told more than once, or wrongly: {dict(more)}"


def _repeated(plot: Plot, case: Case, seen: Story, expected: Counter) -> Counter:
    """What may be told again: each thing once, by the next run; or, as it rests on metrics, by the first that asks for them
    again. SNS takes each attempt at a message of which no answer is heard."""
    struck = next(call for call in seen["runs"][case.call.run]["calls"] if call["fault"])
    times = struck["attempts"] if case.lasting and case.call.action == "sns:Publish" else 1
    last = max(case.call.run + 1, plot.asked_again)
    late = _things(seen["runs"][last + 1 :])
    return Counter({thing: times for thing in expected if thing not in late})


def _things(runs: list[Story]) -> Counter:
    return Counter(tuple(thing) for run in runs for thing in run["told"])


def _all(world: Story, *names: Iterable[str]) -> list[tuple[str, Story]]:
    """Each resource that is there or is named; one that is not there is absent."""
    return [(name, world.get(name, _ABSENT)) for name in {*world}.union(*names)]
