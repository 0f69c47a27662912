"""Moto derives the names of each field anew for every answer, tries 20 transformations on it, validates its name, and lists the methods of
a class for every call. Of each account it makes the key of KMS anew by which EBS encrypts. Here all of that is remembered or left out:
DescribeInstances takes half of the CPU time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import xmltodict
from moto.core import responses
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker
from moto.core.utils import MISSING, get_value
from moto.kms import models as kms

_moto_pick = XFormedAttributePicker.__call__
_moto_possible_keys = XFormedAttributePicker.get_possible_keys
_known_keys: dict[tuple[Any, ...], tuple[str, ...]] = {}


def apply() -> None:
    XFormedAttributePicker.__call__ = _pick
    XFormedAttributePicker.get_possible_keys = _possible_keys
    responses.method_names_from_class = _once(responses.method_names_from_class)
    xmltodict._validate_name = _once(xmltodict._validate_name)
    kms.generate_private_key = _once(kms.generate_private_key)


def _once(function: Any) -> Any:
    return function if hasattr(function, "cache_info") else lru_cache(maxsize=10_000)(function)


def _pick(picker: XFormedAttributePicker, context: AttributePickerContext) -> Any:
    if f"{context.key_path}.{context.key}".endswith(tuple(picker.response_transformers)):
        return _moto_pick(picker, context)
    for key in _possible_keys(picker, context):
        value = get_value(context.obj, key, MISSING)
        if value is not MISSING:
            return value
    return None


def _possible_keys(picker: XFormedAttributePicker, context: AttributePickerContext) -> tuple[str, ...]:
    """They follow from the class of the object and the shape of the field. Shapes live as long as the process."""
    field = (type(context.obj), context.key, context.shape)
    if field not in _known_keys:
        _known_keys[field] = tuple(dict.fromkeys(_moto_possible_keys(picker, context)))
    return _known_keys[field]
