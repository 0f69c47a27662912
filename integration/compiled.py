"""What tests preload or put in a library's place: C that is compiled when it is first needed."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def shared_library(source: Path, library: Path) -> Path:
    """Compiled when the source is newer. Concurrent compilations write the same file."""
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        made = library.with_name(f"{os.getpid()}.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", made, source], check=True)
        made.replace(library)
    return library
