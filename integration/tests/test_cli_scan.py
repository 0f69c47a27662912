"""`curfew scan` in an account in which nothing is deployed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Said, curfew, interrupted
from documented_permissions import permissions
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import EUROPE, REGIONS, TAGGED, Account, ago, now

G5_XLARGE_MONTH = 734.38


class Undeployed(Account):
    """Builders for what stands in an account; there is neither a bucket, nor a topic, nor a stack."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        aws.fault(
            "cloudformation:DescribeStackResources",
            "custom",
            code="ValidationError",
            message="Stack with id curfew does not exist",
            times=None,
        )

    def volume(self, size: int = 500, region: str = REGION, tags: dict[str, str] | None = None) -> str:
        return self.aws.create_volume(size, TAGGED if tags is None else tags, region, create_time=ago(days=40))

    def scan(self, *arguments: str) -> Said:
        return curfew(self.aws.environment(), "scan", *arguments)

    def found(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """The findings by resource."""
        findings = self.scan("--json", "--quiet", *arguments).json()["findings"]
        by_resource = {finding["resource"]: finding for finding in findings}
        assert len(by_resource) == len(findings), "a resource is in one row"
        return by_resource


@pytest.fixture
def bare(aws: LocalAws) -> Iterator[Undeployed]:
    yield Undeployed(aws)


def test_the_permissions_of_its_help_are_documented() -> None:
    named = set(re.findall(r"[a-z0-9]+:[A-Z]\w+", curfew({}, "scan", "--help").fine().out))
    assert len(named) > 10 and named - {"cloudformation:DescribeStackResources"} <= permissions("scan")


def test_the_result_as_json(bare: Undeployed) -> None:
    gpu, volume = bare.idle(bare.gpu(tags={"Name": "llama"})), bare.volume()
    far = bare.idle(bare.untagged(region=EUROPE), EUROPE)
    bare.aws.clear_calls()
    said = bare.scan("--json")
    document, counts = said.json(), bare.aws.counts()
    assert set(counts) - {"cloudformation:DescribeStackResources"} <= permissions("scan")
    assert counts["ec2:DescribeInstances"] == counts["ec2:DescribeVolumes"] == len(REGIONS)
    assert (said.code, document["schema"], document["regions"], document["gaps"]) == (1, 1, REGIONS, [])
    assert document["seen"] == {"instances": 2, "volumes": 1, "unjudged": 0} and document["unanswered"] == []
    first, second, third = document["findings"]  # the dearest first
    assert [first["resource"], second["resource"], third["resource"]] == [far, gpu, volume]
    # The list of the stand-in has no type in that region: the table has.
    assert (first["usd_per_hour"], first["price_source"], first["team"]) == (1.258, "table of 2026-01-21", None)
    first, second = second, third
    assert {**first, "evidence": ""} == {
        "region": REGION,
        "resource": gpu,
        "kinds": ["idle"],
        "team": "vision",
        "owner": "ada",
        "name": "llama",
        "what": "g5.xlarge",
        "usd_per_hour": 1.006,
        "usd_per_month": G5_XLARGE_MONTH,
        "saves_usd_per_month": G5_XLARGE_MONTH,
        "price_source": f"Price List of {now():%Y-%m-%d}",
        "evidence": "",
        "notify_only": "local-disk",
        "created_at": None,
        "controller": None,
    }
    assert (second["what"], second["usd_per_month"]) == ("500 GiB gp3", 40.0)
    europe = 918.34

    def total(findings: int, usd: float) -> dict[str, object]:
        usd = pytest.approx(usd)
        return {"findings": findings, "usd_per_month": usd, "saves_usd_per_month": usd, "unknown_prices": 0}

    assert document["kinds"] == [
        {"kind": "idle", **total(2, G5_XLARGE_MONTH + europe)},
        {"kind": "untagged", **total(1, europe)},
        {"kind": "orphaned", **total(1, 40.0)},
    ]
    assert document["teams"] == [
        {"team": None, **total(1, europe)},
        {"team": "vision", **total(2, G5_XLARGE_MONTH + 40)},
    ]
    assert document["total"] == total(3, G5_XLARGE_MONTH + europe + 40)


def test_a_sum_without_a_price_is_unknown(bare: Undeployed) -> None:
    """A volume in Europe has a price in no table, and the list of the stand-in has none either."""
    orphan = bare.volume(region=EUROPE)
    document = bare.scan("--json", "--quiet").json()
    unknown = {"findings": 1, "usd_per_month": None, "saves_usd_per_month": None, "unknown_prices": 1}
    assert document["total"] == unknown and document["kinds"] == [{"kind": "orphaned", **unknown}]
    shown = bare.scan("--quiet").out
    assert "1 finding of unknown price, among 0 GPU instances" in shown and "unattached (orphaned) unknown (1)" in shown
    assert "$0.00" not in shown and orphan in shown
    bare.volume()
    assert "2 findings, at least $40.00 a month; 1 without a price, among" in bare.scan("--quiet").out


def test_the_price_list_is_asked_once_a_day_and_by_family(bare: Undeployed, tmp_path: Path) -> None:
    bare.gpu(), bare.gpu("g6.xlarge"), bare.gpu("p5.48xlarge"), bare.volume()
    environment = {**bare.aws.environment(), "XDG_CACHE_HOME": str(tmp_path)}
    cache = tmp_path / "curfew" / "prices.json"

    def asked() -> tuple[int, set[str]]:
        bare.aws.clear_calls()
        findings = curfew(environment, "scan", "--json", "--quiet").json()["findings"]
        return bare.aws.counts()["pricing:GetProducts"], {finding["price_source"] for finding in findings}

    today = {f"Price List of {now():%Y-%m-%d}"}
    # One family of instances, and three of volumes.
    assert asked() == (4, today) and asked() == (0, today)
    cache.write_text(cache.read_text()[:-20])
    assert asked() == (4, today) and asked() == (0, today)
    assert [path.name for path in cache.parent.iterdir()] == ["prices.json"]


def test_without_the_price_list_the_table_counts(bare: Undeployed, aws: LocalAws) -> None:
    gpu = bare.idle(bare.gpu())
    aws.fault("pricing:GetProducts", "access_denied", times=None)
    said = bare.scan("--json")
    [finding] = said.json()["findings"]
    assert (finding["resource"], finding["price_source"]) == (gpu, "table of 2026-09-24") and said.json()["gaps"] == []
    assert said.err.count("Prices are those of tables") == 1 and "pricing:GetProducts" in said.err


def test_the_result_as_a_table(bare: Undeployed) -> None:
    gpu, volume = bare.idle(bare.gpu("g5.12xlarge"), gpus=4), bare.volume()
    said = bare.scan()
    heading, first, second, *_ = said.out.splitlines()
    assert said.code == 1 and heading.split()[:3] == ["USD/month", "Finding", "Resource"]
    assert gpu in first and "4 GPUs at" in first and volume in second and "unattached, created" in second
    total = "2 findings, $4,180.56 a month, among 1 GPU instance and 1 unattached volume in 2 regions."
    assert total in said.out and "table of" not in said.out
    bare.aws.fault("pricing:GetProducts", "access_denied", times=None)
    assert "* table of 2026-09-24, table of 2026-09-30; the sums contain it.\n" in bare.scan("--quiet").out
    withheld = "Of the idle ones, Curfew would only notify about $4,140.56 a month (1): `local_disk` keeps their NVMe storage"
    assert withheld in said.out
    assert f"`curfew explain {gpu}`" in said.err and "make deploy" in said.err
    assert "[2/2]" in said.err and bare.scan("--quiet").err == ""


def test_only_the_regions_that_are_named(bare: Undeployed, aws: LocalAws) -> None:
    here, there = bare.idle(bare.gpu()), bare.idle(bare.gpu(region=EUROPE), EUROPE)
    aws.clear_calls()
    assert set(bare.found("--regions", EUROPE)) == {there}
    assert not aws.calls("ec2:DescribeRegions") and not aws.calls(region=REGION, action="ec2:DescribeInstances")
    assert set(bare.found("--regions", f"{EUROPE},{REGION}")) == {here, there}
    assert set(bare.found("--regions", f" {EUROPE}, {REGION} ")) == {here, there}
    said = bare.scan("--regions", "../x")
    assert said.code == 2 and "write it as us-east-1" in said.err


def test_a_region_that_denies_is_named_and_the_others_are_seen(bare: Undeployed, aws: LocalAws) -> None:
    here = bare.idle(bare.gpu())
    for call in ("ec2:DescribeInstances", "ec2:DescribeVolumes"):
        aws.fault(call, "access_denied", region=EUROPE, times=None)
    said = bare.scan("--json")
    document = said.json()
    assert said.code == 1 and [finding["resource"] for finding in document["findings"]] == [here]
    assert [(gap["region"], gap["call"]) for gap in document["gaps"]] == [
        (EUROPE, "ec2:DescribeInstances"),
        (EUROPE, "ec2:DescribeVolumes"),
    ]
    assert f"ec2:DescribeInstances failed in {EUROPE}" in said.err and "grant ec2:DescribeInstances" in said.err
    assert f"Not seen: instances of {EUROPE}; volumes of {EUROPE}." in bare.scan().out
    assert f"{EUROPE}: could not be seen" in said.err and "AWS_ACCESS_KEY_ID" in said.err


def test_a_region_forbidden_by_the_organisation_is_no_warning(bare: Undeployed, aws: LocalAws) -> None:
    aws.fault("ec2:Describe*", "scp_denied", region=EUROPE, times=None)
    said = bare.scan()
    assert said.code == 0 and "warning" not in said.err
    assert said.err.count(f"forbids it: {EUROPE}") == 1
    assert [gap["region"] for gap in bare.scan("--json").json()["gaps"]] == [EUROPE]
    aws.clear_faults()
    aws.fault("ec2:DescribeVolumes", "scp_denied", region=EUROPE, times=None)
    said = bare.scan()
    assert said.code == 2 and f"ec2:DescribeVolumes failed in {EUROPE}" in said.err and "forbids it:" not in said.err


def test_an_interrupted_scan_shows_what_it_saw(bare: Undeployed, aws: LocalAws) -> None:
    here = bare.idle(bare.gpu())
    aws.fault("ec2:DescribeInstances", "slow", seconds=600, region=EUROPE)
    said = interrupted(aws.environment(), "scan", after=here)
    out = said.out
    assert said.code == 2
    assert here in out and out.endswith(f"interrupted: 1 of 2 regions seen, not {EUROPE}\n"), out


def test_what_the_configuration_misses_is_said(bare: Undeployed, tmp_path: Path) -> None:
    here, there = bare.idle(bare.untagged(tags={"team": "vision", "Owner": "ada"})), bare.gpu(region=EUROPE)
    file = tmp_path / "curfew.toml"
    file.write_text(f'regions = ["{REGION}"]\n')
    said = bare.scan("--config", str(file), "--quiet")
    assert f"regions leaves out {EUROPE}, where 1 GPU instance runs; add {EUROPE} to regions" in said.err
    assert f'1 of 1 GPU instances carry "team", which is not the required tag Team: {here}' in said.err
    assert 'set [tags] team = "team"' in said.err
    assert "leaves out" not in bare.scan("--regions", REGION, "--quiet").err and there not in said.out
    said = curfew(bare.aws.environment(), "config", "check", str(file))
    assert said.code == 0 and f"regions leaves out {EUROPE}" in said.err and 'carry "team"' in said.err


def test_a_scan_uses_the_named_file(bare: Undeployed, tmp_path: Path, aws: LocalAws) -> None:
    bare.idle(bare.gpu())
    mine = bare.idle(bare.untagged(tags={"Squad": "nlp"}))
    file = tmp_path / "curfew.toml"
    file.write_text(f'regions = ["{REGION}"]\n[tags]\nteam = "Squad"\nrequired = ["Squad"]\n')
    aws.clear_calls()
    found = bare.found("--config", str(file))
    assert (found[mine]["team"], found[mine]["kinds"]) == ("nlp", ["idle"])
    assert "cloudformation:DescribeStackResources" not in aws.counts()
    file.write_text("[idle]\nwindow = 5\n")
    said = bare.scan("--config", str(file))
    assert said.code == 2 and f"{file}:2:10: key `idle.window`" in said.err and not said.out
    said = bare.scan("--config", "/nowhere/curfew.toml")
    assert said.code == 2 and "No such file" in said.err and "AWS_ACCESS_KEY_ID" not in said.err


def test_a_scan_uses_the_deployment(account: Account, aws: LocalAws) -> None:
    gpu = account.idle(account.gpu())
    account.configure(tags={"required": ["Team", "CostCenter"]})
    said = curfew(account.environment(), "scan", "--json")
    assert [(one["resource"], one["kinds"]) for one in said.json()["findings"]] == [(gpu, ["idle", "untagged"])]
    account.write_config("mode = 1")
    said = curfew(account.environment(), "scan", "--json")
    assert said.code == 2 and "config/curfew.toml, line 1" in said.err and not said.out
