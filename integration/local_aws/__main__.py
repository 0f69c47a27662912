"""`python -m local_aws`: a local AWS until Ctrl-C, SIGTERM, or the end of the process that started it."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

from .client import LocalAws
from .server import running


def main() -> None:
    options = _options()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    with running(options.port, filter(None, options.regions.split(","))) as aws:
        if options.env_file is not None:
            options.env_file.parent.mkdir(parents=True, exist_ok=True)
            options.env_file.write_text("".join(f"{name}={value}\n" for name, value in deployed(aws).items()))
        print(aws.endpoint, flush=True)
        # An orphan is handed to another parent. Polling works everywhere, and a thread of the parent may end.
        while not stop.wait(0.2) and os.getppid() == parent:
            pass


def deployed(aws: LocalAws) -> dict[str, str]:
    """The environment of a function, with the state bucket and the topic that it names: they are created here."""
    bucket = "curfew-state"
    aws.client("s3").create_bucket(Bucket=bucket)
    topic = aws.client("sns").create_topic(Name="curfew")["TopicArn"]
    return {**aws.environment(), "CURFEW_BUCKET": bucket, "CURFEW_TOPIC_ARN": topic, "CURFEW_MODE": "observe"}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="local_aws", description="A local AWS: moto behind a proxy.")
    parser.add_argument("--port", type=int, default=0, help="the loopback port; 0 (the default) takes a free one")
    parser.add_argument("--regions", default="", help="what DescribeRegions answers, comma-separated; empty: all")
    parser.add_argument("--env-file", type=Path, help="create a state bucket and a topic, and write the environment of a function to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
