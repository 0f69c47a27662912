"""`curfew metrics`: what Systems Manager gets, and what reports; and the recipes for DCGM beside an exporter's output."""

from __future__ import annotations

import json
import re
import tomllib

import yaml

from command import curfew
from reaping import EUROPE, REPOSITORY, Account, ago

PARAMETER = "AmazonCloudWatch-curfew-gpu"
RECIPE = REPOSITORY / "docs/recipes/dcgm"


def test_the_agent_is_installed_checked_and_taken_back(account: Account) -> None:
    silent, full = account.gpu("g5.12xlarge", EUROPE), account.gpu("g5.12xlarge", EUROPE)
    account.busy(full, EUROPE, gpus=4)
    start = ago(minutes=60)
    for gpu in range(4):
        dimensions = {"InstanceId": silent, "GpuId": str(gpu)}
        account.aws.put_metrics("AWS/EC2", "GPUPowerUtilization", dimensions, [3.0] * 12, start, region=EUROPE)

    environment = account.environment()
    said = curfew(environment, "metrics", "check", "--json")
    checked = {one["instance"]: one for one in said.json()["instances"]}
    assert (said.code, checked[full]["is_full"], checked[full]["memory"]) == (1, True, ["0", "1", "2", "3"])
    assert (checked[silent]["utilization"], checked[silent]["power"]) == ([], ["0", "1", "2", "3"])
    assert "install the CloudWatch agent" in checked[silent]["advice"]
    assert curfew(environment, "metrics", "check", full).fine().out.startswith(f"{full} (g5.12xlarge, {EUROPE}): utilisation 4 of 4")

    asked = curfew(environment, "metrics", "install")
    assert asked.code == 2 and "It costs $2.40 a month" in asked.err and silent in asked.err and full not in asked.err
    ssm = account.aws.client("ssm", region=EUROPE)
    assert not ssm.list_associations()["Associations"]
    for _ in range(2):
        curfew(environment, "metrics", "install", "--tag", "Team=vision", "--utilisation-only", "--yes").fine()
        install, configure = ssm.list_associations()["Associations"]
        assert (install["Name"], configure["Name"]) == ("AWS-ConfigureAWSPackage", "AmazonCloudWatch-ManageAgent")
        assert install["Targets"] == configure["Targets"] == [{"Key": "tag:Team", "Values": ["vision"]}]
        written = json.loads(ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"])
        assert written["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"] == ["utilization_gpu"]

    removed = curfew(environment, "metrics", "uninstall", "--yes", "--json").fine().json()
    assert (removed["outcome"], removed["regions"]) == ("removed", [EUROPE])
    assert not ssm.list_associations()["Associations"]
    [command] = ssm.list_commands()["Commands"]
    assert command["Parameters"]["action"] == ["configure (remove)"]
    assert curfew(environment, "metrics", "uninstall", "--yes", "--json").fine().json()["outcome"] == "nothing-to-do"


def test_the_recipes_for_dcgm_name_what_an_exporter_prints() -> None:
    lines = [line for line in (RECIPE / "exporter.txt").read_text().splitlines() if not line.startswith("#")]
    printed = {line.partition("{")[0] for line in lines}
    labels = set.intersection(*(set(re.findall(r'(\w+)="', line)) for line in lines))
    names = tomllib.loads((RECIPE / "curfew.toml").read_text())["metrics"]["nvidia"]
    wanted = {names["utilization"], names["memory_used_mib"]}
    dimensions = [names["instance_dimension"], names["device_dimension"]]
    assert wanted <= printed and names["device_dimension"] in labels
    curfew({}, "config", "check", str(RECIPE / "curfew.toml")).fine()

    agent = json.loads((RECIPE / "cloudwatch-agent.json").read_text())["logs"]["metrics_collected"]["prometheus"]
    scrape = yaml.safe_load((RECIPE / "prometheus.yaml").read_text())
    adot = yaml.safe_load((RECIPE / "adot.yaml").read_text())
    exporter = adot["exporters"]["awsemf"]
    of_agent, of_adot = agent["emf_processor"]["metric_declaration"][0], exporter["metric_declarations"][0]
    assert agent["emf_processor"]["metric_namespace"] == exporter["namespace"] == names["namespace"]
    for config, declaration, selectors in (
        (scrape, of_agent, "metric_selectors"),
        (adot["receivers"]["prometheus"]["config"], of_adot, "metric_name_selectors"),
    ):
        [job] = config["scrape_configs"]
        [static] = job["static_configs"]
        assert job["job_name"] == "dcgm" and static["targets"] == ["localhost:9400"]
        assert set(static["labels"]) == {names["instance_dimension"]}
        assert declaration["dimensions"] == [dimensions]
        chosen = {name for name in printed if any(re.search(pattern, name) for pattern in declaration[selectors])}
        assert chosen == wanted
    assert re.search(of_agent["label_matcher"], "dcgm") and of_agent["source_labels"] == ["job"]
