"""The benchmark of `curfew scan` measures what it says: a small account, the debug binary."""

from __future__ import annotations

from dataclasses import replace

from bench import scan
from bench.accounts import REGIONS
from bench.measure import Runs, Usage
from bench.served import serving
from command import COMMAND

SMALL = 60


def test_the_account_is_seen_for_what_it_is_and_another_is_not() -> None:
    with serving("scan", SMALL) as served:
        used = scan.scan(served, COMMAND)
        other = scan.scan(replace(served, count=SMALL + 20), COMMAND)
    assert used.wrong == () and 0 < used.cpu_seconds < 60 and 5 < used.peak_mib < 1000
    assert used.calls["ec2:DescribeInstances"] == used.calls["ec2:DescribeVolumes"] == len(REGIONS) == 17
    assert any("'instances': 60, " in wrong and wrong.startswith("seen") for wrong in other.wrong)


def test_each_target_can_be_missed() -> None:
    def missed(usage: Usage) -> list[bool]:
        return [not one.is_met for one in scan.verdicts([Runs(10_000, (usage,))])]

    good = Usage(1.0, 1.0, 127.9, {}, 0, ())
    assert missed(good) == [False, False]
    assert missed(replace(good, peak_mib=128.0)) == [False, True]
    assert missed(replace(good, wrong=("gaps",))) == [True, False]
