"""IAM's policy simulator, which moto does not have: evaluates the policies that a role has in moto's IAM, inline and attached.

Source: "SimulatePrincipalPolicy" and "EvaluationResult" (IAM API Reference): one result for each action, whose decision is the
most restrictive of all resources; the decision of each stands in its ResourceSpecificResults.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any
from urllib.parse import unquote
from uuid import uuid4
from xml.sax.saxutils import escape

from moto.iam.models import iam_backends

from template_iam import ACCOUNT, Request as Question, Statement, decision, statements_of

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_PAGE_MAX = 1000
_STRICTEST_FIRST = ("explicitDeny", "implicitDeny", "allowed")
_CONTEXT = re.compile(r"ContextEntries\.member\.(\d+)\.(ContextKeyName|ContextKeyType|ContextKeyValues\.member\.\d+)$")


def answer(call: AwsCall, request: Request) -> Response:
    form = {**request.query_parameters, **request.form}
    role = form["PolicySourceArn"].rpartition("/")[2]
    found = [one for one in iam_backends[ACCOUNT]["aws"].roles.values() if one.name == role]
    if not found:
        return error_response(call, 404, "NoSuchEntity", f"The role with name {role} cannot be found.")
    documents = [*_documents(found[0]), *map(json.loads, _listed(form, "PolicyInputList"))]
    policies = [statement for document in documents for statement in statements_of(document)]
    resources = _listed(form, "ResourceArns") or ["*"]
    context = _context(form)
    results = [_result(policies, action, resources, context) for action in _listed(form, "ActionNames")]
    first = int(form.get("Marker") or 0)
    past = first + min(int(form.get("MaxItems") or 100), _PAGE_MAX)
    more = past < len(results)
    marker = f"<Marker>{past}</Marker>" if more else ""
    body = (
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><SimulatePrincipalPolicyResult>'
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{marker}"
        f"<EvaluationResults>{''.join(results[first:past])}</EvaluationResults></SimulatePrincipalPolicyResult>"
        f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata></SimulatePrincipalPolicyResponse>"
    )
    return Response(200, [("Content-Type", "text/xml")], body.encode())


def _result(policies: list[Statement], action: str, resources: list[str], context: dict[str, list[str]]) -> str:
    decided = {one: decision(policies, Question(action, one, context=context)) for one in resources}
    strictest = min(decided.values(), key=_STRICTEST_FIRST.index)
    specific = "".join(
        f"<member><EvalResourceName>{escape(one)}</EvalResourceName>"
        f"<EvalResourceDecision>{said}</EvalResourceDecision></member>"
        for one, said in decided.items()
    )
    return (
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        f"<EvalResourceName>{escape(resources[0])}</EvalResourceName><EvalDecision>{strictest}</EvalDecision>"
        f"<ResourceSpecificResults>{specific}</ResourceSpecificResults></member>"
    )


def _documents(role: Any) -> list[dict[str, Any]]:
    inline = role.policies.values()
    attached = [policy.document for policy in role.managed_policies.values()]
    return [_parsed(document) for document in (*inline, *attached)]


def _parsed(document: Any) -> dict[str, Any]:
    if isinstance(document, dict):
        return document
    return json.loads(document if document.lstrip().startswith("{") else unquote(document))


def _listed(form: dict[str, str], name: str) -> list[str]:
    return [value for key, value in form.items() if key.startswith(f"{name}.member.")]


def _context(form: dict[str, str]) -> dict[str, list[str]]:
    """Each key of the request with its values."""
    names: dict[str, str] = {}
    values: dict[str, list[str]] = defaultdict(list)
    for key, value in form.items():
        if parts := _CONTEXT.match(key):
            if parts[2] == "ContextKeyName":
                names[parts[1]] = value
            elif parts[2] != "ContextKeyType":
                values[parts[1]].append(value)
    return {name: values[place] for place, name in names.items()}
