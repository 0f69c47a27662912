"""Resumes and marks checkpoints under Curfew, in one file without dependencies: copy it beside the training, or fetch it in `setup`.
`pip install curfew-aws` has the same functions under the same name.

    path, step = curfew.resume()            # (None, 0) at the first start
    ...
    torch.save(state, curfew.path(f"step={step}.pt"))
    curfew.saved(curfew.path(f"step={step}.pt"), step)
    if curfew.should_stop():                # the machine is interrupted: save, and end
        sys.exit(143)

Outside of Curfew it resumes nothing and never stops.
"""

from __future__ import annotations

import os
import signal
import threading

_stop = threading.Event()


def resume() -> tuple[str | None, int | None]:
    """The path to resume from and its step; (None, 0) at the first start. The step is None if the files have no number."""
    _listen()
    path = os.environ.get("CURFEW_RESUME_FROM")
    if path is None:
        return None, 0
    step = os.environ.get("CURFEW_RESUME_STEP")
    return path, None if step is None else int(step)


def should_stop() -> bool:
    """Whether the signal of an interruption came: two minutes are left at most."""
    _listen()
    return _stop.is_set()


def path(name: str) -> str:
    """A path in the checkpoint directory, or in ./checkpoints outside of Curfew."""
    directory = os.environ.get("CURFEW_CHECKPOINT_DIR", "checkpoints")
    os.makedirs(directory, exist_ok=True)
    return os.path.join(directory, name)


def saved(path: str | os.PathLike[str], step: int | None = None) -> None:
    """Marks a checkpoint, a file or a directory, as complete: it is uploaded at once. `step`: if the name does not say it."""
    path = os.fspath(path).rstrip("/")
    marker = os.path.join(path, ".complete") if os.path.isdir(path) else path + ".complete"
    # Written under another name first, because an incomplete marker would say another step.
    new = os.path.join(os.path.dirname(marker), ".curfew-marker")
    with open(new, "w") as file:
        file.write("" if step is None else f"step={step}\n")
    os.replace(new, marker)


def _listen() -> None:
    """Handles the signal, from the first call in the main thread on, and still calls the previous handler."""
    number = getattr(signal, os.environ.get("CURFEW_SIGNAL", "SIGTERM"))
    if threading.current_thread() is not threading.main_thread() or getattr(signal.getsignal(number), "_is_curfew", False):
        return
    before = signal.getsignal(number)

    def handle(number: int, frame: object) -> None:
        _stop.set()
        if callable(before):
            before(number, frame)

    handle._is_curfew = True  # type: ignore[attr-defined]
    signal.signal(number, handle)
