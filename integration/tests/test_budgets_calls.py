"""What a beat asks of AWS, and no permission that the template lacks. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from reaping import EUROPE, Run
from reaping_budgets import READS, BudgetAccount
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
    runs = _everything(money)
    seen = {permission for run in runs for call in run.calls for permission in call["permissions"]}
    assert READS | {"ec2:DescribeSpotPriceHistory"} <= seen, "a run of everything left something out"
    granted = granted_actions("enforce-budgets")
    assert seen - granted == set(), "the deployed function would be denied"
    assert granted - seen == NOT_SEEN & granted
    assert all(run.ec2_writes == [] for run in runs[:2])

    touched: dict[str, set[str]] = {"s3:GetObject": set(), "s3:PutObject": set()}
    for call in (call for run in runs for call in run.calls):
        if call["action"] in touched:
            touched[call["action"]] |= {key.split("/")[1] for key in call["resources"]}
        assert all("/enforce-budgets/" in key for key in call["resources"] if "/plans/" in key or "/notices/" in key)
    assert touched["s3:GetObject"] == {"config", "notices", "ledger", "budgets", "prices"}
    assert touched["s3:PutObject"] == {"plans", "notices", "ledger", "budgets", "prices"}
