"""What CloudWatch says of volumes: `VolumeIdleTime`, which it has for as long as a volume is attached.

Source: "Amazon CloudWatch metrics for Amazon EBS" (Amazon EBS User Guide).
"""

from __future__ import annotations

from typing import Any

from .metric_data import checked_span, metric_data, result, times
from .refused import Refused
from .storage import Volume

_METRIC = "VolumeIdleTime"


class VolumeMetrics:
    def __init__(self, volumes: list[Volume]) -> None:
        self._volumes = {volume.id: volume for volume in volumes}

    def get_metric_data(self, asked: dict[str, Any]) -> bytes:
        start, end = checked_span(asked)

        def answer(stat: dict[str, Any]) -> bytes:
            volume = self._volume(stat["Metric"])
            until = end if volume.used_until is None else min(end, volume.used_until.timestamp())
            at = times(start, until, int(stat["Period"]))
            return result(_METRIC, at, [58.7] * len(at))

        return metric_data(asked, answer)

    def _volume(self, metric: dict[str, Any]) -> Volume:
        dimensions = [(one["Name"], one["Value"]) for one in metric["Dimensions"]]
        match metric["Namespace"], metric["MetricName"], dimensions:
            case "AWS/EBS", "VolumeIdleTime", [("VolumeId", id)] if id in self._volumes:
                return self._volumes[id]
        raise Refused(f"there is no series {metric}")
