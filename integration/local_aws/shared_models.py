"""botocore reads the models of AWS anew for each session, and Moto for itself: those of EC2 several times before the first call. Here each
file is read once in a process. Imported before Moto, which makes sessions when it is imported."""

from __future__ import annotations

from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader

_load = JSONFileLoader.load_file


@cache
def _load_once(path: str) -> Any:
    return _load(JSONFileLoader(), path)


def _load_file(_loader: JSONFileLoader, path: str) -> Any:
    return _load_once(path)


JSONFileLoader.load_file = _load_file
