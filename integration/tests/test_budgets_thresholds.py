"""Who hears what, and when: each share of a budget speaks once a month, and again only after the budget was changed."""

from __future__ import annotations

from local_aws import LocalAws
from reaping import ago
from reaping_budgets import BudgetAccount


def test_each_share_speaks_once(money: BudgetAccount) -> None:
    gpu = money.gpu(launched=ago(hours=5))
    usd = money.budget(45, gpu)
    assert (money.tick().messages, money.tick().messages) == ([], [])
    for hours, share, severity in ((6.2, 50, "warning"), (9.2, 80, "warning"), (11.5, 100, "warning")):
        money.aws.set_instance(gpu, launch_time=ago(hours=hours))
        # The same budget in each: only what is spent grows.
        money.budgets(vision={"monthly_budget_usd": usd})
        run = money.tick()
        assert run.step("vision")["evidence"]["threshold_percent"] == share
        assert run.severities() == {"vision": severity}
        assert money.tick().messages == []


def test_the_message_says_who_spent_it_and_what_to_do(money: BudgetAccount) -> None:
    dear = money.gpu("g5.12xlarge", launched=ago(hours=5), tags={"Name": "sweep"})
    cheap = [money.gpu(launched=ago(hours=hours)) for hours in (6, 5, 4, 3, 2)]
    money.budget(20, dear)
    money.tick()
    money.budget(82)
    told = money.tick().message("vision")
    assert f'{dear} (g5.12xlarge "sweep", owner ada, us-east-1)' in told
    spent_on = told.partition("What runs now")[0]
    assert [gpu in spent_on for gpu in cheap] == [True] * 4 + [False]
    assert "(82 %)" in told and f"stop {dear}" in told


def test_the_account_has_a_budget_above_the_teams(money: BudgetAccount) -> None:
    gpu = money.gpu()
    money.untagged(launched=ago(hours=5))
    money.budgets(account={"monthly_budget_usd": money.spent_on(gpu) * 2 / 0.9})
    run = money.tick()
    assert run.said("account") == ("notify", "over-budget", "done")
    assert run.step("account")["team"] is None and run.step("account")["evidence"]["of"] == "account"
    assert "account" in run.message("untagged")
    assert set(money.document()["teams"]) == {"vision", "untagged"}


def test_with_nobody_listening_nothing_is_enforced(aws: LocalAws) -> None:
    with BudgetAccount(aws, heard=False) as money:
        money.budget(120, money.gpu(), over_budget="hold")
        run = money.tick()
        assert run.said("vision")[2] == "observed" and money.document("vision")["mode"] == "observe"
        assert [gap["call"] for gap in run.gaps] == ["sns:ListSubscriptionsByTopic"]
