"""What the agent tells CloudWatch of the machine's GPUs. NVIDIA's library is a stand-in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import nvml
from attempts import NAME, Job, Machine
from local_aws import LocalAws
from local_aws.client import REGION
from nvml import HANGS, LOST, NO_DRIVER, Gpu, Nvml
from reaping import EUROPE, ago

pytestmark = pytest.mark.skipif(not nvml.IS_HERE, reason="the stand-in of NVIDIA's library works on Linux alone")

NAMESPACE = "Curfew/Jobs"
UTILIZATION, MEMORY, POWER = "nvidia_smi_utilization_gpu", "nvidia_smi_memory_used", "nvidia_smi_power_draw"
PUT = "cloudwatch:PutMetricData"
INSTANCE = "i-0123456789abcdef0"
INSTANCE_PATH, REGION_PATH = "/latest/meta-data/instance-id", "/latest/meta-data/placement/region"
OF_THE_JOB = {"Job": NAME}
HURRY = 60  # published every second, sampled twelve times as often


def gpu(index: int = 0, instance: str = INSTANCE) -> dict[str, str]:
    """The dimensions of its series."""
    return {"InstanceId": instance, "index": str(index), "name": "NVIDIA L4"}


@dataclass
class Told:
    """What CloudWatch was told of one series, all in all."""

    samples: float
    average: float
    low: float
    high: float


class Watched:
    """A job on a machine with GPUs, whose command runs until it is let go."""

    def __init__(self, job: Job, gpus: Nvml, folder: Path) -> None:
        self.job, self.aws, self.gpus = job, job.aws, gpus
        self.over = folder / "over"
        job.spec(f"until [ -e {self.over} ]; do sleep 0.05; done", checkpoint=False)

    @contextmanager
    def machine(self, instance: str | None = INSTANCE, region: str = REGION, attempt: int = 1) -> Iterator[Machine]:
        machine = self.job.machine(attempt, hurry=HURRY)
        if instance is not None:
            machine.metadata.says[INSTANCE_PATH] = instance
        machine.metadata.says[REGION_PATH] = region
        with machine:
            machine.until(lambda: "runs the command" in machine.said())
            yield machine
            self.over.touch()
            machine.ends()
        assert self.job.exit(attempt)["reason"] == "succeeded", machine.said()

    def calls(self, region: str = REGION) -> int:
        """How often CloudWatch was asked to take something."""
        return len(self.aws.calls(PUT, region))

    def told(self, metric: str, dimensions: dict[str, str], region: str = REGION) -> Told | None:
        named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
        series = {"Metric": {"Namespace": NAMESPACE, "MetricName": metric, "Dimensions": named}, "Period": 7200}
        queries = [{"Id": stat.lower(), "MetricStat": {**series, "Stat": stat}} for stat in ("SampleCount", "Sum", "Minimum", "Maximum")]
        answer = self.aws.client("cloudwatch", region).get_metric_data(
            StartTime=ago(hours=1), EndTime=ago(minutes=-5), MetricDataQueries=queries
        )
        counts, sums, minima, maxima = (one["Values"] for one in answer["MetricDataResults"])
        return Told(sum(counts), sum(sums) / sum(counts), min(minima), max(maxima)) if counts else None

    def series(self, region: str = REGION) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        listed = self.aws.client("cloudwatch", region).list_metrics(Namespace=NAMESPACE)["Metrics"]
        return {(one["MetricName"], tuple(sorted((each["Name"], each["Value"]) for each in one["Dimensions"]))) for one in listed}


def of(*gpus: dict[str, str]) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """All series of these GPUs, and the one of the job."""
    each = {(metric, tuple(sorted(one.items()))) for one in gpus for metric in (UTILIZATION, MEMORY, POWER)}
    return each | {(UTILIZATION, tuple(OF_THE_JOB.items()))}


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """One, at work."""
    gpus = Nvml(tmp_path)
    for name, value in gpus.environment().items():
        monkeypatch.setenv(name, value)
    gpus.shows([Gpu(97, 18_000, 71.5)])
    return gpus


@pytest.fixture
def watched(aws: LocalAws, gpus: Nvml, tmp_path: Path) -> Watched:
    return Watched(Job(aws, tmp_path), gpus, tmp_path)


def said_once(machine: Machine, words: str) -> bool:
    return machine.said().count(words) == 1


# What is told


def test_each_gpu_has_three_series_and_the_job_has_that_of_the_busiest(watched: Watched) -> None:
    """In one call, where the machine is, and not where the bucket is."""
    watched.gpus.shows([Gpu(index * 10, 18_000, 71.5) for index in range(8)])
    with watched.machine(region=EUROPE) as machine:
        machine.until(lambda: watched.calls(EUROPE) >= 2)
        machine.until(lambda: watched.job.heartbeat(1).get("gpu_percent") == 70)
    assert watched.series(EUROPE) == of(*(gpu(index) for index in range(8)))
    assert [watched.told(UTILIZATION, gpu(index), EUROPE).average for index in range(8)] == [index * 10 for index in range(8)]
    assert watched.told(MEMORY, gpu(7), EUROPE).average == 18_000
    assert watched.told(POWER, gpu(7), EUROPE).average == pytest.approx(71.5)
    busiest = watched.told(UTILIZATION, OF_THE_JOB, EUROPE)
    assert (busiest.low, busiest.high) == (70, 70)
    # Sampled more often than told.
    assert busiest.samples == watched.told(POWER, gpu(7), EUROPE).samples > watched.calls(EUROPE)
    last = watched.job.heartbeat(1)
    assert last["gpus"] == {"instance": INSTANCE, "milliwatts": 572_000, "utilization_percent": 35} and last["unsaved_seconds"] >= 0
    assert watched.series(REGION) == set() and watched.calls(REGION) == 0 and "GPU" not in machine.said()


def test_no_gpu_is_watched_before_the_command_runs(watched: Watched, tmp_path: Path) -> None:
    """`setup` may install the driver, or reset a GPU, which needs it for itself."""
    watched.gpus.shows([Gpu()], begins=NO_DRIVER)
    installed = tmp_path / "installed"
    watched.job.spec(f"until [ -e {watched.over} ]; do sleep 0.05; done", checkpoint=False, more=f'setup = "until [ -e {installed} ]; do sleep 0.05; done"')
    machine = watched.job.machine(1, hurry=HURRY)
    machine.metadata.says |= {INSTANCE_PATH: INSTANCE, REGION_PATH: REGION}
    with machine:
        machine.until(lambda: watched.job.heartbeat(1) and watched.job.heartbeat(1)["doing"] == "setup")
        watched.gpus.shows([Gpu(97)])
        installed.touch()
        machine.until(lambda: watched.calls())
        watched.over.touch()
        assert "NVML" not in machine.ends()


# What cannot be told


def test_a_job_succeeds_without_the_nvidia_library(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    with watched.machine() as machine:
        machine.until(lambda: "NVIDIA's library cannot be loaded: libnvidia-ml.so.1" in machine.said())
        beats_twice(watched, machine)
    assert watched.calls() == 0 and said_once(machine, "NVIDIA's library cannot be loaded")


def test_gpus_are_published_once_there_is_a_driver(watched: Watched) -> None:
    words = "NVML cannot be started: NVIDIA driver is not loaded"
    watched.gpus.shows([Gpu()], NO_DRIVER)
    with watched.machine() as machine:
        machine.until(lambda: words in machine.said())
        beats_twice(watched, machine)
        assert watched.calls() == 0 and said_once(machine, words)
        watched.gpus.shows([Gpu(97)])
        machine.until(lambda: watched.calls())


def test_a_gpu_that_falls_off_the_bus_leaves_the_others(watched: Watched) -> None:
    watched.gpus.shows([Gpu(10), Gpu(50)])
    with watched.machine() as machine:
        machine.until(lambda: watched.calls())
        watched.gpus.shows([Gpu(20), Gpu(LOST, LOST, LOST, handle=LOST)])
        machine.until(lambda: watched.told(UTILIZATION, gpu(0)).high == 20)
        before = watched.told(UTILIZATION, gpu(1))
        machine.until(lambda: "GPU 1 has fallen off the bus" in machine.said())
        resumes(watched, machine)
    assert watched.told(UTILIZATION, gpu(1)) == before, "nothing is told of it any more, least of all that it idles"
    assert watched.told(UTILIZATION, OF_THE_JOB).low == 20
    assert said_once(machine, "] GPU 1 has fallen off the bus")


def test_a_hanging_call_delays_nothing(watched: Watched) -> None:
    watched.gpus.shows([Gpu(97), Gpu(power=HANGS)])
    with watched.machine() as machine:
        machine.until(lambda: "NVML does not answer" in machine.said())
        beats_twice(watched, machine)
        assert watched.calls() == 0
        watched.gpus.shows([Gpu(97), Gpu()])
        machine.until(lambda: watched.calls())
    assert said_once(machine, "NVML does not answer")


# Idleness


def with_limit(watched: Watched, idle: str) -> None:
    save = "trap 'cd $CURFEW_CHECKPOINT_DIR; echo x >step=9.pt; exit 0' TERM"
    watched.job.spec(f"{save}; touch {watched.over}; while :; do sleep 0.05; done")
    spec = watched.job.get(f"jobs/{NAME}/spec.toml").decode()
    watched.job.put(f"jobs/{NAME}/spec.toml", spec.replace("[limits]", f'[limits]\nidle = "{idle}"'))


def test_a_job_whose_gpus_idle_ends_and_is_not_retried(watched: Watched) -> None:
    with_limit(watched, "6m")
    watched.gpus.shows([Gpu(97), Gpu(0)])
    # At the end an upload has four minutes, which are 6 s here.
    with watched.job.machine(1, hurry=40) as machine:
        machine.until(lambda: (watched.job.heartbeat(1) or {}).get("work", {}).get("gpu_idle_seconds") == 0)
        watched.gpus.shows([Gpu(4), Gpu(0)])
        machine.ends()
    why = "every GPU was below 5 % for 6m, the limit that `limits.idle` sets"
    exit, result = watched.job.exit(1), watched.job.head()["result"]
    assert (exit["reason"], exit["is_final"], exit["why"]) == ("failed", True, why)
    assert (result["succeeded"], result["is_final"], result["why"]) == (False, True, why)
    assert watched.job.kept() == 9, "what the command writes at the signal is uploaded"


@pytest.mark.parametrize("other", [Gpu("!3"), Gpu(5)])
def test_one_gpu_that_works_or_is_unknown_keeps_a_job(watched: Watched, other: Gpu) -> None:
    with_limit(watched, "5m")
    watched.gpus.shows([Gpu(97), other])
    with watched.job.machine(1, hurry=2 * HURRY) as machine:
        machine.until(lambda: (watched.job.heartbeat(1) or {}).get("work", {}).get("gpu_idle_seconds") == 0)
        watched.gpus.shows([Gpu(0), other])
        time.sleep(5)
        assert watched.job.exit(1) is None, machine.said()


# CloudWatch


def test_refused_metrics_are_dropped_and_logged_once(watched: Watched) -> None:
    watched.aws.fault(PUT, "access_denied", times=None)
    with watched.machine() as machine:
        machine.until(lambda: watched.calls() >= 3)
        refused = watched.calls()
        watched.aws.clear_faults()
        machine.until(lambda: watched.told(UTILIZATION, gpu()))
        taken = watched.told(UTILIZATION, gpu()).samples
        assert taken <= 13 * (watched.calls() - refused + 1), "nothing is kept for later"
    assert said_once(machine, "GPU metrics are not published: AccessDenied")


def beats_twice(watched: Watched, machine: Machine) -> None:
    """Two times more: longer than anything would have been published again."""
    for _ in range(2):
        last = (watched.job.heartbeat(1) or {}).get("at")
        machine.until(lambda: (watched.job.heartbeat(1) or {}).get("at") != last)


def resumes(watched: Watched, machine: Machine) -> None:
    calls = watched.calls()
    machine.until(lambda: watched.calls() >= calls + 2)


def test_a_failure_on_a_lost_gpu_is_tried_on_one_more_machine(watched: Watched) -> None:
    """That may be the machine's alone; what two machines have in common is none of a machine."""
    watched.gpus.shows([Gpu(20), Gpu(LOST, LOST, LOST, handle=LOST)])
    watched.job.spec("exit 1", checkpoint=False)
    for attempt, reason in ((1, "broken"), (2, "failed")):
        with watched.job.machine(attempt, hurry=HURRY) as machine:
            machine.ends()
        exit = watched.job.exit(attempt)
        assert (exit["reason"], exit["code"]) == (reason, 1) and "GPU 1 has fallen off the bus" in exit["why"], exit
