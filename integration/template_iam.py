"""Whether a role of template.yaml, or somebody with a sample policy, may do something: IAM's evaluation, as far as these use it.

No local AWS evaluates conditions on tags. What is here follows the IAM user guide, "Policy evaluation logic" and "IAM JSON
policy elements: Condition operators": above all what a condition means whose key is not in the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Iterable

from template_actions import Statement, statements, statements_of_role

ACCOUNT = "123456789012"
# The parameter RolePath among them, as it is by default.
_PSEUDO_PARAMETERS = {
    "${AWS::Partition}": "aws",
    "${AWS::AccountId}": ACCOUNT,
    "${AWS::Region}": "us-east-1",
    "${AWS::URLSuffix}": "amazonaws.com",
    "${RolePath}": "/",
}

VOLUME = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:volume/vol-0abc"
INSTANCE = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/i-0abc"
SNAPSHOT = "arn:aws:ec2:eu-west-1::snapshot/snap-0abc"


@dataclass(frozen=True)
class Request:
    """One question of a service to IAM: one action on one resource."""

    action: str
    resource: str
    # The tags that are on the resource.
    tags: Iterable[str] = ()
    # The tags that the request gives or takes.
    tag_keys: Iterable[str] = ()
    # The action that creates the resource, where it is created with tags.
    create_action: str | None = None
    # Further keys of the request, such as s3:prefix; of a key with several values all of them.
    context: dict[str, str | list[str]] = field(default_factory=dict)

    def values(self, key: str) -> list[str] | None:
        """What the request says for a condition key; None where it says nothing. Case does not matter in these keys."""
        found = {
            key.lower(): [value] if isinstance(value, str) else value for key, value in self.context.items()
        }
        found |= {f"aws:resourcetag/{tag}".lower(): ["any"] for tag in self.tags}
        found |= {f"aws:requesttag/{tag}".lower(): ["any"] for tag in self.tag_keys}
        if self.tag_keys:
            found["aws:tagkeys"] = list(self.tag_keys)
        if self.create_action is not None:
            found["ec2:createaction"] = [self.create_action]
        return found.get(key.lower())


def may(
    function: str,
    request: Request,
    *,
    enforcing: bool = True,
    besides: tuple[Statement, ...] = (),
    parameters: dict[str, list[str]] | None = None,
) -> bool:
    """Whether the role of a function may: something allows it, and nothing denies it. `parameters`: of the stack, those that only restrict."""
    given = parameters or {}
    own = (one for one in statements(function) if enforcing or "Enforcing" not in one.only_if)
    own = (_given(one, given) for one in own if all(_RESTRICTS[name] in given for name in one.only_if if name in _RESTRICTS))
    return decision((*own, *besides), request) == "allowed"


# The conditions of statements that exist only with a parameter, and only deny.
_RESTRICTS = {"HasJobVpcs": "JobVpcArns", "HasJobImageOwners": "JobImageOwners"}


def _given(statement: Statement, parameters: dict[str, list[str]]) -> Statement:
    """With the values of the parameters that its conditions and resources name."""

    def value(wanted: Any) -> Any:
        return parameters.get(wanted.get("Ref", ""), wanted) if isinstance(wanted, dict) else wanted

    conditions = {operator: {key: value(wanted) for key, wanted in keys.items()} for operator, keys in statement.conditions.items()}
    return replace(statement, conditions=conditions, resources=tuple(_filled(one, parameters) for one in statement.resources))


def _filled(resource: Any, parameters: dict[str, list[str]]) -> Any:
    """With the value of a parameter as the last part of its ARN: `arn_of` leaves the name there."""
    if not isinstance(resource, dict) or "Fn::Sub" not in resource:
        return resource
    start, _, name = arn_of(resource).rpartition("/")
    return f"{start}/{parameters[name][0]}" if name in parameters else resource


def role_may(role: dict[str, Any], request: Request, *, besides: tuple[Statement, ...] = ()) -> bool:
    """The same of any role of a template, by its properties."""
    return decision((*statements_of_role(role), *besides), request) == "allowed"


def decision(policies: Iterable[Statement], request: Request) -> str:
    """In the words of IAM's policy simulator."""
    effects = {statement.effect for statement in policies if _applies(statement, request)}
    if "Deny" in effects:
        return "explicitDeny"
    return "allowed" if effects else "implicitDeny"


def statements_of(document: dict[str, Any]) -> list[Statement]:
    """The statements of a policy as IAM keeps it."""
    return statements_of_role({"Policies": [{"PolicyDocument": document}]})


# What a role could be given beside its own policies, by mistake.
ADMINISTRATOR = Statement("Administrator", "Allow", ("*",), ("*",), {}, ())


def _applies(statement: Statement, request: Request) -> bool:
    return (
        any(fnmatchcase(request.action, action) for action in statement.actions)
        and _is_about(statement, request.resource)
        # All of the conditions, and all keys of each: any one value of a key is enough.
        and all(
            _holds(operator, request.values(key), wanted if isinstance(wanted, list) else [wanted])
            for operator, keys in statement.conditions.items()
            for key, wanted in keys.items()
        )
    )


def _is_about(statement: Statement, resource: str) -> bool:
    named = statement.resources or statement.not_resources
    return any(fnmatchcase(resource, arn_of(one)) for one in named) == bool(statement.resources)


def flattened(values: list[Any]) -> list[Any]:
    """The values with every optional one of a template among them."""
    return [one["Fn::If"][1] if isinstance(one, dict) and "Fn::If" in one else one for one in values]


def arn_of(resource: Any) -> str:
    if isinstance(resource, str):
        return resource
    ((kind, value),) = resource.items()
    if kind == "Fn::Sub":
        value = value[0] if isinstance(value, list) else value
        for name, stands_for in _PSEUDO_PARAMETERS.items():
            value = value.replace(name, stands_for)
        return value.replace("${", "").replace("}", "")
    return ".".join(value) if kind == "Fn::GetAtt" else value


def _holds(operator: str, values: list[str] | None, wanted: list[Any]) -> bool:
    if operator == "Null":
        return (values is None) == (wanted == ["true"])
    if operator.endswith("IfExists"):
        return values is None or _holds(operator.removesuffix("IfExists"), values, wanted)
    quantifier, _, comparison = operator.rpartition(":")
    if quantifier == "ForAllValues":
        return all(_compare(comparison, value, wanted) for value in values or [])
    if quantifier == "ForAnyValue":
        return any(_compare(comparison, value, wanted) for value in values or [])
    if values is None:
        # "If the key is not present, the condition is false; if it must not match, the condition is true."
        return comparison.startswith(("StringNot", "ArnNot"))
    (value,) = values
    return _compare(comparison, value, wanted)


def _compare(comparison: str, value: str, wanted: list[Any]) -> bool:
    match comparison:
        case "StringEquals":
            return value in [arn_of(one) for one in wanted]
        case "StringEqualsIgnoreCase":
            return value.lower() in [one.lower() for one in wanted]
        case "ArnEquals" | "ArnLike":  # the same (IAM user guide, "Amazon Resource Name (ARN) condition operators")
            return any(fnmatchcase(value, arn_of(pattern)) for pattern in flattened(wanted))
        case "ArnNotEquals" | "ArnNotLike":
            return not _compare("ArnLike", value, wanted)
        case "StringNotEquals":
            return value not in wanted
        case "StringLike":
            return any(fnmatchcase(value, arn_of(pattern)) for pattern in wanted)
        case "StringNotLike":
            return not _compare("StringLike", value, wanted)
        case "Bool":
            return value.lower() in wanted
    raise NotImplementedError(f"a policy uses {comparison}: add it here")
