"""EventBridge: a target without an input transformer gets the event as it is.

Moto writes such an event anew from a template that leaves out its account, and needs the package jsonpath-ng for that (Amazon
EventBridge user guide, "Input transformation": by default the whole event is passed on).
"""

from __future__ import annotations

from typing import Any

from moto.events.utils import EventTemplateParser

_moto_parse = EventTemplateParser.parse


def apply() -> None:
    def parse(input_template: str | None, input_paths_map: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
        return _moto_parse(input_template, input_paths_map, event) if input_template else dict(event)

    EventTemplateParser.parse = staticmethod(parse)
