"""A command that speaks to the machine's init: systemctl, systemd-run, shutdown, poweroff.

It is called by a script of that name, with the socket of init before its own arguments.
"""

import json
import socket
import sys


def main() -> int:
    path, name, *arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as init:
        try:
            init.connect(path)
            init.sendall(json.dumps([name, *arguments]).encode() + b"\n")
            answered = init.makefile().readline()
        except OSError as error:
            answered = ""
            print(f"{name}: {error}", file=sys.stderr)
    if not answered:
        print(f"{name}: init has not answered", file=sys.stderr)
        return 1
    code, words = json.loads(answered)
    if words:
        print(words, file=sys.stderr if code else sys.stdout)
    return code


sys.exit(main())
