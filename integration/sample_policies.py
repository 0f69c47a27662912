"""The policies of deploy/policies, with their placeholders filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from template_actions import REPOSITORY, Statement
from template_iam import ACCOUNT, statements_of

FOLDER = REPOSITORY / "deploy" / "policies"
TEAM_MEMBER, ORGANIZATION = FOLDER / "team-member.json", FOLDER / "organization.json"
TEAM_LEAD, FINANCE = FOLDER / "team-lead.json", FOLDER / "finance.json"


def document(path: Path, bucket: str = "state", team: str = "vision") -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    filled = {"BUCKET": bucket, "TEAM": team, "ACCOUNT": ACCOUNT, "ADMINISTRATORS": "Administrator", "IMAGE-PIPELINE": "images"}
    for placeholder, value in filled.items():
        text = text.replace(placeholder, value)
    return json.loads(text)


def policy(path: Path, bucket: str = "state", team: str = "vision") -> tuple[Statement, ...]:
    return tuple(statements_of(document(path, bucket, team)))
