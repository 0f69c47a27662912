"""`python -m local_aws`: a local AWS until Ctrl-C, SIGTERM, or the end of the process that started it."""

from __future__ import annotations

import argparse
import os
import signal
import threading

from .server import running


def main() -> None:
    options = _options()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    with running(options.port, filter(None, options.regions.split(","))) as aws:
        print(aws.endpoint, flush=True)
        # An orphan is handed to another parent. Polling works everywhere, and a thread of the parent may end.
        while not stop.wait(0.2) and os.getppid() == parent:
            pass


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="local_aws", description="A local AWS: moto behind a proxy.")
    parser.add_argument("--port", type=int, default=0, help="the loopback port; 0 (the default) takes a free one")
    parser.add_argument("--regions", default="", help="what DescribeRegions answers, comma-separated; empty: all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
