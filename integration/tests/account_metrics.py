"""What CloudWatch takes from the logs of functions, and what the queries of a dashboard find in it.

Source: "Specification: Embedded metric format" and "Using search expressions in graphs" (CloudWatch user guide), "Dimension" (CloudWatch API
reference). The queries are those that our dashboards use; another one is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from local_aws.client import ACCOUNT, REGION
from reaping import REPOSITORY
from template_actions import resources

NAMESPACE = "Curfew/Account"
GRAFANA = REPOSITORY / "deploy/grafana/curfew-account.json"

_UNITS = {"None", "Count", "Percent", "Seconds"}
_SEARCH = re.compile(r"""SORT\(SEARCH\('\{Curfew/Account,(?P<dimension>\w+)\} MetricName="(?P<metric>\w+)"', 'Average', (?P<period>\d+)\), MAX, DESC, 20\)""")


@dataclass(frozen=True, order=True)
class Series:
    metric: str
    dimension: str
    value: str


def taken(logs: str) -> dict[Series, float]:
    """The metrics that CloudWatch takes from these logs, each with its newest value. A line that it would not take is an error."""
    found: dict[Series, float] = {}
    for line in logs.splitlines():
        if '"_aws"' not in line:
            continue
        document = json.loads(line)
        directives = document["_aws"]["CloudWatchMetrics"]
        assert isinstance(document["_aws"]["Timestamp"], int) and len(line) < 256 * 1024
        for directive in directives:
            assert set(directive) == {"Namespace", "Dimensions", "Metrics"} and directive["Namespace"] == NAMESPACE
            assert 0 < len(directive["Metrics"]) <= 100
            for dimensions in directive["Dimensions"]:
                [dimension] = dimensions
                value = document[dimension]
                assert re.fullmatch(r"[ -~]{1,1024}", value) and value.strip() and not value.startswith(":"), value
                for metric in directive["Metrics"]:
                    assert set(metric) == {"Name", "Unit"} and metric["Unit"] in _UNITS
                    number = document[metric["Name"]]
                    assert isinstance(number, (int, float)) and not isinstance(number, bool)
                    found[Series(metric["Name"], dimension, value)] = number
    return found


@dataclass(frozen=True)
class Query:
    """One query of a graph: all series of a metric by that dimension, or the one with a value."""

    panel: str
    metric: str
    dimension: str
    value: str | None
    period: int

    def find(self, published: dict[Series, float]) -> dict[str, float]:
        """What it draws now: values by their dimension's value."""
        same = {one.value: number for one, number in published.items() if (one.metric, one.dimension) == (self.metric, self.dimension)}
        return {value: number for value, number in same.items() if self.value in (None, value)}


def cloudwatch_dashboard() -> dict[str, Any]:
    """The dashboard of the template, as CloudFormation makes it."""
    [dashboard] = resources("AWS::CloudWatch::Dashboard").values()
    body = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
    for name, value in {"AccountId": ACCOUNT, "Region": REGION}.items():
        body = body.replace(f"${{AWS::{name}}}", value)
    assert "${" not in body
    return json.loads(body)


def cloudwatch_queries() -> list[Query]:
    queries = []
    for widget in cloudwatch_dashboard()["widgets"]:
        properties = widget["properties"]
        for row in properties["metrics"]:
            if isinstance(row[0], str):
                namespace, metric, dimension, value, options = row
                assert namespace == NAMESPACE and set(options) <= {"label", "period"}
                period = options.get("period", properties["period"])
                queries.append(Query(properties["title"], metric, dimension, value, period))
            else:
                [options] = row
                assert set(options) == {"expression", "id"} and re.fullmatch(r"[a-z][a-zA-Z0-9_]*", options["id"])
                search = _SEARCH.fullmatch(options["expression"])
                assert search, options["expression"]
                queries.append(Query(properties["title"], search["metric"], search["dimension"], None, int(search["period"])))
    return queries


def grafana_dashboard() -> dict[str, Any]:
    return json.loads(GRAFANA.read_text(encoding="utf-8"))


def grafana_queries() -> list[Query]:
    """Its variables have the values that a reader sees first: those of the account, and the region of the data source."""
    queries = []
    for panel in grafana_dashboard()["panels"]:
        for target in panel["targets"]:
            [(dimension, value)] = target["dimensions"].items()
            assert target["namespace"] == NAMESPACE and target["statistic"] == "Average" and target["matchExact"] is True
            chosen = {"*": None, "$account": ACCOUNT}[value]
            queries.append(Query(panel["title"], target["metricName"], dimension, chosen, int(target["period"])))
    return queries


def alarm_queries() -> list[Query]:
    """The alarms on metrics of the account."""
    found = []
    for name, alarm in resources("AWS::CloudWatch::Alarm").items():
        properties = alarm["Properties"]
        if properties.get("Namespace") == NAMESPACE:
            [dimension] = properties["Dimensions"]
            assert dimension["Value"] == {"Ref": "AWS::AccountId"}
            found.append(Query(name, properties["MetricName"], dimension["Name"], ACCOUNT, properties["Period"]))
    return found
