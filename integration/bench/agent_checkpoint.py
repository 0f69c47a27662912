"""A checkpoint of mixed sizes, as frameworks write them: a few large shards, some of 16 MiB, and very many small files."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
STEP = 500
NAME = f"step-{STEP}"


@dataclass(frozen=True)
class Checkpoint:
    """How many files there are of each size, in bytes."""

    files: Mapping[int, int]

    @property
    def bytes(self) -> int:
        return sum(size * count for size, count in self.files.items())

    def __str__(self) -> str:
        return ", ".join(f"{count:,} of {_size(size)}" for size, count in self.files.items())


# Together 4 GiB.
FULL = Checkpoint({2048 * MIB: 1, 512 * MIB: 3, 16 * MIB: 24, 64 * 1024: 2_000, 3 * MIB: 1})


def _size(size: int) -> str:
    return f"{size // MIB:,} MiB" if size >= MIB else f"{size // 1024} KiB"


def make(checkpoint: Checkpoint, folder: Path) -> None:
    """Fills `folder`, which is not there yet. No two files are alike, nor two MiB of one; it comes out the same each time."""
    folder.mkdir(parents=True)
    block = random.Random(1).randbytes(MIB)
    for size, count in checkpoint.files.items():
        for number in range(count):
            with (folder / f"{_size(size).replace(' ', '').replace(',', '')}-{number}.bin").open("wb") as file:
                for at in range(0, size, MIB):
                    begin = f"{size} {number} {at}".encode().ljust(64)
                    file.write((begin + block)[: min(MIB, size - at)])
    (folder / "_SUCCESS").write_text("whole\n")  # marks it as complete


def digest(folder: Path) -> str:
    """Of all names and all that is in the files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            whole.update(f"{path.relative_to(folder)} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
