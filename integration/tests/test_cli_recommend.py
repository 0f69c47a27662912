"""`curfew recommend`: which GPU, where, and how to pay, without credentials and on the local AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from booting import ROOT
from command import Said, curfew
from local_aws import LocalAws
from pricing import know_prices
from reaping import Account, ago
from reaping_budgets import BudgetAccount
from test_cli_conventions import OFFLINE
from test_cli_submit import submit

NOBODY: Mapping[str, str] = {"AWS_EC2_METADATA_DISABLED": "true"}
TABLE = "table of 2026-11-24"


def recommend(environment: Mapping[str, str], *arguments: str) -> Said:
    return curfew(environment, "recommend", *arguments)


def places(said: Said) -> list[dict[str, Any]]:
    return said.json()["places"]


@pytest.mark.parametrize(("environment", "regions"), [(NOBODY, "28 regions"), (OFFLINE, "us-east-1")])
def test_without_credentials_the_tables_answer_and_say_so(environment: Mapping[str, str], regions: str) -> None:
    said = recommend(environment, "--params", "7b").fine()
    assert f"In {regions} ({TABLE}; no credentials):" in said.out and said.err == ""
    first, *_ = [line.split() for line in said.out.splitlines() if line.startswith(("g", "p")) and "on demand" in line]
    assert first[:4] == ["g6.xlarge", "us-east-1", "on", "demand"]
    assert "\nAssumed: layers, heads and vocabulary are those of Mistral 7B; " in said.out
    assert "unknown whether these regions offer " in said.out and "table of 2026-09-24." in said.out
    found = recommend(environment, "--params", "7b", "--json").fine().json()
    assert (found["schema"], found["source"], found["parameters"]) == (1, f"{TABLE}; no credentials", 7_000_000_000)
    assert {place["lifecycle"] for place in found["places"]} == {"on-demand"}
    assert found["places"][0]["quota"] == {"verdict": "unknown"}


def test_80_columns_have_room_for_memory_and_costs_with_notes_below() -> None:
    model = ("--params", "1b", "--task", "full", "--gradient-checkpointing", "--offline", "--tokens", "900b", "--all")
    out = recommend({**NOBODY, "COLUMNS": "80"}, *model).fine().out
    table = out[out.index("\ntype ") + 1 :].partition("\nand ")[0].partition("\nWithout ")[0].splitlines()
    assert table[0].split() == ["type", "region", "bought", "GPUs", "GiB", "USD/h", "USD/run"]
    assert all(len(line) <= 80 for line in table) and not any("…" in line for line in table if "RTX" not in line)
    place = next(place for place, line in enumerate(table) if line.startswith("g4dn.12xlarge "))
    assert "2/4 T4" in table[place] and "T4: no hardware for bf16, no FlashAttention-2" in " ".join(table[place + 1 : place + 3])
    assert "Without hardware for bf16 it is emulated" in out and "Hardware: NVIDIA, CUDA GPU Compute Capability" in out
    found = places(recommend(NOBODY, *model, "--json").fine())
    assert {place["gpu_name"] for place in found if "bf16" in place["lacks"]} == {"T4"}


def test_the_region_of_the_option_goes_before_that_of_the_environment() -> None:
    found = recommend({**OFFLINE}, "--params", "70b", "--offline", "--region", "us-east-2", "--json").fine().json()
    assert found["regions"] == ["us-east-2"]
    elsewhere = recommend({**OFFLINE, "AWS_REGION": "eu-central-1"}, "--params", "7b", "--offline", "--json").fine().json()
    assert elsewhere["places"][0]["usd_per_hour"] == 1.0064 and elsewhere["places"][0]["price_source"] == "table of 2026-01-21"
    nowhere = recommend({**OFFLINE, "AWS_REGION": "ap-east-2"}, "--params", "7b", "--offline")
    assert nowhere.code == 1 and "only prices on demand in 30 regions are known, from af-south-1 to us-west-2" in nowhere.out


def test_what_does_not_fit_is_said_with_what_would_make_it_fit() -> None:
    said = recommend(NOBODY, "--params", "405b", "--task", "full", "--offline")
    assert said.code == 1 and "Nothing fits on the GPUs of one machine." in said.out, said
    small = recommend(NOBODY, "--params", "13b", "--offline", "--json").fine().json()["too_small"]
    assert {row["gpu_name"] for row in small} >= {"T4", "A10G", "L4"}
    changes = [remedy["change"] for row in small if row["gpu_name"] == "A10G" for remedy in row["remedies"]]
    assert {"precision": "int8"} in changes
    explained = recommend(NOBODY, "--params", "7b", "--task", "full", "--offline", "--explain").fine().out
    assert "ZeRO" in explained and "zero3" in explained and "8 GPUs" in explained


def test_data_elsewhere_and_hours_count() -> None:
    run = ("--params", "7b", "--offline", "--hours", "10", "--regions", "us-east-1", "--json")
    alone = places(recommend(NOBODY, *run).fine())[0]
    assert alone["cost"] == {"least_usd": 8.048, "most_usd": 8.048}
    data = ("--data-gb", "1000", "--data-region", "eu-west-1")
    far = places(recommend(NOBODY, *run, *data).fine())[0]
    assert far["data"]["egress_usd"] == 20.0 and far["data"]["load_seconds_least"] == 1_600
    assert far["cost"]["least_usd"] == pytest.approx(8.048 + 20 + 0.8048 * 1_600 / 3_600, abs=1e-4)


def test_the_documented_json_is_what_is_printed() -> None:
    source = (ROOT / "cli/src/commands/recommend.rs").read_text().split("/// ```json\n")[1].split("/// ```\n")[0]
    data = ("--data-gb", "1", "--data-region", "us-east-1")
    options = ("--params", "7b", "--offline", "--hours", "8", "--regions", "us-east-1", "--json", "--explain")
    printed = recommend(NOBODY, *options, *data).fine().json()
    documented = set(re.findall(r'"([a-z_0-9]+)":', source))
    assert documented >= {*printed, *printed["places"][0]}
    text = json.dumps(printed)
    assert all(f'"{key}": ' in text for key in documented), [key for key in documented if f'"{key}": ' not in text]
    place = printed["places"][0]
    for part in ("fit", "usd_per_hour", "price_source", "run", "cost", "quota", "data"):
        assert f'"{part}": {json.dumps(place[part])}' in source, part


def test_a_file_in_four_bits_is_counted_so_and_a_run_by_the_gpus_that_it_uses(tmp_path: Path) -> None:
    layers = {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    sizes = {"head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936}
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**layers, **sizes, "quantization_config": awq}))
    found = recommend(NOBODY, "--hf-config", str(file), "--offline", "--regions", "us-east-1", "--json").fine().json()
    assert found["workload"]["precision"] == "int4" and found["estimate"]["weights_gib"] == pytest.approx(5.68, abs=0.01)
    file.write_text(json.dumps({**layers, **sizes, "quantization_config": {"quant_method": "aqlm"}}))
    refused = recommend(NOBODY, "--hf-config", str(file), "--offline")
    assert refused.code == 2 and 'the method "aqlm" is not known' in refused.err and "--precision int4" in refused.err
    run = ("--params", "7b", "--tokens", "100m", "--batch", "8", "--offline", "--regions", "us-east-1", "--json")
    for place in (place for place in places(recommend(NOBODY, *run).fine()) if place["cost"] and place["run"]):
        assert place["used_gpus"] == place["fit"]["gpus"]
        assert place["cost"]["least_usd"] == pytest.approx(place["usd_per_hour"] * place["run"]["least_hours"], rel=1e-3)
    few, many = (places(recommend(NOBODY, *run, "--gpus", gpus).fine()) for gpus in ("1", "8"))
    assert few[0]["gpus"] == 1 and {place["used_gpus"] for place in many} == {8}


def test_a_job_is_what_submit_takes(account: Account, tmp_path: Path) -> None:
    job = tmp_path / "llama.toml"
    asked = ("--params", "7b", "--task", "qlora", "--hours", "8", "--on-demand", "--offline")
    recommend(NOBODY, *asked, "--job", str(job), "--command", "python train.py", "--owner", "ada@example.com").fine()
    printed = recommend(NOBODY, *asked, "--job", "-", "--command", "python train.py", "--owner", "ada@example.com").fine()
    assert printed.out == job.read_text()
    said = submit(account, tmp_path, job.read_text(), "--dry-run", "--json", name="llama.toml")
    assert said.json()["mistakes"] == [], said


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--params <COUNT>|--hf-config <FILE>"),
        (["--params", "many"], '"many" is not a number of parameters; write one such as `7b`'),
        (["--params", "7b", "--precision", "fp7"], "`bf16`"),
        (["--params", "7b", "--hours", "24h"], "write a number of hours above 0 without a unit"),
        (["--params", "7b", "--batch", "-1"], "write a whole number from 1 to 65536"),
        (["--params", "7b", "--regions", "us-eats-1"], "--regions: there is no region us-eats-1; did you mean us-east-1?"),
        (["--params", "7b", "--data-gb", "1", "--data-region", "nowhere-1"], "--data-region: there is no region nowhere-1; there are af-south-1"),
        (["--params", "7b", "--region", "us-east-11"], "--region, or AWS_REGION: there is no region us-east-11; did you mean"),
        (["--params", "7b", "--lora-rank", "8"], "--lora-rank changes nothing in the task inference"),
        (["--params", "7b", "--offload", "optimizer"], "--offload changes nothing in the task inference; leave it out, or choose the task full"),
        (["--params", "7b", "--active", "8b"], "of 7b parameters 8b cannot be those that a token passes through"),
        (["--hf-config", "config.json", "--active", "8b"], "cannot be used with"),
        (["--params", "7b", "--job", "-", "--command", " "], "it is empty; write it, or leave the option out"),
        (["--from-usage", "--hours", "8"], "cannot be used with"),
        (["--params", "7b", "--tokens", "lots"], "write a number of tokens such as 500m"),
        (["--params", "7b", "--data", "bucket"], "write it as s3://bucket/prefix"),
        (["--params", "7b", "--data", "s3://corpus/x"], "s3://corpus/x cannot be listed: no credentials"),
        (["--params", "7b", "--job", "job.toml"], "--command <COMMAND>"),
        (["--hf-config", "/nowhere/config.json"], "/nowhere/config.json cannot be read: No such file"),
        (["--from-usage"], "the ledger cannot be read: no credentials"),
        (["commitment"], "--discount-percent <PERCENT>"),
        (["commitment", "--discount-percent", "100"], "write a percentage from 0.0001 to 99.9999"),
        (["commitment", "--discount-percent", "0.00001"], "write a percentage from 0.0001 to 99.9999"),
        (["commitment", "--discount-percent", "28", "--months", "0"], "write a whole number from 1 to 36"),
        (["purchase", "--price-usd", "0"], "write US dollars as a number above 0"),
        (["purchase", "--usd-per-hour", "1", "--type", "p5.9xlarge"], 'p5 has no size "9xlarge"; it has 4xlarge, 48xlarge'),
        (["purchase", "--watts", "-1"], "write a whole number from 1 to 1000000"),
        (["purchase", "--type", "g6.xlarge"], "--price-usd is needed for g6.xlarge: the default is of p5.48xlarge"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_legal(arguments: list[str], error: str) -> None:
    said = recommend(NOBODY, *arguments)
    assert said.code == 2 and said.out == "" and error in said.err, said


def test_a_purchase_names_every_assumption_with_its_source() -> None:
    said = recommend(NOBODY, "purchase", "--offline").fine()
    assert "Buying costs less from 175 hours a month on, of 730." in said.out
    assert "At full use it has paid for itself after 8.9 months." in said.out
    for option in ("--price-usd", "--watts", "--pue", "--usd-per-kwh", "--years"):
        assert f"\n{option}" in said.out
    found = recommend(NOBODY, "purchase", "--offline", "--json", "--price-usd", "430000", "--pue", "1.2").fine().json()
    assert found["payback_months"] == 11.9 and found["price_source"] == "on demand in us-east-1, table of 2026-09-24"
    assert not {"--price-usd", "--pue"} & {row["option"] for row in found["assumptions"]}


# On the local AWS


def test_types_prices_and_data_of_the_account(account: Account) -> None:
    know_prices(account, {"g5.xlarge": 0.9}, spot={"g5.xlarge": {"us-east-1b": 0.25}})
    account.aws.set_quota("L-3819A6DF", 8)
    s3 = account.aws.client("s3")
    s3.create_bucket(Bucket="corpus")
    s3.put_object(Bucket="corpus", Key="train/0.bin", Body=b"x" * 1_000)
    nowhere = recommend(account.environment(), "--params", "7b", "--regions", "nowhere-1")
    assert nowhere.code == 2 and "--regions: there is no region nowhere-1; there are af-south-1" in nowhere.err
    said = recommend(account.environment(), "--params", "7b", "--data", "s3://corpus/train/", "--json").fine()
    found = said.json()
    assert found["source"] == "AWS" and found["regions"] == ["us-east-1"]
    assert found["data"] == {"region": "us-east-1", "bytes": 1_000}
    cheapest = found["places"][0]
    assert (cheapest["type"], cheapest["lifecycle"], cheapest["zone"], cheapest["usd_per_hour"]) == ("g5.xlarge", "spot", "us-east-1b", 0.25)
    on_demand = next(place for place in found["places"] if place["type"] == "g5.xlarge" and place["lifecycle"] == "on-demand")
    assert cheapest["quota"] == {"verdict": "allowed", "code": "L-3819A6DF", "granted_vcpus": 8.0, "used_vcpus": 0}
    assert on_demand["quota"]["verdict"] == "refused" and found["places"].index(on_demand) > 0
    assert on_demand["usd_per_hour"] == 0.9 and on_demand["price_source"].startswith("Price List of ")


def test_the_commitment_follows_the_hours_of_the_ledger(money: BudgetAccount) -> None:
    early = recommend(money.environment(), "commitment", "--discount-percent", "30")
    assert early.code == 2 and "the ledger has seen no whole hour yet" in early.err
    money.launch(ago(hours=9))
    money.tick_at(ago(hours=6))
    money.tick_at(ago(seconds=1))
    found = recommend(money.environment(), "commitment", "--discount-percent", "30", "--json").fine().json()
    assert (found["usd_per_hour"], found["covers_usd_per_hour"], found["used_percent"]) == (0.7042, 1.006, 100)
    assert found["hours"] == len(found["curve"]["hours"]) >= 4
    assert found["saved_usd"] == pytest.approx(found["hours"] * 1.006 * 0.3, abs=1e-3)
    said = recommend(money.environment(), "commitment", "--discount-percent", "30").fine()
    assert "<- covered by the commitment" in said.out and "A commitment of $0.70/h" in said.out
    assert "fewer hours than a week has" in said.err


def test_a_machine_of_which_one_gpu_works_could_be_smaller(account: Account) -> None:
    gpu = account.gpu("g5.12xlarge", launched=ago(hours=24 * 30))
    hours = 24 * 20
    for index, percent, mib in ((0, 80, 9_000), (1, 0, 0), (2, 0, 0), (3, 0, 0)):
        dimensions = {"InstanceId": gpu, "index": str(index)}
        for metric, value in (("nvidia_smi_utilization_gpu", percent), ("nvidia_smi_memory_used", mib)):
            account.aws.put_metrics("CWAgent", metric, dimensions, [value] * hours, ago(hours=hours), step_seconds=3_600)
    know_prices(account, {"g5.xlarge": 1.0, "g5.12xlarge": 5.0})
    said = recommend(account.environment(), "--from-usage", "--json")
    assert said.code == 1, said
    found = said.json()
    [smaller] = [finding for finding in found["findings"] if finding["kind"] == "smaller"]
    assert (smaller["resource"], smaller["what"], smaller["team"]) == (gpu, "g5.12xlarge", "vision")
    assert "it used 1 of its 4 GPUs" in smaller["evidence"] and "try a g5.xlarge" in smaller["action"]
    assert found["metrics_asked"] == 8
    none = recommend(account.environment(), "--from-usage", "nlp", "--json").fine()
    assert json.loads(none.out)["findings"] == []


def test_what_the_account_has_is_subtracted_and_what_cannot_be_read_is_said(money: BudgetAccount) -> None:
    money.launch(ago(hours=9))
    money.tick_at(ago(hours=6))
    money.tick_at(ago(seconds=1))
    money.aws.put_savings_plan("sp-1", commitment="0.21")
    money.aws.put_capacity_reservation("cr-1", InstanceType="p5.48xlarge", ReservationType="capacity-block")
    asked = ("commitment", "--discount-percent", "30")
    found = recommend(money.environment(), *asked, "--json").fine().json()
    # $0.21 of a plan cover $0.30 of $1.006 on demand.
    assert (found["plan"], found["covers_usd_per_hour"]) == ("compute", 0.706)
    assert [plan["kind"] for plan in found["existing"]["savings_plans"]] == ["compute"]
    assert [block["type"] for block in found["existing"]["capacity_blocks"]] == ["p5.48xlarge"]
    money.aws.put_reserved_instances("ri-1", InstanceType="g5.xlarge")
    [family] = recommend(money.environment(), *asked, "--plan", "ec2-instance", "--json").fine().json()["families"]
    assert (family["family"], family["region"], family["covers_usd_per_hour"]) == ("g5", "us-east-1", 0.0)
    money.aws.fault("savingsplans:DescribeSavingsPlans", "access_denied", times=None)
    said = recommend(money.environment(), *asked)
    assert said.code == 2 and said.out.startswith("UNKNOWN: Savings Plans are unknown: "), said
    assert "savingsplans:DescribeSavingsPlans" in said.out and "1 Reserved Instances g5.xlarge" in said.out
    unknown = recommend(money.environment(), *asked, "--json")
    assert unknown.code == 2 and unknown.json()["existing"]["savings_plans"] is None


def test_unknown_carbon_is_never_the_least() -> None:
    asked = ("--params", "7b", "--offline", "--regions", "ap-east-2,eu-north-1,us-east-1", "--rank", "carbon")
    said = recommend({**NOBODY, "COLUMNS": "200"}, *asked).fine()
    assert "Without AWS it is unknown what ap-east-2 offers." in said.out
    found = recommend(NOBODY, *asked, "--json").fine().json()
    assert found["rank"] == "carbon" and found["places"][0]["region"] == "eu-north-1"
    assert all(place["footprint_per_hour"]["operational_kg_co2e"] for place in found["places"])
    assert "p5e.48xlarge" in found["not_tabled"]


def gpus(environment: Mapping[str, str], *arguments: str) -> Said:
    return curfew(environment, "gpus", *arguments)


def test_types_are_listed_with_prices_by_region(account: Account) -> None:
    out = gpus(NOBODY, "--offline").fine().out
    assert "g7.2xlarge" in out and "1 RTX PRO 4500" in out and "unknown whether these regions offer p5e.48xlarge" in out
    found = gpus(NOBODY, "rtx-pro-server-6000", "--offline", "--json").fine().json()
    assert {listing["accelerator_memory_mib"] for listing in found["types"]} == {98_304}
    refused = gpus(NOBODY, "g4ad", "--offline")
    assert refused.code == 2 and "g4ad is in no table: AMD Radeon Pro V520" in refused.err
    know_prices(account, {"g5.xlarge": 0.9}, spot={"g5.xlarge": {"us-east-1b": 0.25}})
    account.aws.set_quota("L-3819A6DF", 8)
    [listing] = gpus(account.environment(), "g5.xlarge", "--json").fine().json()["types"]
    [place] = listing["places"]
    assert (place["usd_per_hour"], place["spot_usd_per_hour"], place["spot_zone"]) == (0.9, 0.25, "us-east-1b")
    assert (place["quota_vcpus"], place["spot_quota_vcpus"]) == (0.0, 8.0)
    shown = gpus(account.environment(), "g5.xlarge").fine().out
    assert "g5.xlarge: 1 A10G with 22 GiB each, 4 vCPUs, 16 GiB, 10 Gbit/s" in shown and "8 vCPUs" in shown
