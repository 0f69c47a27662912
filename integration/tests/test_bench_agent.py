"""The benchmark of the agent measures what it says: a small checkpoint, the debug binary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attempts import AGENT
from bench import agent, agent_idle
from bench.agent import AGENT as OURS
from bench.agent import PEER, RESTORE, UPLOAD, Measured
from bench.agent_checkpoint import FULL, MIB, NAME, Checkpoint, digest, make
from bench.agent_idle import Idle
from bench.agent_transfers import BUCKET, Machine, Moved
from bench.byte_server import ByteServer, serving
from bench.process import Used

# One file of two parts, and more small ones than a page of a listing has.
SMALL = Checkpoint({17 * MIB: 1, 1024: 1_050})


@pytest.fixture(scope="module")
def server() -> Iterator[ByteServer]:
    with serving() as server:
        yield server


@pytest.fixture
def machine(server: ByteServer, tmp_path: Path) -> Machine:
    return Machine(server, AGENT, SMALL, tmp_path)


def test_the_full_checkpoint_is_of_4_gib() -> None:
    assert 4 * 1024 * MIB <= FULL.bytes < 4.01 * 1024 * MIB and len(FULL.files) == 5


def test_both_upload_and_restore_all_of_it(machine: Machine) -> None:
    moves = [machine.aws_uploads, machine.aws_restores, machine.agent_uploads, machine.agent_restores]
    for move in moves:
        moved = move()
        assert moved.wrong == (), move.__name__
        assert 0 < moved.used.cpu_seconds and 0 < moved.used.wall_seconds < 120 and moved.used.peak_mib > 5
        assert sum(moved.calls.values()) > 1_050


def test_what_is_not_as_it_was_is_wrong(machine: Machine) -> None:
    assert machine.agent_uploads().wrong == ()
    name = "1KiB-7.bin"
    machine.server.put(BUCKET, f"checkpoints/vision/llama-1a2b3c4d/1/500/files/{NAME}/{name}", "x" * 1024)
    for moved in (machine.agent_restores(), machine.aws_restores()):
        assert "what was restored is not what was uploaded" in moved.wrong
    machine.server.get("_bench/forget")
    assert any("less than the checkpoint" in wrong for wrong in machine.agent_restores().wrong)


def test_no_two_files_are_alike(tmp_path: Path) -> None:
    make(Checkpoint({2 * MIB: 2, 512: 3}), tmp_path / "a")
    files = [path.read_bytes() for path in (tmp_path / "a").iterdir()]
    assert sorted(map(len, files)) == [6, 512, 512, 512, 2 * MIB, 2 * MIB]
    assert len({file[:512] for file in files}) == len(files)
    before = digest(tmp_path / "a")
    next((tmp_path / "a").glob("*-0.bin")).rename(tmp_path / "a" / "other")
    assert digest(tmp_path / "a") != before


def test_the_agent_is_watched_while_its_command_runs(machine: Machine) -> None:
    idle = agent_idle.measure(machine, f"{machine.putting}; sleep 1000", 6, uploads=True)
    assert idle.looks >= 1 and idle.seconds >= 6
    assert 0 < idle.cpu_percent < 50 and 5 < idle.resident_mib < 500


def test_the_server_speaks_as_s3_does(server: ByteServer) -> None:
    server.forget()
    for number in range(3):
        server.put(BUCKET, f"a b/{number}&", "0123456789")
    listing = server.get(f"{BUCKET}?list-type=2&prefix=a%20b/1").decode()
    assert "<Key>a b/1&amp;</Key>" in listing and listing.count("<Key>") == 1 and "<Size>10</Size>" in listing
    assert server.told() == {"calls": {"list": 1, "put": 3}, "bytes": 30, "refused": []}


def test_each_target_can_be_missed() -> None:
    def runs(cpu: float, wall: float, peak: float, *wrong: str) -> list[Moved]:
        return [Moved(Used(0, cpu, wall, peak), {}, wrong)]

    def missed(measured: Measured) -> list[str]:
        return [one.target for one in agent.verdicts(measured) if not one.is_met]

    good = {(what, who): runs(1.0, 1.0, 100.0) for what in (UPLOAD, RESTORE) for who in (OURS, PEER)}
    idle = Idle(60, 0.09, 18.9, 12)
    measured = Measured(SMALL, good, idle, idle)
    assert missed(measured) == []

    def with_runs(what: str, who: str, *run: object) -> Measured:
        return replace(measured, moved={**good, (what, who): runs(*run)})

    for what in (UPLOAD, RESTORE):
        assert missed(with_runs(what, OURS, 1.01, 1.0, 100.0)) == [f"{what}: CPU per GB at most that of aws s3 cp"]
        assert missed(with_runs(what, OURS, 1.0, 1.01, 100.0)) == [f"{what}: wall at most that of aws s3 cp"]
        assert missed(with_runs(what, OURS, 1.0, 1.0, 244.1)) == [f"{what}: peak memory at most 256 MB"]
        assert missed(with_runs(what, PEER, 1.0, 1.0, 999.0)) == []
        for who in (OURS, PEER):
            assert missed(with_runs(what, who, 1.0, 1.0, 1.0, "cut off")) == ["all that is uploaded and restored is as it was"]
    assert missed(replace(measured, idle=replace(idle, resident_mib=19.0))) == ["idle: resident below 20 MB"]
    assert missed(replace(measured, idle=replace(idle, cpu_percent=0.1))) == ["idle: CPU below 0.1 %"]
    assert missed(replace(measured, afterwards=replace(idle, resident_mib=19.0))) == ["idle after an upload: resident below 20 MB"]
