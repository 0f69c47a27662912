"""One fault at each kind of call of a beat: it ends in order, nobody is held who should not be, nothing is lost, what there is to say
is told, and the next beat makes up for it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from local_aws.client import REGION
from reaping import BUCKET, now, rfc3339
from reaping_budgets import BudgetAccount, month

# An action, what its request holds, and where the beat has to fail the error's type.
CALLS = {
    ("s3:GetObject", "config/curfew.toml"): "ConfigFault",
    ("s3:GetObject", "prices/current.json"): None,
    ("sns:ListSubscriptionsByTopic", ""): None,
    ("ec2:DescribeRegions", ""): "NothingSeen",
    ("s3:GetObject", "notices/"): None,
    ("ec2:DescribeInstances", ""): None,
    ("ec2:DescribeInstanceTypes", ""): None,
    ("ec2:DescribeVolumes", ""): None,
    ("pricing:GetProducts", ""): None,
    ("s3:PutObject", "prices/current.json"): None,
    ("s3:ListObjectsV2", ""): None,
    ("s3:GetObject", "ledger/"): None,
    ("s3:PutObject", "ledger/"): None,
    ("s3:GetObject", "budgets/vision/"): None,
    ("s3:PutObject", "budgets/vision/"): None,
    ("s3:GetObject", f"budgets/{now():%Y-%m}.json"): None,
    ("s3:PutObject", f"budgets/{now():%Y-%m}.json"): None,
    ("sns:Publish", ""): None,
    ("s3:PutObject", "plans/"): None,
    ("s3:PutObject", "notices/"): None,
}
FAULTS = ("access_denied", "lost_answer", "garbled")

# The message was taken and nobody knows, or what was told could not be written down, or read.
TOLD_TWICE = {"sns:Publish": ("",), "s3:PutObject": ("notices/",), "s3:GetObject": ("notices/",)}

# Prices that cannot be loaded are those of the table; what was told is read once more.
QUIETLY = {("s3:GetObject", "prices/current.json"), ("s3:GetObject", "notices/")}

RESERVED = "vision/llama-0123abcd"


def prepare(money: BudgetAccount) -> tuple[str, str]:
    """Vision is about to have spent its budget, with something reserved; nlp has hardly spent anything."""
    dear, cheap = money.gpu("g5.12xlarge"), money.gpu(tags={"Team": "nlp"})
    money.tick()
    until = rfc3339(now() + timedelta(hours=8))
    key = f"budgets/vision/{month()}.json"
    reservation = {RESERVED: {"usd": 40.0, "since": rfc3339(now()), "until": until}}
    money.write(key, {**money.read(key), "reservations": reservation})
    money.aws.client("s3").delete_object(Bucket=BUCKET, Key="prices/current.json")
    time.sleep(1.05)  # two beats of one second are one: nothing would be written
    usd = money.spent_on(dear) / 1.2
    vision = {"monthly_budget_usd": usd, "over_budget": "hold"}
    money.budgets(vision=vision, nlp={"monthly_budget_usd": 10_000, "over_budget": "stop"})
    return dear, cheap


def test_every_call_of_a_beat_is_tried(money: BudgetAccount) -> None:
    prepare(money)
    actions = {call["action"] for call in money.tick().calls}
    assert actions == {action for action, _ in CALLS}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("action", "match"), CALLS, ids=lambda part: part.replace("/", "-"))
def test_a_fault_costs_no_money_and_holds_nobody(money: BudgetAccount, action: str, match: str, fault: str) -> None:
    dear, cheap = prepare(money)
    money.aws.fault(action, fault, match=match or None)
    struck = money.tick()
    assert [rule["struck"] for rule in money.aws.faults()] == [1]
    money.aws.clear_faults()
    if struck.invocation.error is not None:
        assert struck.invocation.error["errorType"] == CALLS[action, match], struck.error
    elif fault == "access_denied" and (action, match) not in QUIETLY:
        assert struck.gaps, "nobody hears of it"
    clean = money.tick()
    assert clean.gaps == [] and clean.said("vision") == ("hold", "over-budget", "done")
    told = [one for run in (struck, clean) for one in run.messages if "Team vision has spent" in one["message"]]
    # What was published and not heard of is in the account's list of messages all the same.
    most = 2 if match in TOLD_TWICE.get(action, ()) else 1
    assert 1 <= len(told) <= most, told
    assert not any("Team nlp" in one["message"] for run in (struck, clean) for one in run.messages)

    vision, nlp = money.document("vision"), money.document("nlp")
    assert (vision["verdict"], nlp["verdict"]) == ("hold", "ok")
    assert vision["reservations"][RESERVED]["usd"] == 40.0 and vision["reserved_usd"] == 40.0
    assert vision["spent_usd"] == pytest.approx(money.spent_on(dear), rel=0.01)
    assert nlp["spent_usd"] == pytest.approx(money.spent_on(cheap), rel=0.02)
    assert len(money.ledger(REGION)["runs"]) == 4  # two instances, each with a volume
