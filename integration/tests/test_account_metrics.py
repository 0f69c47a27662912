"""The metrics of the account, by the real functions, and what the dashboards and alarms on them show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from account_metrics import (
    ACCOUNT,
    Query,
    Series,
    alarm_queries,
    cloudwatch_dashboard,
    cloudwatch_queries,
    grafana_dashboard,
    grafana_queries,
    taken,
)
from jobs import JobAccount
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import EAGER, EUROPE, REPOSITORY, Account, Run, ago, let_a_second_pass, now, within_a_month
from reaping_budgets import BudgetAccount
from reaping_volumes import VolumeAccount
from template_actions import resources, statements, template
from test_send_report import ReportAccount

ON = {"CURFEW_ACCOUNT_METRICS": "yes"}
# EC2 has it there, and no source has its price.
UNPRICED = "p5.48xlarge"
MONEY = ("SpendUsdPerHour", "WasteUsdPerHour")


@pytest.fixture
def beats(aws: LocalAws) -> Iterator[tuple[Account, BudgetAccount]]:
    """A reaper and the budgets of an account with two teams that have budgets."""
    with Account(aws) as reaper, BudgetAccount(aws, heard=False) as money:
        money.configure(**EAGER, teams={"vision": {"monthly_budget_usd": 1_000}, "nlp": {"monthly_budget_usd": 2_000}})
        money.restart(**ON)
        aws.set_listed_price("g5.xlarge", region=EUROPE, usd="1.258")
        yield reaper, money


def of(published: dict[Series, float], metric: str, dimension: str = "Account") -> dict[str, float]:
    return {one.value: number for one, number in published.items() if (one.metric, one.dimension) == (metric, dimension)}


def test_what_real_runs_publish_is_what_dashboards_and_alarms_show(aws: LocalAws, beats: tuple[Account, BudgetAccount]) -> None:
    """Each query finds a series, and each series is found by a query of either dashboard."""
    reaper, money = beats
    stopped = [reaper.idle(reaper.gpu()), reaper.idle(reaper.gpu(UNPRICED, EUROPE), EUROPE, gpus=8)]
    money.tick_at(ago(hours=2))
    reaper.tick()
    reaper.tick()
    assert [reaper.state(stopped[0]), reaper.state(stopped[1], EUROPE)] == ["stopped", "stopped"]
    reaper.idle(reaper.gpu())
    reaper.idle(reaper.gpu(UNPRICED, EUROPE, tags={"Team": "nlp"}), EUROPE, gpus=8)
    reaper.busy(reaper.gpu(tags={"Team": "nlp"}))
    reaper.gpu(region=EUROPE, tags={"Team": "(others)"})
    # Of two records of one second neither is the newest.
    let_a_second_pass()
    reaper.tick()
    beat = money.tick_at(now())
    published = taken(beat.invocation.logs)
    with JobAccount(aws, heard=False) as jobs, VolumeAccount(aws, heard=False) as storage, ReportAccount(aws, heard=False) as sender:
        jobs.restart(**ON, CURFEW_MODE="observe")
        jobs.submit()
        published |= taken(jobs.tick().invocation.logs)
        storage.tick()
        sender.restart(**ON)
        sender.move_to(within_a_month())
        published |= taken(sender.tick().invocation.logs)

    # One idle instance of vision has a price, and one of nlp has none.
    assert of(published, "WasteUsdPerHour") == {ACCOUNT: 1.006} and of(published, "WasteUsdPerHour", "Region") == {REGION: 1.006}
    assert of(published, "WasteUnpricedResources", "Team") == {"nlp": 1}
    assert of(published, "IdleGpus") == {ACCOUNT: 9} and of(published, "IdleGpus", "Team") == {"vision": 1, "nlp": 8}
    assert of(published, "GpusOfUnknownUse", "Team") == {"%28others%29": 1}
    spend = of(published, "SpendUsdPerHour", "Team")
    assert set(spend) == {"vision", "nlp", "%28others%29"} and all(1.006 < usd < 1.5 for usd in spend.values()), spend
    [total] = of(published, "SpendUsdPerHour").values()
    assert total == pytest.approx(sum(spend.values())) == pytest.approx(sum(of(published, "SpendUsdPerHour", "Region").values()))
    assert of(published, "SavedUsdPerHour") == {ACCOUNT: 1.006} and of(published, "SavedUnpricedResources", "Team") == {"vision": 1}
    assert of(published, "HeldJobs", "Team") == {"vision": 1}
    assert set(of(published, "BudgetForecastPercent", "Team")) == {"vision", "nlp"}
    assert of(published, "BudgetsWithoutForecast") == {ACCOUNT: 0}
    assert 0 <= of(published, "SecondsSinceLastLook")[ACCOUNT] < 600
    assert money.audit(beat)["usage"]["published_metrics"] == len(taken(beat.invocation.logs))

    kinds = {(one.metric, one.dimension) for one in published}
    for queries in (cloudwatch_queries(), grafana_queries(), alarm_queries()):
        for query in queries:
            assert query.find(published), query
            # Of what is published once a day a graph shows one value a day.
            assert (query.period == 86_400) == query.metric.startswith("Saved"), query
    assert kinds == {(one.metric, one.dimension) for one in cloudwatch_queries()}
    assert kinds == {(one.metric, one.dimension) for one in grafana_queries()}


def unknown(published: dict[Series, float], metrics: tuple[str, ...]) -> bool:
    return not any(one.metric in metrics for one in published)


def test_what_a_run_does_not_know_is_not_published(beats: tuple[Account, BudgetAccount]) -> None:
    reaper, money = beats
    reaper.gpu()
    reaper.gpu(region=EUROPE, tags={"Team": "nlp"})
    beat = taken(money.tick().invocation.logs)
    assert set(of(beat, "SpendUsdPerHour", "Region")) == {REGION, EUROPE}
    assert unknown(beat, ("WasteUsdPerHour", "WasteUnpricedResources")), "reap-instances has not run"
    assert of(beat, "SecondsSinceLastLook") == {} and of(beat, "SecondsSinceLastLook", "Region") == {REGION: 0, EUROPE: 0}
    reaper.tick()
    assert of(taken(money.tick().invocation.logs), "WasteUsdPerHour") == {ACCOUNT: 0}

    money.aws.fault("s3:GetObject", "access_denied", match="plans/")
    run = money.tick()
    assert unknown(taken(run.invocation.logs), ("WasteUsdPerHour", "WasteUnpricedResources"))
    assert any("plans/" in gap["error"] for gap in run.gaps)
    money.aws.clear_faults()

    # Of two looks in one second the earlier one knows as much.
    let_a_second_pass()
    money.aws.fault("ec2:DescribeInstances", "access_denied", region=EUROPE)
    beat = taken(money.tick().invocation.logs)
    assert set(of(beat, "SpendUsdPerHour", "Region")) == {REGION}
    assert of(beat, "SpendUnpricedResources", "Region")[EUROPE] >= 1 and "nlp" not in of(beat, "SpendUsdPerHour", "Team")
    money.aws.clear_faults()

    for key in money.keys("ledger/"):
        if key.endswith(f"/{EUROPE}.json"):
            money.put(key, b"{")
    let_a_second_pass()
    beat = taken(money.tick().invocation.logs)
    assert unknown(beat, (*MONEY, "IdleGpus", "GpusOfUnknownUse", "BudgetForecastPercent")), beat
    assert set(of(beat, "SecondsSinceLastLook", "Region")) == {"(others)"}


def reads_of_plans(run: Run) -> list[dict[str, Any]]:
    return [call for call in run.calls if any("/plans/" in one for one in call["resources"]) and call["action"] != "s3:PutObject"]


def test_without_the_parameter_nothing_is_published_nor_asked(aws: LocalAws) -> None:
    with Account(aws) as reaper, BudgetAccount(aws, heard=False) as money, JobAccount(aws, heard=False) as jobs:
        reaper.gpu()
        reaper.tick()
        for run in (money.tick(), jobs.tick()):
            assert '"_aws"' not in run.invocation.logs and reads_of_plans(run) == []
        let_a_second_pass()
        run = money.tick()
        assert "published_metrics" not in money.audit(run)["usage"]
        assert not any("/activity/" in one for call in run.calls for one in call["resources"]), "there is no budget"
        without = run.counts
        money.restart(**ON)
        money.tick()
        let_a_second_pass()
        run = money.tick()
        assert len(reads_of_plans(run)) >= 1
        # The record of reap-instances, and the use of the instances of each region with any.
        more = run.counts - without
        assert set(more) <= {"s3:GetObject", "s3:ListObjectsV2", "s3:ListBucket"} and more.total() <= 4, more


# ------------------------------------------------------------------------------------------------------ what is deployed


def test_dashboard_and_alarms_are_there_only_where_somebody_asks_for_them() -> None:
    parameters, conditions = template()["Parameters"], template()["Conditions"]
    defaults = {"AccountMetrics": "no", "MetricsDashboard": "no", "WasteAlarmUsdPerHour": "", "ForecastAlarmPercent": ""}
    assert {name: parameters[name]["Default"] for name in defaults} == defaults
    assert resources()["AccountDashboard"]["Condition"] == "HasMetricsDashboard"
    assert conditions["HasMetricsDashboard"] == {"Fn::Equals": [{"Ref": "MetricsDashboard"}, "yes"]}
    for rule in ("MetricsBeforeDashboard", "MetricsBeforeWasteAlarm", "MetricsBeforeForecastAlarm"):
        [assertion] = template()["Rules"][rule]["Assertions"]
        assert assertion["Assert"] == {"Fn::Equals": [{"Ref": "AccountMetrics"}, "yes"]}
    alarms = {query.panel: resources()[query.panel] for query in alarm_queries()}
    assert {name: alarm["Condition"] for name, alarm in alarms.items()} == {"WasteAlarm": "HasWasteAlarm", "ForecastAlarm": "HasForecastAlarm"}
    for alarm in alarms.values():
        properties = alarm["Properties"]
        assert properties["AlarmActions"] == properties["OKActions"] == [{"Ref": "AccountTopic"}]
        assert properties["TreatMissingData"] == "ignore", "what is unknown is no reason, in either direction"
    only_if = {one.only_if for one in statements("enforce-budgets") if any("plans/*/reap-instances" in str(resource) for resource in one.resources)}
    assert only_if == {("PublishesMetrics",)}
    assert conditions["PublishesMetrics"] == {"Fn::Equals": [{"Ref": "AccountMetrics"}, "yes"]}


@pytest.mark.parametrize(("threshold", "is_one"), [("", True), ("25", True), ("12.50", True), ("-1", False), ("1e9", False), ("$5", False)])
def test_a_threshold_is_a_price(threshold: str, is_one: bool) -> None:
    pattern = template()["Parameters"]["WasteAlarmUsdPerHour"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, threshold)) == is_one


def boxes(places: list[dict[str, int]], width: str, height: str) -> Iterator[tuple[range, range]]:
    for place in places:
        assert 0 <= place["x"] and place["x"] + place[width] <= 24 and place["y"] >= 0 and place[height] > 0
        yield range(place["x"], place["x"] + place[width]), range(place["y"], place["y"] + place[height])


def overlap(one: tuple[range, range], other: tuple[range, range]) -> bool:
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other))


def test_the_dashboard_of_cloudwatch_has_the_form_that_cloudwatch_asks_for() -> None:
    """Source: "Dashboard Body Structure and Syntax" (CloudWatch API reference)."""
    dashboard = cloudwatch_dashboard()
    assert set(dashboard) == {"start", "widgets"} and dashboard["start"] == "-P7D" and len(dashboard["widgets"]) <= 500
    for widget in dashboard["widgets"]:
        assert widget["type"] == "metric" and set(widget) == {"type", "x", "y", "width", "height", "properties"}
        properties = widget["properties"]
        assert properties["view"] == "timeSeries" and properties["region"] == REGION and properties["stat"] == "Average"
        assert properties["title"] and properties["period"] % 60 == 0 and properties["yAxis"]["left"]["min"] == 0
        ids = [row[0]["id"] for row in properties["metrics"] if isinstance(row[0], dict)]
        assert len(set(ids)) == len(ids)
    assert not any(overlap(*two) for two in combinations(boxes(dashboard["widgets"], "width", "height"), 2))


def test_the_dashboard_of_grafana_has_the_form_of_its_model() -> None:
    """Source: "JSON model" and "Amazon CloudWatch data source" (Grafana documentation). No Grafana has opened it."""
    dashboard = grafana_dashboard()
    assert dashboard["schemaVersion"] >= 36 and re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", dashboard["uid"])
    assert "id" not in dashboard, "it is that of one Grafana"
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert names == {"datasource", "region", "account"}
    source = {"type": "cloudwatch", "uid": "${datasource}"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] == "timeseries" and panel["title"] and panel["datasource"] == source
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) and all(re.fullmatch("[A-Z]", one) for one in references)
        for target in panel["targets"]:
            assert (target["datasource"], target["region"], target["queryMode"]) == (source, "$region", "Metrics")
            assert (target["metricQueryType"], target["metricEditorMode"], target["expression"]) == (0, 0, "")
    used = set(re.findall(r"\$\{?([a-z]+)\b", re.sub(r"\$\{PROP[^}]*\}", "", str(panels))))
    assert used == names
    assert not any(overlap(*two) for two in combinations(boxes([panel["gridPos"] for panel in panels], "w", "h"), 2))


def test_both_dashboards_show_the_same() -> None:
    def shown(queries: list[Query]) -> list[tuple[str, str, str]]:
        return sorted((one.metric, one.dimension, one.period) for one in queries)

    assert shown(cloudwatch_queries()) == shown(grafana_queries())


def test_the_page_says_what_the_metrics_cost() -> None:
    source = (REPOSITORY / "shared/report/src/account_metrics.rs").read_text(encoding="utf-8")
    teams, regions = (int(number) for number in re.findall(r"(?:TEAMS|REGIONS)_MAX: usize = (\d+);", source))
    most = 12 + 10 * (teams + 1) + 8 + 7 * (regions + 1)
    page = " ".join((REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8").split())
    assert f"at most {most} metrics, ${most * 0.30:.2f} a month" in page
    assert all(f"`{metric}`" in page for metric in re.findall(r'=> "(\w+(?:Hour|Resources|Gpus|Use|Jobs|Percent|Forecast|Look))"', source))
