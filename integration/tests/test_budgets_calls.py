"""What a beat asks of AWS, and no permission that the template lacks. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from local_aws.client import REGION
from reaping import EUROPE, REGIONS, Run
from reaping_budgets import READS, BudgetAccount, month
from template_actions import granted_actions

# Granted, and not seen here, each for a reason.
NOT_SEEN = {
    "kms:GenerateDataKey",  # an encrypted bucket and topic: the local AWS asks for no key
    "kms:Decrypt",
    "sqs:SendMessage",  # Lambda's: the on-failure destination
    "logs:CreateLogStream",  # Lambda's
    "logs:PutLogEvents",
    "ce:GetCostAndUsage",  # only where somebody asks for it
}


def _everything(money: BudgetAccount) -> list[Run]:
    """Runs that find prices on demand and on Spot, volumes, tell, hold, and fail."""
    spot = money.gpu("g5.xlarge", EUROPE)
    money.aws.set_instance(spot, EUROPE, instance_lifecycle="spot")
    money.budget(120, money.gpu(), over_budget="hold")
    runs = [money.tick(), money.tick()]
    assert runs[0].said("vision")[0] == "hold"
    money.write_config("mood = 1")
    return [*runs, money.tick(), money.tick(b"{}")]


def test_the_role_may_do_what_was_done_and_nothing_else(money: BudgetAccount) -> None:
    seen = {permission for run in _everything(money) for call in run.calls for permission in call["permissions"]}
    assert READS | {"ec2:DescribeSpotPriceHistory"} <= seen, "a run of everything left something out"
    granted = granted_actions("enforce-budgets")
    assert seen - granted == set(), "the deployed function would be denied"
    assert granted - seen == NOT_SEEN & granted


def test_the_bucket_is_used_where_the_role_reaches(money: BudgetAccount) -> None:
    touched: dict[str, set[str]] = {"s3:GetObject": set(), "s3:PutObject": set()}
    for run in _everything(money):
        for call in run.calls:
            if call["action"] in touched:
                touched[call["action"]] |= {key.split("/")[1] for key in call["resources"]}
        keys = {key for call in run.calls for key in call["resources"] if "/plans/" in key or "/notices/" in key}
        assert all("/enforce-budgets/" in key for key in keys)
    assert touched["s3:GetObject"] == {"config", "notices", "ledger", "budgets", "prices"}
    assert touched["s3:PutObject"] == {"plans", "notices", "ledger", "budgets", "prices"}


def test_nothing_of_ec2_is_ever_written(money: BudgetAccount) -> None:
    assert all(run.ec2_writes == [] for run in _everything(money)[:2])
    assert f"budgets/vision/{month()}.json" in money.keys() and REGION in REGIONS
