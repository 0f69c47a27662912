"""Associations of Systems Manager, which moto does not have; and commands without empty fields, which no answer of AWS has.

Source: "Command", "CreateAssociation", "UpdateAssociation", "ListAssociations", "DescribeAssociation", "DeleteAssociation" (Systems Manager API Reference).
Names are checked as there; nothing is run.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult, EmptyResult
from moto.ssm.models import Command
from moto.ssm.responses import SimpleSystemManagerResponse

_NAME = re.compile(r"[a-zA-Z0-9_\-.]{3,128}")
_KEPT = ("AssociationName", "Name", "Targets", "Parameters", "ScheduleExpression")
_TARGET_VALUES_MAX = 50

_moto_command = Command.response_object


def apply() -> None:
    for action in (create_association, update_association, list_associations, describe_association, delete_association):
        setattr(SimpleSystemManagerResponse, action.__name__, action)
    Command.response_object = lambda command: {key: value for key, value in _moto_command(command).items() if value != ""}


def _all(response: SimpleSystemManagerResponse) -> dict[str, dict[str, Any]]:
    """Lives in moto's backend, so that moto's reset empties it."""
    return response.ssm_backend.__dict__.setdefault("associations", {})


def _named(response: SimpleSystemManagerResponse) -> dict[str, Any]:
    found = _all(response).get(response._get_param("AssociationId"))
    if found is None:
        raise JsonRESTError("AssociationDoesNotExist", "The specified association doesn't exist.")
    return found


def _given(response: SimpleSystemManagerResponse) -> dict[str, Any]:
    given = {key: response._get_param(key) for key in _KEPT}
    targets = given["Targets"] or []
    if any(not 0 < len(target["Values"]) <= _TARGET_VALUES_MAX for target in targets):
        raise JsonRESTError("InvalidTarget", "The target is not valid.")
    if not _NAME.fullmatch(given["AssociationName"] or ""):
        raise JsonRESTError("ValidationException", "AssociationName failed to satisfy constraint")
    return given


def create_association(self: SimpleSystemManagerResponse) -> ActionResult:
    association = {"AssociationId": str(uuid.uuid4()), **_given(self)}
    _all(self)[association["AssociationId"]] = association
    return ActionResult({"AssociationDescription": association})


def update_association(self: SimpleSystemManagerResponse) -> ActionResult:
    association = _named(self)
    association.update(_given(self))
    return ActionResult({"AssociationDescription": association})


def list_associations(self: SimpleSystemManagerResponse) -> ActionResult:
    filters = {one["key"]: one["value"] for one in self._get_param("AssociationFilterList", [])}
    name = filters.get("AssociationName")
    found = [one for one in _all(self).values() if name in (None, one["AssociationName"])]
    return ActionResult({"Associations": found})


def describe_association(self: SimpleSystemManagerResponse) -> ActionResult:
    return ActionResult({"AssociationDescription": _named(self)})


def delete_association(self: SimpleSystemManagerResponse) -> ActionResult:
    del _all(self)[_named(self)["AssociationId"]]
    return EmptyResult()
