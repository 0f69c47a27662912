"""botocore's models by the names that calls have here: services by IAM's prefix, REST operations by method and path."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from moto.core.utils import get_service_model

# By IAM's prefix, where botocore names the service otherwise.
_BOTOCORE_NAMES = {
    "ses": "sesv2",
    "tag": "resourcegroupstaggingapi",
    "servicequotas": "service-quotas",
    "elasticloadbalancing": "elbv2",
}


@cache
def service_model(service: str) -> Any:
    """None for a service that AWS does not have."""
    try:
        return get_service_model(_BOTOCORE_NAMES.get(service, service))
    except Exception:  # botocore's UnknownServiceError, or that of a file which moto reads
        return None


def operation_model(service: str, operation: str) -> Any:
    model = service_model(service)
    return model.operation_model(operation) if model and operation in model.operation_names else None


def rest_operation(service: str, method: str, path: str) -> str | None:
    """The operation of a service that speaks restJson1."""
    found = [name for pattern, own_method, name in _rest_operations(service) if own_method == method and pattern.fullmatch(path)]
    return found[0] if found else None


@cache
def _rest_operations(service: str) -> list[tuple[re.Pattern[str], str, str]]:
    """Paths with more fixed parts first: `/functions/{name}/policy` is not a name with a slash."""
    model = service_model(service)
    if model is None or model.metadata["protocol"] != "rest-json":
        return []
    of_all = [(model.operation_model(name).http, name) for name in model.operation_names]
    of_all.sort(key=lambda one: -len(re.sub(r"\{[^}]*\}", "", one[0]["requestUri"])))
    return [(path_pattern(http["requestUri"]), http["method"], name) for http, name in of_all]


@cache
def path_pattern(template: str) -> re.Pattern[str]:
    """`/functions/{FunctionName}` as an expression with a group for each name; `{Key+}` may contain slashes."""
    parts = re.split(r"\{([\w-]+)(\+?)\}", template.partition("?")[0])
    pattern = re.escape(parts[0])
    for name, is_greedy, literal in zip(parts[1::3], parts[2::3], parts[3::3]):
        pattern += f"(?P<{name.replace('-', '_')}>{'.+' if is_greedy else '[^/]+'}){re.escape(literal)}"
    return re.compile(pattern)
