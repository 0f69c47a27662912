"""Whether a program starts on an old Linux: no symbol of a newer glibc, and linked dynamically, so that it can load NVIDIA's library.

`python3 baseline.py --glibc 2.26 FILE...` reads the files (ELF, 64 bits, little-endian) and says what each needs; exit code 1
where one needs more, and 2 where one cannot be read. It needs nothing but Python, for it is a part of every build.

Sources: ELF's tables in elf(5); the versions that a program needs, in the Linux Standard Base Core Specification, "Symbol
Versioning".
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {62: "x86_64", 183: "arm64"}  # e_machine
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3  # p_type
_NEEDED, _STRINGS, _VERSIONS, _VERSIONS_COUNT = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF  # d_tag


class Unreadable(Exception):
    """A file that is no program of that kind; why."""


@dataclass(frozen=True)
class Program:
    machine: str
    interpreter: bool  # whether the system's loader starts it, and so can load more
    libraries: tuple[str, ...]
    versions: tuple[str, ...]  # of symbols that it needs: GLIBC_2.17, GCC_3.0, ...

    @property
    def glibc(self) -> tuple[int, ...]:
        """The newest that it needs; of one that needs none, nothing."""
        return max((read_version(one) for one in self.versions if _is_dotted(one)), default=())

    def problems(self, glibc: tuple[int, ...]) -> list[str]:
        dotted = sorted({one for one in self.versions if _is_dotted(one)}, key=read_version)
        newer = [one for one in dotted if read_version(one) > glibc]
        found = [f"it needs {one}, which {_shown(glibc)} does not have" for one in newer]
        found += [f"it needs {one}, which only glibc itself may" for one in {"GLIBC_PRIVATE"} & {*self.versions}]
        if not self.interpreter or not any(one.startswith("libc.so") for one in self.libraries):
            found.append("it is not linked with glibc dynamically, and cannot load a library when it runs")
        return found


def read(path: Path) -> Program:
    """Raises Unreadable, or OSError."""
    image = path.read_bytes()
    try:
        return _read(image)
    except (struct.error, IndexError, ValueError) as error:
        raise Unreadable(f"it is cut off or damaged ({error})") from None


def read_version(name: str) -> tuple[int, ...]:
    """Of `GLIBC_2.17`, or `2.17`."""
    return tuple(int(number) for number in name.removeprefix("GLIBC_").split("."))


def _is_dotted(name: str) -> bool:
    numbers = name.removeprefix("GLIBC_")
    return name != numbers and all(number.isdigit() for number in numbers.split("."))


def _shown(glibc: tuple[int, ...]) -> str:
    return "glibc " + ".".join(map(str, glibc))


def _read(image: bytes) -> Program:
    if image[:6] != b"\x7fELF\x02\x01":
        raise Unreadable("it is no ELF file of 64 bits, little-endian")
    machine, table, size, count = (
        struct.unpack_from(kind, image, at)[0] for kind, at in (("<H", 18), ("<Q", 32), ("<H", 54), ("<H", 56))
    )
    # p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
    segments = [struct.unpack_from("<IIQQQQQQ", image, table + number * size) for number in range(count)]
    loaded = [(virtual, offset, length) for kind, _, offset, virtual, _, length, _, _ in segments if kind == _LOAD]

    def at(address: int) -> int:
        """Where in the file that is."""
        for virtual, offset, length in loaded:
            if virtual <= address < virtual + length:
                return address - virtual + offset
        raise ValueError(f"nothing is loaded at {address:#x}")

    dynamic: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == _DYNAMIC:
            dynamic = list(struct.iter_unpack("<QQ", image[offset : offset + length]))
    values = dict(dynamic)
    strings = at(values[_STRINGS]) if _STRINGS in values else 0

    def text(offset: int) -> str:
        begin = strings + offset
        return image[begin : image.index(b"\0", begin)].decode()

    return Program(
        _MACHINES.get(machine, f"machine {machine}"),
        any(kind == _INTERPRETER for kind, *_ in segments),
        tuple(text(value) for tag, value in dynamic if tag == _NEEDED),
        tuple(text(name) for name in _names(image, at(values[_VERSIONS]), values[_VERSIONS_COUNT])) if _VERSIONS in values else (),
    )


def _names(image: bytes, at: int, count: int) -> Iterator[int]:
    """Where the names of the versions are, of each library in turn."""
    for _ in range(count):
        _, versions, _, first, following = struct.unpack_from("<HHIII", image, at)
        one = at + first
        for _ in range(versions):
            _, _, _, name, next_one = struct.unpack_from("<IHHII", image, one)
            yield name
            one += next_one
        at += following


def main() -> int:
    parser = argparse.ArgumentParser(description="Whether programs start on an old Linux.")
    parser.add_argument("--glibc", required=True, type=read_version, help="what it has, such as 2.26")
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    status = 0
    for path in asked.files:
        try:
            program = read(path)
        except (Unreadable, OSError) as error:
            print(f"{path} cannot be read: {error}", file=sys.stderr)
            status = 2
            continue
        problems = program.problems(asked.glibc)
        for problem in problems:
            print(f"{path} would not start: {problem}", file=sys.stderr)
        if problems:
            status = max(status, 1)
        else:
            mib, libraries = path.stat().st_size / 2**20, ", ".join(program.libraries)
            print(f"{path}: {program.machine}, {mib:.1f} MiB, needs {_shown(program.glibc)} at the newest, and {libraries}")
    return status


if __name__ == "__main__":
    sys.exit(main())
