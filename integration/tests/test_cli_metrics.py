"""`curfew metrics`: what Systems Manager gets, and what reports; and the recipes for DCGM beside an exporter's output."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from command import curfew
from reaping import EUROPE, REPOSITORY, Account, ago

RECIPE = REPOSITORY / "docs/recipes/dcgm"


_FAKE_CTL = """#!/bin/sh
echo "ctl $*" >>"{log}"
case "$2" in
append-config) cp "${{6#file:}}" "{kept}/file_$(basename "$6")" ;;
remove-config) rm "{kept}/file_${{6#file:}}" ;;
esac
"""


class Machine:
    """A machine with programs that note how they are called, on which Systems Manager runs commands."""

    def __init__(self, folder: Path) -> None:
        self.agent, self.path, self.log = folder / "agent", folder / "path", folder / "log"
        self.kept = self.agent / "etc/amazon-cloudwatch-agent.d"
        for made in (self.path, self.kept, self.agent / "bin"):
            made.mkdir(parents=True)
        self.add(self.path / "systemctl", f'#!/bin/sh\necho "systemctl $*" >>"{self.log}"\n')

    def add(self, program: Path, text: str) -> None:
        program.write_text(text)
        program.chmod(0o755)

    def install_agent(self) -> None:
        self.add(self.agent / "bin/amazon-cloudwatch-agent-ctl", _FAKE_CTL.format(log=self.log, kept=self.kept))

    def run(self, commands: list[str]) -> tuple[int, list[str]]:
        """The exit status, and the calls, without the folder of the file."""
        self.log.write_text("")
        script = "\n".join(commands).replace("/opt/aws/amazon-cloudwatch-agent", str(self.agent))
        ended = subprocess.run(["sh"], input=script, text=True, capture_output=True, env={"PATH": f"{self.path}:/usr/bin:/bin"}, check=False)
        return ended.returncode, re.sub(r"file:/\S*/", "file:", self.log.read_text()).splitlines()


def check_scripts(folder: Path, configure: list[str], remove: list[str]) -> None:
    """Only a machine with GPUs gets the configuration, a second time changes nothing, and no agent stays without a configuration."""
    machine = Machine(folder)
    append, removal = (f"ctl -a {action}-config -m ec2 -c file:curfew-gpu.json" for action in ("append", "remove"))
    assert machine.run(configure) == (0, []), "no nvidia-smi"
    machine.add(machine.path / "nvidia-smi", "#!/bin/sh\n")
    assert machine.run(configure) == (1, []), "no agent yet"
    machine.install_agent()
    assert machine.run(configure) == (0, [append + " -s"])
    assert json.loads((machine.kept / "file_curfew-gpu.json").read_text())["metrics"]["metrics_collected"]
    assert machine.run(configure) == (0, ["ctl -a start"])
    (machine.kept / "ssm_theirs").write_text("{}")
    assert machine.run(remove) == (0, [removal, "systemctl try-restart amazon-cloudwatch-agent"])
    assert machine.run(remove) == (0, [])
    (machine.kept / "ssm_theirs").unlink()
    machine.run(configure)
    assert machine.run(remove) == (0, [removal, "systemctl disable --now amazon-cloudwatch-agent"])


def test_the_agent_is_installed_checked_and_taken_back(account: Account, tmp_path: Path) -> None:
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
    for tag, values in (("Team=vision", ["vision"]), ("Team=speech,vision", ["vision", "speech"])):
        curfew(environment, "metrics", "install", "--tag", tag, "--utilisation-only", "--yes").fine()
        install, configure = ssm.list_associations()["Associations"]
        assert (install["Name"], configure["Name"]) == ("AWS-ConfigureAWSPackage", "AWS-RunShellScript")
        assert install["Targets"] == configure["Targets"] == [{"Key": "tag:Team", "Values": values}]
    commands = ssm.describe_association(AssociationId=configure["AssociationId"])["AssociationDescription"]["Parameters"]["commands"]
    assert any('"measurement":["utilization_gpu"]' in line for line in commands)
    refused = curfew(environment, "metrics", "install", "--yes")
    assert refused.code == 2 and f"{silent} cannot be added" in refused.out

    account.aws.fault("ssm:SendCommand", "access_denied", times=None)
    denied = curfew(environment, "metrics", "uninstall", "--yes", "--json")
    assert (denied.code, denied.json()["outcome"], len(ssm.list_associations()["Associations"])) == (2, "incomplete", 2)
    account.aws.clear_faults()
    removed = curfew(environment, "metrics", "uninstall", "--yes", "--json").fine().json()
    assert (removed["outcome"], removed["regions"]) == ("removed", [EUROPE])
    assert not ssm.list_associations()["Associations"]
    [command] = ssm.list_commands()["Commands"]
    assert [{"region": EUROPE, "id": command["CommandId"]}] == removed["commands"]
    check_scripts(tmp_path, commands, command["Parameters"]["commands"])
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
