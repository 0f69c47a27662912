"""Units that were started, and timers that wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from units import Unit


@dataclass
class Service:
    """A unit that was started. `main` is its process, where it has one."""

    unit: Unit
    invocation: str = ""
    main: int | None = None
    state: str = "inactive"
    stopping: bool = False
    has_default_dependencies: bool = True
    task: asyncio.Task[None] | None = None


@dataclass
class Timer:
    """Rings when the machine's clock shows the moment."""

    rings_at: float
    service: Service
    command: list[str]
