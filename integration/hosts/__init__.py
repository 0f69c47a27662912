"""Machines for the instances of a local AWS, and what AWS tells of them: a job's whole life on one machine.

    environment = jobs.environment(LAMBDA_TASK_ROOT=str(package(folder / "package")))
    with Hosts(aws, folder / "hosts", hurry=20) as hosts, Control(aws, environment) as control:
        host = hosts.wait_for("i-0123456789abcdef0")
        control.interrupt(host, notice=6.0)

Each instance that appears with user data is booted as cloud-init and systemd do it, in namespaces of its own where they are to be had. The
agent that it fetches, and the functions that hear of it, are the real ones.
"""

from .agent import package
from .control import Control
from .disks import Disks, why_no_boxes
from .host import Host
from .hosts import Hosts
from .wires import why_no_wires

__all__ = ["Control", "Disks", "Host", "Hosts", "package", "why_no_boxes", "why_no_wires"]
