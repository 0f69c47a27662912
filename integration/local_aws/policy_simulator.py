"""IAM's policy simulator, which moto does not have: evaluates the policies that a role or a user has in moto's IAM, inline and attached.

Source: "SimulatePrincipalPolicy" and "EvaluationResult" (IAM API Reference): one result for each action, whose decision is the
most restrictive of all resources; the decision of each stands in its ResourceSpecificResults. MissingContextValues are the keys of
conditions that the question has no value for; those of each resource stand there too.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from moto.iam.models import iam_backends

from template_iam import ACCOUNT, Request as Question, Statement, decision, statements_of

from .answers import answer, asked
from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_PAGE_MAX = 1000
_STRICTEST_FIRST = ("explicitDeny", "implicitDeny", "allowed")


def simulate(call: AwsCall, request: Request) -> Response:
    members = asked(call, request)
    source = members["PolicySourceArn"]
    backend = iam_backends[ACCOUNT]["aws"]
    found = [one for one in (*backend.roles.values(), *backend.users.values()) if one.arn == source]
    if not found:
        return error_response(call, 404, "NoSuchEntity", f"The principal {source} cannot be found.")
    documents = [*_documents(found[0]), *map(json.loads, members.get("PolicyInputList", []))]
    policies = [statement for document in documents for statement in statements_of(document)]
    resources = members.get("ResourceArns") or ["*"]
    context = {one["ContextKeyName"]: one.get("ContextKeyValues", []) for one in members.get("ContextEntries", [])}
    results = [_result(policies, action, resources, context) for action in members["ActionNames"]]
    first = int(members.get("Marker") or 0)
    past = first + min(int(members.get("MaxItems") or 100), _PAGE_MAX)
    more = {"Marker": str(past)} if past < len(results) else {}
    return answer(call, {"IsTruncated": bool(more), **more, "EvaluationResults": results[first:past]})


def _result(policies: list[Statement], action: str, resources: list[str], context: dict[str, list[str]]) -> dict[str, Any]:
    given = {one: Question(action, one, context=context) for one in resources}
    decided = {one: decision(policies, question) for one, question in given.items()}
    keys = sorted({key for policy in policies for conditions in policy.conditions.values() for key in conditions})
    missing = [key for key in keys if given[resources[0]].values(key) is None]
    specific = [{"EvalResourceName": one, "EvalResourceDecision": said, "MissingContextValues": missing} for one, said in decided.items()]
    strictest = min(decided.values(), key=_STRICTEST_FIRST.index)
    return {"EvalActionName": action, "EvalResourceName": resources[0], "EvalDecision": strictest, "ResourceSpecificResults": specific}


def _documents(holder: Any) -> list[dict[str, Any]]:
    inline = holder.policies.values()
    attached = [policy.document for policy in holder.managed_policies.values()]
    return [_parsed(document) for document in (*inline, *attached)]


def _parsed(document: Any) -> dict[str, Any]:
    if isinstance(document, dict):
        return document
    return json.loads(document if document.lstrip().startswith("{") else unquote(document))
