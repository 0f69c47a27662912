"""GPUs for a process that loads NVIDIA's management library, on a machine that has none.

    nvml = Nvml(tmp_path)
    nvml.shows([Gpu(utilization=97), Gpu(power=UNSUPPORTED)])
    subprocess.Popen(..., env={**os.environ, **nvml.environment()})
    nvml.shows([Gpu(utilization=HANGS)])                            # from the next call on

It is nvml.c, found before the real one by ld.so(8), so it works on Linux.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from compiled import shared_library

IS_HERE = sys.platform == "linux"

# What a call answers in place of a figure: an nvmlReturn_t (NVML API reference), or nothing until the GPUs show something else.
UNSUPPORTED, NO_DRIVER, LOST, HANGS = "!3", "!9", "!15", "hang"

_SOURCE = Path(__file__).with_name("nvml.c")
_LIBRARY = Path(__file__).resolve().parents[2] / "target" / "fake-nvml" / "libnvidia-ml.so.1"
_BEGUN = "0"


@dataclass
class Gpu:
    """What it answers: percent, MiB, watts; `handle` to the call that opens it."""

    utilization: int | str = 0
    memory: int | str = 3
    power: float | str = 30.0
    name: str = "NVIDIA L4"
    handle: int | str = 0

    def line(self) -> str:
        power = self.power if isinstance(self.power, str) else round(self.power * 1000)
        return f"{self.handle} {self.utilization} {self.memory} {power} {self.name}"


class Nvml:
    """The library, and what it says; a folder of its own is the test's."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "gpus"
        self.shows([])

    def shows(self, gpus: list[Gpu], begins: str = _BEGUN) -> None:
        """From the next call on; `begins` is what nvmlInit answers."""
        new = self._file.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in (begins, *(gpu.line() for gpu in gpus))))
        new.replace(self._file)

    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(shared_library(_SOURCE, _LIBRARY).parent), "FAKE_NVML": str(self._file)}
