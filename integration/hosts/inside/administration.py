"""What systemctl, systemd-run, shutdown and poweroff do, as far as Curfew's user data and agent ask for it.

Source: systemctl(1), systemd-run(1), shutdown(8). Whatever else is asked is an error that says so.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from services import Service, Timer
from units import Unit, moment

if TYPE_CHECKING:
    from init import Machine

LOOK_SECONDS = 0.05
WANTS = "etc/systemd/system/multi-user.target.wants"


async def called(machine: Machine, name: str, words: list[str]) -> tuple[int, str]:
    """A command of the machine's administration: its exit code, and what it says."""
    options, rest = [word for word in words if word.startswith("-")], [word for word in words if not word.startswith("-")]
    if name == "systemd-run":
        return _systemd_run(machine, words)
    if name == "shutdown" and rest not in ([], ["now"], ["+0"]):
        return 1, f"shutdown: this stand-in only knows `now`, not {rest}"
    if name in ("shutdown", "poweroff") or rest[:1] == ["poweroff"]:
        # systemctl(1): what is forced stops no units, and once they are told twice, nothing at all.
        if name != "shutdown" and {"-f", "--force"} & set(options):
            asyncio.get_running_loop().call_later(LOOK_SECONDS, machine.go_dark)
        else:
            machine.later(machine.go_down())
        return 0, ""
    return await _systemctl(machine, rest, "--no-block" in options)


async def _systemctl(machine: Machine, words: list[str], is_asynchronous: bool) -> tuple[int, str]:
    verb, names = words[0] if words else "", [name if "." in name else f"{name}.service" for name in words[1:]]
    folder = machine.root / "etc/systemd/system"
    for name in names:
        unit = Unit.find(name, folder)
        if unit is None:
            return 5, f"Unit {name} not found."
        if verb == "enable":
            for target in unit.wanted_by():
                link = folder / f"{target}.wants" / name
                link.parent.mkdir(exist_ok=True)
                if not link.is_symlink():
                    link.symlink_to(folder / name)
        elif verb == "start":
            service = machine.start(name)
            while not is_asynchronous and service is not None and service.state == "activating":
                await asyncio.sleep(LOOK_SECONDS)
    return (0, "") if verb in ("daemon-reload", "enable", "start") else (1, f"systemctl {verb}: unknown to this stand-in")


def _systemd_run(machine: Machine, words: list[str]) -> tuple[int, str]:
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        key, _, value = words.pop(0).partition("=")
        options.setdefault(key, []).append(value)
    if unknown := options.keys() - {"--no-block", "--unit", "--property", "--timer-property", "--on-calendar"}:
        return 1, f"systemd-run: {sorted(unknown)[0]}: unknown to this stand-in"
    name = f"{options.get('--unit', [f'run-{uuid.uuid4().hex[:8]}'])[-1]}.service"
    if name in machine.services and machine.services[name].state in ("active", "activating"):
        return 1, f"Failed to start transient service unit: Unit {name} was already loaded"
    has_default_dependencies = "DefaultDependencies=no" not in options.get("--property", [])
    service = Service(Unit(name, {}), has_default_dependencies=has_default_dependencies)
    if calendar := options.get("--on-calendar"):
        machine.timers.append(Timer(moment(calendar[-1]), service, words))
        return 0, f"Running timer as unit: {name.removesuffix('.service')}.timer"
    machine.start_command(service, words)
    return 0, f"Running as unit: {name}"
