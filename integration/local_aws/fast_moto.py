"""Moto derives the names of each field anew for every answer, tries 20 transformations on it, validates its name, and lists the methods of
a class for every call. Of each account it makes the key of KMS anew by which EBS encrypts. It draws the id of a request letter by letter, and
tries a dozen expressions on the host of one to S3, five times. It writes XML by Python's generator of SAX events. Here all of that is remembered,
left out or done at once: DescribeInstances takes less than half of the CPU time. To list the versions of some objects it copies all objects of the bucket, with
their content."""

from __future__ import annotations

import copy
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import xmltodict
from moto.core import responses
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker
from moto.core.utils import MISSING, get_value
from moto.kms import models as kms
from moto.moto_api._internal import mock_random
from moto.s3 import models as s3
from moto.s3.responses import S3Response

_moto_pick = XFormedAttributePicker.__call__
_moto_possible_keys = XFormedAttributePicker.get_possible_keys
_known_keys: dict[tuple[Any, ...], tuple[str, ...]] = {}
_moto_has_bucket_in_host = S3Response.subdomain_based_buckets
_unparse_anything = xmltodict.unparse
_REQUEST_ID_LETTERS = 52


def apply() -> None:
    XFormedAttributePicker.__call__ = _pick
    XFormedAttributePicker.get_possible_keys = _possible_keys
    responses.method_names_from_class = _once(responses.method_names_from_class)
    xmltodict._validate_name = _once(xmltodict._validate_name)
    kms.generate_private_key = _once(kms.generate_private_key)
    xmltodict.unparse = _unparse
    responses.gen_amzn_requestid_long = _request_id
    S3Response.subdomain_based_buckets = staticmethod(_has_bucket_in_host)
    # Moto's models of S3 call deepcopy for lists of versions alone.
    s3.copy = SimpleNamespace(copy=copy.copy, deepcopy=_listed)


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


def _request_id(headers: dict[str, Any] | None = None) -> str:
    request_id = f"{mock_random.getrandbits(4 * _REQUEST_ID_LETTERS):0{_REQUEST_ID_LETTERS}X}"
    if isinstance(headers, dict):
        headers["x-amzn-requestid"] = request_id
    return request_id


_bucket_is_in_host: dict[str, bool] = {}


def _has_bucket_in_host(request: Any) -> bool:
    host = request.headers.get("host")
    if host is None:
        return _moto_has_bucket_in_host(request)
    if host not in _bucket_is_in_host:
        _bucket_is_in_host[host] = _moto_has_bucket_in_host(request)
    return _bucket_is_in_host[host]


class _Listed(s3.FakeKey):
    """A version in a list. It shares its content with the object, which alone closes that."""

    def __del__(self) -> None:
        pass


def _listed(versions: list[Any]) -> list[Any]:
    """The versions of an object, to which a list adds what it says of each."""
    copies = []
    for version in versions:
        one = object.__new__(_Listed if isinstance(version, s3.FakeKey) else type(version))
        one.__dict__.update(version.__dict__)
        copies.append(one)
    return copies


class _NeedsGenerator(Exception):
    """Comments, namespaces as dictionaries, and several roots."""


def _unparse(document: dict[str, Any], output: Any = None, full_document: bool = True, short_empty_elements: bool = False, **options: Any) -> Any:
    """The text that xmltodict makes of a document."""
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n'] if full_document else []
    try:
        if output is not None or any(options.values()) or full_document and len(document) != 1:
            raise _NeedsGenerator
        for name, value in document.items():
            _write_elements(name, value, short_empty_elements, parts)
    except _NeedsGenerator:
        return _unparse_anything(document, output, full_document=full_document, short_empty_elements=short_empty_elements, **options)
    return "".join(parts)


def _write_elements(name: str, value: Any, is_short: bool, parts: list[str]) -> None:
    xmltodict._validate_name(name, "element")
    if name.startswith("#"):
        raise _NeedsGenerator
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)) or not hasattr(value, "__iter__"):
        value = (value,)
    elif len(parts) <= 1:
        raise _NeedsGenerator
    for one in value:
        text, attributes, children = one, "", ()
        if isinstance(one, dict):
            text = one.get("#text")
            attributes = "".join(_attribute(key, named) for key, named in one.items() if key.startswith("@"))
            children = [(key, child) for key, child in one.items() if key != "#text" and not key.startswith("@") and child != []]
        text = "" if text is None else escape(text if isinstance(text, str) else xmltodict._convert_value_to_string(text))
        if is_short and not text and not children:
            parts.append(f"<{name}{attributes}/>")
            continue
        parts.append(f"<{name}{attributes}>")
        for key, child in children:
            _write_elements(key, child, is_short, parts)
        parts.append(f"{text}</{name}>")


def _attribute(key: str, value: Any) -> str:
    name = key[1:]
    xmltodict._validate_name(name, "attribute")
    if isinstance(value, dict):
        raise _NeedsGenerator
    text = "" if value is None else value if isinstance(value, str) else xmltodict._convert_value_to_string(value)
    return f" {name}={quoteattr(text)}"
