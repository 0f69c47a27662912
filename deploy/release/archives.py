"""Archives that are the same for the same content, and checksums."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

CHECKSUMS = "SHA256SUMS"

# The earliest date that a zip can hold (APPNOTE.TXT, 4.4.6), for everything: no time of a build is in an archive.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_EXECUTABLE, _PLAIN = 0o755, 0o644


def write_zip(path: Path, files: Mapping[str, Path]) -> None:
    """The package of a function: its files are programs, which Lambda runs as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, file in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _ZIP_DATE)
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = (0o100000 | _EXECUTABLE) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())


def write_tar(path: Path, folder: str, files: Mapping[str, Path], executables: frozenset[str] = frozenset()) -> None:
    """A .tar.gz with one folder."""
    with path.open("wb") as plain, gzip.GzipFile("", "wb", 9, plain, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(content)
            entry.mode = _EXECUTABLE if name in executables else _PLAIN
            archive.addfile(entry, io.BytesIO(content))


def write_checksums(folder: Path) -> Path:
    """SHA256SUMS of every file of the folder, as `sha256sum --check` reads it."""
    path = folder / CHECKSUMS
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != CHECKSUMS)
    path.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    return path
