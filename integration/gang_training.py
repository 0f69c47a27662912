"""A training on several nodes that comes out the same however often it is interrupted: after each step the node's state follows from those of all.

Run by the agent as its command, on each node: `python3 gang_training.py FOLDER STEPS EVERY`. The nodes meet over a socket of FOLDER, which no
network namespace hides, named by the address and the port of node 0: a node that is killed resets its connections, one that hangs does not.
Each step reduces a flag too, so that all nodes save the same step after one of them got a signal. In FOLDER, `trail-<node>` has each step, and
a test may put `pause-after` (a step), `hold-<node>` (its save waits until the file is gone) and `fail-<node>` (an exit code).
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

STEP_SECONDS = 0.02


def advanced(own: int, total: int) -> int:
    return (own * 31 + total * 17 + 1) % 2**61


def undisturbed(nodes: int, steps: int) -> str:
    """What has to come out."""
    states = list(range(nodes))
    for _ in range(steps):
        states = [advanced(own, sum(states)) for own in states]
    return str(sum(states))


def main(folder: Path, steps: int, every: int) -> int:
    rank, nodes, attempt = (int(os.environ[name]) for name in ("NODE_RANK", "NNODES", "CURFEW_ATTEMPT"))
    told: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    os.chdir(folder)
    streams = [one.makefile("rw") for one in meet(rank, nodes, "{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ))]
    step = saved = int(os.environ.get("CURFEW_RESUME_STEP", 0))
    # The parts of all nodes are there: who has only its own fails.
    parts = [json.loads((Path(os.environ["CURFEW_RESUME_FROM"]) / f"part-{one}").read_text()) for one in range(nodes)] if step else [*range(nodes)]
    own = parts[rank]
    while True:
        pauses = step == int(read("pause-after") or -1)
        total, signals, held = reduce(rank, streams, [own, len(told), int(pauses)])
        is_over = signals or step == steps
        if step != saved and (is_over or step % every == 0):
            save(rank, step, own)
            saved = step
        if is_over:
            break
        time.sleep(STEP_SECONDS)
        if not held:
            own, step = advanced(own, total), step + 1
            with open(f"trail-{rank}", "a") as trail:
                trail.write(f"{attempt} {step}\n")
            if code := read(f"fail-{rank}"):
                return int(code)
    if not signals and rank == 0:
        Path("result").write_text(str(total))
    return 143 if signals else 0


def read(name: str) -> str:
    return Path(name).read_text() if Path(name).exists() else ""


def meet(rank: int, nodes: int, name: str) -> list[socket.socket]:
    """All others on node 0, and node 0 on all others."""
    if rank == 0:
        Path(name).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
            listening.listen(nodes)
            return [listening.accept()[0] for _ in range(nodes - 1)]
    while True:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(name)
            return [peer]
        except OSError:
            peer.close()
            time.sleep(STEP_SECONDS)


def reduce(rank: int, streams: list, values: list[int]) -> list[int]:
    """The sums over all nodes."""
    def receive(stream) -> list[int]:
        if not (line := stream.readline()):
            raise ConnectionResetError("Connection reset by peer")
        return json.loads(line)

    def send(stream, what: list[int]) -> None:
        print(json.dumps(what), file=stream, flush=True)

    if rank:
        send(streams[0], values)
        return receive(streams[0])
    sums = [sum(each) for each in zip(values, *map(receive, streams))]
    for stream in streams:
        send(stream, sums)
    return sums


def save(rank: int, step: int, own: int) -> None:
    while Path(f"hold-{rank}").exists():
        time.sleep(STEP_SECONDS)
    temporary = Path(os.environ["CURFEW_CHECKPOINT_DIR"]) / f"tmp-{step}"
    temporary.mkdir()
    (temporary / f"part-{rank}").write_text(json.dumps(own))
    temporary.rename(temporary.with_name(f"step-{step}"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
