"""Metrics as they come: impossible values, both monitorings, undeclared units, and what is found where a GPU does not report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from command import curfew
from reaping import Account, now

UTILIZATION = "nvidia_smi_utilization_gpu"
PERIOD = timedelta(minutes=5)
COUNT = 24


def put(account: Account, dimensions: dict[str, str], values: list[float], metric: str = UTILIZATION) -> None:
    account.aws.put_metrics("CWAgent", metric, dimensions, values, now() - PERIOD * len(values))


def quiet(account: Account, instance_type: str = "g5.xlarge", **fields: Any) -> str:
    """One whose CPU and network do nothing, and whose GPUs do not report."""
    gpu = account.gpu(instance_type, **fields)
    for metric, value in (("CPUUtilization", 0.2), ("NetworkIn", 4e4), ("NetworkOut", 100.0)):
        account.reports(gpu, metric, [value] * COUNT)
    return gpu


def one_gpu(account: Account, values: list[float], metric: str = UTILIZATION) -> str:
    gpu = quiet(account)
    put(account, {"InstanceId": gpu, "index": "0"}, values, metric)
    return gpu


def test_an_impossible_value_is_no_sample(account: Account) -> None:
    account.configure(idle={"window": "1h"})
    blank = {
        one_gpu(account, [-1.0] * COUNT): f"{UTILIZATION} was -1",
        one_gpu(account, [140737488355328.0] * COUNT): f"{UTILIZATION} was 140737488355328",
    }
    memory = one_gpu(account, [0.0] * COUNT)
    put(account, {"InstanceId": memory, "index": "0"}, [-1.0] * COUNT, "nvidia_smi_memory_used")
    blank[memory] = "nvidia_smi_memory_used was -1"
    corrupt = one_gpu(account, [0.0] * 20 + [4294967295.0] + [0.0] * 3)
    run = account.tick()
    assert [step["resource"] for step in run.steps] == [corrupt]
    for gpu, words in blank.items():
        assert words in curfew(account.environment(), "explain", gpu).out
        assert any(one.startswith(gpu) and words in one for one in run.message().split("\n\n"))
    account.tick()
    assert [account.state(gpu) for gpu in blank] == ["running"] * len(blank) and account.state(corrupt) == "stopped"


def test_power_alone_is_notified_and_acted_on_only_where_that_is_enforced(account: Account) -> None:
    def powered(percent: float) -> str:
        gpu = quiet(account)
        dimensions = {"InstanceId": gpu, "GpuId": "GPU-0"}
        account.aws.put_metrics("AWS/EC2", "GPUPowerUtilization", dimensions, [percent] * COUNT, now() - PERIOD * COUNT)
        return gpu

    low, between, high = powered(3.0), powered(20.0), powered(80.0)
    run = account.tick()
    [step] = run.steps
    assert (step["resource"], step["action"]) == (low, "notify")
    assert step["evidence"]["gpu_power_max_percent"] == 3.0 and "gpu_max_percent" not in step["evidence"]
    assert "the power of 1 GPU at most 3 % of its maximum" in run.message()
    assert "only the power of its GPUs shows it" in run.message()
    assert (run.skipped["busy"], run.skipped["usage-unknown"]) == (1, 1)
    assert "20 % of its maximum at most; only below 5 %" in curfew(account.environment(), "explain", between).out
    account.configure(idle={"power": "enforce"})
    account.tick()
    account.tick()
    assert [account.state(gpu) for gpu in (low, between, high)] == ["stopped", "running", "running"]


def test_basic_and_detailed_monitoring_are_judged_alike(account: Account) -> None:
    """One core is busy for one minute an hour; on another machine all four are, for five."""
    account.configure(idle={"window": "1h"})
    start = now() - PERIOD * COUNT
    start -= timedelta(minutes=start.minute % 5, seconds=start.second, microseconds=start.microsecond)
    judged = {}
    for minutes, percent in ((1, 26.0), (5, 90.0)):
        for is_detailed in (False, True):
            gpu = account.gpu()
            put(account, {"InstanceId": gpu, "index": "0"}, [0.0] * COUNT)
            account.reports(gpu, "NetworkIn", [4e4] * COUNT)
            account.reports(gpu, "NetworkOut", [100.0] * COUNT)
            for place in range(COUNT - 1):
                is_busy = place % 12 == 6
                load = [percent if is_busy and minute < minutes else 0.5 for minute in range(5)]
                at, samples = start + PERIOD * place, load if is_detailed else [sum(load) / 5]
                for minute, value in enumerate(samples):
                    dimensions = {"InstanceId": gpu}
                    sampled_at = at + timedelta(minutes=minute)
                    account.aws.put_metrics("AWS/EC2", "CPUUtilization", dimensions, [value], sampled_at)
            judged[gpu] = minutes == 1
    run = account.tick()
    assert {step["resource"] for step in run.steps} == {gpu for gpu, is_idle in judged.items() if is_idle}


def test_a_metric_of_ones_own_is_idle_only_where_its_unit_is_clear(account: Account) -> None:
    account.configure(idle={"window": "1h"}, metrics={"nvidia": {"utilization": "gpu_busy"}})
    saturated, resting, low = (one_gpu(account, [value] * COUNT, "gpu_busy") for value in (1.0, 0.0, 3.0))
    run = account.tick()
    assert {step["resource"] for step in run.steps} == {resting, low}
    assert "utilization_unit" in run.message() and run.skipped == {"usage-unknown": 1}
    account.configure(metrics={"nvidia": {"utilization": "gpu_busy", "utilization_unit": "ratio"}})
    assert "GPU 0 at 100 %" in curfew(account.environment(), "explain", saturated).out


def test_the_advice_says_what_was_found(account: Account) -> None:
    literal, aggregated, lost, windows, dcgm, partitioned, bare = (
        quiet(account, instance_type)
        for instance_type in ("g5.xlarge", "g5.12xlarge", "g5.12xlarge", "g5.xlarge", "g5.xlarge", "g5.xlarge", "g5.xlarge")
    )
    host = account.aws.instance(literal)["PrivateDnsName"]
    put(account, {"InstanceId": "${aws:InstanceId}", "index": "0", "host": host}, [0.0] * COUNT)
    put(account, {"InstanceId": aggregated}, [0.0] * COUNT)
    for index in range(3):
        put(account, {"InstanceId": lost, "index": str(index)}, [0.0] * COUNT)
    put(account, {"InstanceId": dcgm, "gpu": "0"}, [0.0] * COUNT, "DCGM_FI_DEV_GPU_UTIL")
    put(account, {"InstanceId": partitioned, "index": "0"}, [9.0] * COUNT, "nvidia_smi_memory_used")
    advice = {
        literal: 'has InstanceId = "${aws:InstanceId}"',
        aggregated: "one series of all its GPUs together",
        lost: "GPU 3 does not report",
        dcgm: "DCGM_FI_DEV_GPU_UTIL is published of it",
        partitioned: "its agent publishes nvidia_smi_memory_used",
        bare: "install the CloudWatch agent",
        windows: "install the CloudWatch agent",
    }

    def assert_said() -> None:
        scanned = curfew(account.environment(), "scan", "--json", "--quiet").json()["findings"]
        evidence = {finding["resource"]: finding["evidence"] for finding in scanned}
        checks = curfew(account.environment(), "doctor", "--json").json()["checks"]
        [telemetry] = [one for one in checks if one["check"] == "telemetry"]
        remedies = {finding["where"].split(" ")[0]: finding["remedy"] for finding in telemetry["findings"]}
        for gpu, words in advice.items():
            assert words in evidence[gpu] and words in remedies[gpu]
            assert words in curfew(account.environment(), "explain", gpu).out

    message = account.tick().message()
    for gpu, words in advice.items():
        assert any(one.startswith(gpu) and words in one for one in message.split("\n\n")), (words, message)
    assert_said()
    # A series that names no instance may be that of any whose GPUs do not report.
    put(account, {"host": "EC2AMAZ-ABC123", "index": "0"}, [0.0] * COUNT)
    may_be_own = "host=EC2AMAZ-ABC123, index=0): if it is of this one, add InstanceId to it with append_dimensions; if not, "
    advice[bare] = advice[windows] = may_be_own + "install the CloudWatch agent"
    assert_said()
