"""The tables of types, compared with the source that they cite: DescribeInstanceTypes as moto recorded it."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import moto.ec2

DATA = Path(__file__).parents[2] / "data"
ACCELERATORS = ("GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo", "FpgaInfo", "MediaAcceleratorInfo")


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


def accelerated_types() -> dict[str, Any]:
    path = Path(moto.ec2.__file__).parent / "resources/instance_types.json.gz"
    types: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return {name: facts for name, facts in types.items() if any(facts.get(key) for key in ACCELERATORS)}


def test_every_accelerated_family_of_the_source_has_its_types_or_a_reason_why_not() -> None:
    exceptions = {row["family"]: row["not_in_machines"] for row in rows("accelerated_families.csv")}
    machines = {row["type"] for row in rows("machines.csv")}
    for name in accelerated_types():
        family = name.partition(".")[0]
        assert family in exceptions, f"{family} is missing in accelerated_families.csv"
        assert (name in machines) != bool(exceptions[family]), f"{name}: write it, or why {family} is not in machines.csv"


def test_the_parts_of_each_type_are_those_of_the_source() -> None:
    source = accelerated_types()
    for row in rows("machines.csv"):
        facts = source.get(row["type"])
        if facts is None:
            continue
        assert int(row["vcpus"]) == facts["VCpuInfo"]["DefaultVCpus"], row["type"]
        assert int(row["memory_gib"]) == facts["MemoryInfo"]["SizeInMiB"] // 1024, row["type"]
        for gpu in (facts.get("GpuInfo") or {"Gpus": []})["Gpus"]:
            is_whole = int(row["accelerator_eighths"]) % 8 == 0
            assert not is_whole or int(row["accelerator_eighths"]) == 8 * gpu["Count"], row["type"]
            assert int(row["accelerator_memory_mib"]) == gpu["MemoryInfo"]["SizeInMiB"], row["type"]
