"""Requests and answers as the members that botocore's models name, from each wire protocol.

What no model names stays under the name that it has on the wire, and what is no value of its type stays a text, so that
contract.py can say so. Source: the protocols of Smithy (smithy.io, "AWS query", "AWS EC2 query", "AWS JSON", "AWS restJson1",
"AWS restXml", "Smithy RPC v2 CBOR").
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import cbor2
from botocore.utils import parse_timestamp

from .aws_call import AwsCall, bucket_and_key
from .http_message import Request, Response
from .models import path_pattern

# Of the protocol, of signatures and of checksums, whatever the operation.
_COMMON_PARAMETERS = ("Action", "Version")
_COMMON_HEADERS = re.compile(r"x-amz-(date|content-sha256|security-token|user-agent|decoded-content-length|trailer|target|checksum-\w+)$|x-amzn-")
_COMMON_QUERY = re.compile(r"x-id$|X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature|Security-Token)$")
_FLOATS = ("float", "double")
_INTEGERS = ("integer", "long", "short", "byte")


def wrong_in_envelope(operation: Any, call: AwsCall, request: Request) -> Iterator[str]:
    """What says which operation of which version is meant."""
    service = operation.service_model
    if call.protocol in ("ec2", "query"):
        version = _form(request).get("Version")
        if version != service.api_version:
            yield f"Version is {version}, not {service.api_version}"
    target = request.headers.get("x-amz-target", "")
    prefix = service.metadata.get("targetPrefix", "")
    if call.protocol == "json" and prefix and target.rpartition(".")[0] != prefix:
        yield f"X-Amz-Target is {target}, which does not begin with {prefix}"


def decode_request(operation: Any, call: AwsCall, request: Request) -> dict[str, Any]:
    shape = operation.input_shape
    if call.protocol in ("ec2", "query"):
        form = {name: value for name, value in _form(request).items() if name not in _COMMON_PARAMETERS}
        return _from_parameters(shape, _tree(form), call.protocol == "ec2") if shape else form
    if call.protocol == "cbor":
        return _from_json(shape, cbor2.loads(request.body) if request.body else {})
    if operation.service_model.metadata["protocol"].startswith("rest-"):
        return _from_rest(operation, call, request)
    return _from_json(shape, json.loads(request.body or b"{}"))


def decode_answer(operation: Any, call: AwsCall, response: Response) -> dict[str, Any]:
    shape = operation.output_shape
    payload = shape.serialization.get("payload")
    if payload is not None and shape.members[payload].type_name == "blob":  # what a function answered, for instance
        return {payload: response.body}
    if call.protocol == "cbor":
        return _from_json(shape, cbor2.loads(response.body))
    if call.protocol == "json":
        return _from_json(shape, json.loads(response.body or b"{}"))
    root = ElementTree.fromstring(response.body)
    if wrapper := shape.serialization.get("resultWrapper"):
        root = next((child for child in root if _tag(child) == wrapper), root)
    children = [child for child in root if _tag(child) not in ("requestId", "RequestId", "ResponseMetadata")]
    return _from_xml_structure(shape, children)


def _form(request: Request) -> dict[str, str]:
    return {**request.query_parameters, **request.form}


# JSON and CBOR


@cache
def _json_names(shape: Any) -> dict[str, tuple[str, Any]]:
    return {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}


def _from_json(shape: Any, value: Any) -> Any:
    if shape is None or value is None:
        return value
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict) and not shape.is_document_type:
        known, members = _json_names(shape), {}
        for name, item in value.items():
            own, member = known.get(name, (name, None))
            if item is not None:  # null is an absent member
                members[own] = _from_json(member, item)
        return members
    if kind == "list" and isinstance(value, list):
        return [_from_json(shape.member, item) for item in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _from_json(shape.value, item) for key, item in value.items()}
    if kind == "blob" and isinstance(value, str):
        return _unless_invalid(b64decode, value)
    if kind == "timestamp" and isinstance(value, str) and shape.serialization.get("timestampFormat") == "iso8601":
        return _unless_invalid(_moment, value)
    return value


# Forms


def _tree(form: dict[str, str]) -> dict[str, Any]:
    """`{"Filter.1.Name": "a"}` as `{"Filter": {"1": {"Name": {"": "a"}}}}`: a leaf's text has no name."""
    root: dict[str, Any] = {}
    for name, value in form.items():
        node = root
        for part in name.split("."):
            node = node.setdefault(part, {})
        node[""] = value
    return root


def _from_parameters(shape: Any, node: dict[str, Any], is_ec2: bool) -> Any:
    kind = shape.type_name
    if kind == "structure":
        known, members = _parameters(shape, is_ec2), {}
        for name, child in node.items():
            own, member = known.get(name, (name or "a text", None))
            members[own] = _from_parameters(member, child, is_ec2) if member else child
        return members
    if kind == "list" and node != {"": ""}:  # an empty list is an empty text
        if not is_ec2 and not shape.serialization.get("flattened"):
            node = _only(node, shape.member.serialization.get("name", "member"))
        return [_from_parameters(shape.member, child, is_ec2) for child in _numbered(node)]
    if kind == "map":
        entries = node if shape.serialization.get("flattened") else _only(node, "entry")
        names = shape.key.serialization.get("name", "key"), shape.value.serialization.get("name", "value")
        return {
            entry.get(names[0], {}).get("", ""): _from_parameters(shape.value, entry.get(names[1], {}), is_ec2)
            for entry in _numbered(entries)
        }
    if kind == "list":
        return []
    if set(node) != {""}:
        raise ValueError(f"{_shown(node)} where a {kind} is due")
    return _from_text(shape, node[""])


@cache
def _parameters(shape: Any, is_ec2: bool) -> dict[str, tuple[str, Any]]:
    return {_parameter(member, name, is_ec2): (name, member) for name, member in shape.members.items()}


def _parameter(member: Any, name: str, is_ec2: bool) -> str:
    """Its name in a form: EC2's begin with a capital letter; a flattened list of the query protocol is named by its member."""
    if is_ec2:
        named = member.serialization.get("queryName") or member.serialization.get("name", name)
        return named[0].upper() + named[1:]
    if member.type_name == "list" and member.serialization.get("flattened"):
        return member.member.serialization.get("name", member.serialization.get("name", name))
    return member.serialization.get("name", name)


def _only(node: dict[str, Any], name: str) -> dict[str, Any]:
    if set(node) != {name}:
        raise ValueError(f"{_shown(node)} where only {name!r} is due")
    return node[name]


def _numbered(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Items 1 to n. SDKs count without gaps, and so must others."""
    numbers = sorted(node, key=lambda text: (len(text), text))
    if numbers != [str(number) for number in range(1, len(node) + 1)]:
        raise ValueError(f"a list's items are numbered {', '.join(numbers)[:80]}")
    return [node[number] for number in numbers]


def _from_text(shape: Any, text: str) -> Any:
    kind = shape.type_name
    if kind in _INTEGERS:
        return _unless_invalid(int, text)
    if kind in _FLOATS:
        return _unless_invalid(float, text)
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if kind == "timestamp":
        return _unless_invalid(_moment, text)
    if kind == "list":  # of a header
        return [_from_text(shape.member, one.strip()) for one in text.split(",")]
    return _unless_invalid(b64decode, text) if kind == "blob" else text


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)  # botocore's takes twenty times as long, and is for HTTP's dates
    except ValueError:
        return parse_timestamp(text)


def _unless_invalid(convert: Any, text: str) -> Any:
    try:
        return convert(text)
    except ValueError:
        return text


# REST


def _from_rest(operation: Any, call: AwsCall, request: Request) -> dict[str, Any]:
    shape = operation.input_shape
    path, _, constant = operation.http["requestUri"].partition("?")
    query = {name: value for name, value in request.query_parameters.items() if not _COMMON_QUERY.match(name)}
    for name, _ in parse_qsl(constant, keep_blank_values=True):
        query.pop(name, None)
    headers = {name: value for name, value in request.headers.items() if value}
    members = dict(_path_members(path, call, request))
    for name, member in shape.members.items() if shape else ():
        place, wire_name = member.serialization.get("location"), member.serialization.get("name", name)
        if place == "querystring" and wire_name in query:
            members[name] = _from_text(member, query.pop(wire_name))
        elif place == "header" and wire_name.lower() in headers:
            members[name] = _from_text(member, headers.pop(wire_name.lower()))
        elif place == "headers":
            own = [header for header in headers if header.startswith(wire_name.lower())]
            members |= {name: {header[len(wire_name) :]: headers.pop(header) for header in own}} if own else {}
    members |= {f"?{name}": value for name, value in query.items()}
    members |= {name: value for name, value in headers.items() if name.startswith("x-amz-") and not _COMMON_HEADERS.match(name)}
    return members | _rest_body(operation, request.body)


def _path_members(template: str, call: AwsCall, request: Request) -> Iterator[tuple[str, str]]:
    """S3 may have the bucket in the host."""
    if call.service == "s3":
        yield from ((name, value) for name, value in zip(("Bucket", "Key"), bucket_and_key(request)) if value)
        return
    found = path_pattern(template).fullmatch(request.path)
    yield from found.groupdict().items() if found else ()


def _rest_body(operation: Any, body: bytes) -> dict[str, Any]:
    shape = operation.input_shape
    if shape is None or not body:
        return {}
    payload = shape.serialization.get("payload")
    target = shape.members[payload] if payload else shape
    if target.type_name in ("blob", "string"):
        return {payload: body if target.type_name == "blob" else body.decode()}
    if operation.service_model.metadata["protocol"] == "rest-json":
        decoded = _from_json(target, json.loads(body))
    else:
        decoded = _from_xml_structure(target, list(ElementTree.fromstring(body)))
    return {payload: decoded} if payload else decoded


# XML


@cache
def _xml_names(shape: Any) -> dict[str, tuple[str, Any, bool]]:
    known = {}
    for name, member in shape.members.items():
        is_flattened = member.type_name == "list" and member.serialization.get("flattened")
        named = member.member.serialization.get("name") if is_flattened else None
        known[member.serialization.get("name", named or name)] = (name, member, bool(is_flattened))
    return known


def _from_xml_structure(shape: Any, children: list[ElementTree.Element]) -> dict[str, Any]:
    known = _xml_names(shape)
    members: dict[str, Any] = {}
    for child in children:
        name, member, is_flattened = known.get(_tag(child), (_tag(child), None, False))
        if is_flattened:
            members.setdefault(name, []).append(_from_xml(member.member, child))
        else:
            members[name] = _from_xml(member, child) if member else child.text
    return members


def _from_xml(shape: Any, node: ElementTree.Element) -> Any:
    kind = shape.type_name
    if kind == "structure":
        return _from_xml_structure(shape, list(node))
    if kind == "list":
        return [_from_xml(shape.member, child) for child in node]
    if kind == "map":
        names = shape.key.serialization.get("name", "key"), shape.value.serialization.get("name", "value")
        entries = [{_tag(child): child for child in entry} for entry in node]
        return {entry[names[0]].text or "": _from_xml(shape.value, entry[names[1]]) for entry in entries}
    return _from_text(shape, node.text or "")


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _shown(node: dict[str, Any]) -> str:
    return str(list(node))[:80]
