"""What a beat asks of AWS, and no permission that the template lacks. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from granted import assert_role_fits, objects
from reaping import EUROPE, Run
from reaping_budgets import READS, BudgetAccount


def test_the_role_may_do_what_was_done_and_nothing_else(money: BudgetAccount) -> None:
    runs = _everything(money)
    # Cost Explorer is asked only where somebody asks for it.
    assert_role_fits("enforce-budgets", runs, READS | {"ec2:DescribeSpotPriceHistory"}, {"ce:GetCostAndUsage"})
    assert all(run.ec2_writes == [] for run in runs[:2])
    assert objects(runs, "s3:GetObject", 1) == {"config", "notices", "ledger", "budgets", "prices"}
    assert objects(runs, "s3:PutObject", 1) == {"plans", "notices", "ledger", "budgets", "prices"}
    own = {key for key in objects(runs, "s3:PutObject", 3) if key.startswith(("plans/", "notices/"))}
    assert all("/enforce-budgets" in key for key in own)


def _everything(money: BudgetAccount) -> list[Run]:
    """Runs that find prices on demand and on Spot, volumes, tell, hold, and fail."""
    spot = money.gpu("g5.xlarge", EUROPE)
    money.aws.set_instance(spot, EUROPE, lifecycle="spot")
    money.budget(120, money.gpu(), over_budget="hold")
    runs = [money.tick(), money.tick()]
    assert runs[0].said("vision")[0] == "hold"
    money.write_config("mood = 1")
    return [*runs, money.tick(), money.tick(b"{}")]
