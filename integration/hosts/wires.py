"""A network between machines in namespaces of their own, as of a subnet: each has `eth0`, and all wires end at one router.

Needs root, ip(8) and nsenter(1). A router and not a bridge, because the rules of the host's firewall may apply to bridges.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass

_GATEWAY = "169.254.1.1"


def why_no_wires() -> str:
    """Empty where machines can be wired."""
    if os.geteuid() != 0:
        return "only root may wire machines"
    lacking = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if lacking:
        return f"there is no {' and no '.join(lacking)}"
    tried = subprocess.run(["unshare", "--net", "ip", "link", "add", "name", "one", "type", "veth", "peer", "name", "two"], capture_output=True, text=True)
    return f"machines cannot be wired: {tried.stderr.strip()}" if tried.returncode else ""


class Router:
    """In a namespace of its own, until it is closed."""

    def __init__(self) -> None:
        # It ends with its input, also where nobody is left to close it.
        begins = "echo 1 > /proc/sys/net/ipv4/ip_forward && echo && exec cat"
        self._process = subprocess.Popen(["unshare", "--net", "sh", "-c", begins], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None and self._process.stdout.readline(), "the router does not begin"
        self._numbers = itertools.count()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def connect(self, init: int, address: str) -> Wire:
        """Gives a machine, by its first process, an interface with this address and the default route."""
        name = f"m{next(self._numbers)}"
        self.configure(
            f"link add {name} type veth peer name eth0 netns {init}",
            f"address add {_GATEWAY}/32 dev {name}",
            f"link set {name} up",
            f"route replace {address}/32 dev {name}",
        )
        _configure(
            init,
            f"address add {address}/32 dev eth0",
            "link set eth0 up",
            f"route add default via {_GATEWAY} dev eth0 onlink src {address}",
        )
        return Wire(self, name, address)

    def configure(self, *lines: str, may_fail: bool = False) -> None:
        _configure(self._process.pid, *lines, may_fail=may_fail)


@dataclass(frozen=True)
class Wire:
    """One machine's."""

    router: Router
    name: str
    address: str

    def cut(self) -> None:
        """What is sent to the machine and by it is lost, and nobody is told. Where it is off, it has no interface any more."""
        self.router.configure(f"route replace blackhole {self.address}/32", f"link set {self.name} down", may_fail=True)


def _configure(pid: int, *lines: str, may_fail: bool = False) -> None:
    """In the namespace of a process."""
    words = ["nsenter", "--target", str(pid), "--net", "ip", "-batch", "-"]
    done = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True)
    assert may_fail or done.returncode == 0, f"{lines}: {done.stderr}"
