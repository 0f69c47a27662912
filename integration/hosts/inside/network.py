"""The network of a machine in a namespace of its own: nothing but `lo`, with one address more. netdevice(7)."""

from __future__ import annotations

import ctypes
import fcntl
import shutil
import socket
import struct
import subprocess

_SIOCADDRT, _SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x890B, 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP = _RTF_UP = 1
METADATA = "169.254.169.254"


def listeners(port: int, address: str | None = None) -> list[socket.socket]:
    """Begins the network, with the private address of a machine that has others beside it, and the default route of that. Who listens where
    EC2's instance metadata is, and at this port of this machine's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _up(any_socket, "lo")
        _address(any_socket, "lo:0", METADATA)
        _up(any_socket, "lo:0")
        if address:
            _address(any_socket, "lo:1", address)
            _up(any_socket, "lo:1")
            _default_route(any_socket, "lo")
    _route_by_rules()
    return [_listener(METADATA, 80), _listener("127.0.0.1", port)]


def _listener(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), backlog=128)


def _route_by_rules() -> None:
    """On EC2 that address is another machine's, so rules of routing apply to it: those for the machine's own addresses come after them."""
    if shutil.which("ip"):
        for words in ("add priority 100 lookup local", "del priority 0"):
            subprocess.run(["ip", "rule", *words.split()], check=False)


def _up(any_socket: socket.socket, name: str) -> None:
    request = struct.pack("16sH14x", name.encode(), 0)
    flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", name.encode(), flags | _IFF_UP))


def _address(any_socket: socket.socket, name: str, host: str) -> None:
    for what, of in ((_SIOCSIFADDR, host), (_SIOCSIFNETMASK, "255.255.255.255")):
        fcntl.ioctl(any_socket, what, struct.pack("16sH2x4s8x", name.encode(), socket.AF_INET, socket.inet_aton(of)))


def _default_route(any_socket: socket.socket, name: str) -> None:
    """All else goes by this interface, behind which no machine is. netdevice(7); `struct rtentry` of linux/route.h, for 64 bits."""
    device = ctypes.create_string_buffer(name.encode())
    any_address = struct.pack("H14x", socket.AF_INET)
    route = struct.pack("8x16s16s16sH30xP24x", any_address, any_address, any_address, _RTF_UP, ctypes.addressof(device))
    fcntl.ioctl(any_socket, _SIOCADDRT, route)
