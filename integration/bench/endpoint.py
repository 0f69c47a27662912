"""Serves an account: `python -m bench.endpoint --function reap-volumes --count 10000 [--port 4570]`.

Everything that is large is rendered before the first call is taken. When it is ready it prints one line of JSON with
its address; it ends on SIGTERM, or when its standard input does. What it does not know it refuses, and counts.

    GET /_bench/told    calls by action, metrics asked for, bytes published by team, what was
                        refused
    GET /_bench/forget  an empty bucket except for the configuration, and no notifications
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from earlier_runs import key_of
from local_aws.aws_call import AwsCall, bucket_and_key, identify
from local_aws.http_message import Request
from local_aws.sagemaker import SERVICES

from .accounts import ACCOUNTS
from .fleet import BUCKET, REGION, TOPIC_ARN
from .refused import Refused

Answer = tuple[int, bytes, dict[str, str]]  # status, body, headers

_XML = {"Content-Type": "text/xml;charset=UTF-8"}


class Endpoint:
    """AWS, as far as a run over this account needs it."""

    def __init__(self, function: str, count: int) -> None:
        self._account = ACCOUNTS[function](count)
        self._lock = threading.Lock()
        self.forget()
        self.rendered_bytes = self._account.rendered_bytes

    def forget(self) -> None:
        with self._lock:
            self._objects = {"config/curfew.toml": self._account.config.encode()}
            if self._account.log is not None:
                self._objects[key_of("reap-volumes", REGION)] = json.dumps(self._account.log).encode()
            self._calls: Counter = Counter()
            self._published: Counter = Counter()
            self._metrics_asked = 0
            self._refused: list[str] = []

    def told(self) -> dict[str, Any]:
        with self._lock:
            return {
                "calls": dict(self._calls),
                "metrics_asked": self._metrics_asked,
                "published": dict(self._published),
                "refused": self._refused[:10],
            }

    def answer(self, request: Request) -> Answer:
        call = identify(request)
        try:
            answer = self._answer(call, request)
        except Exception as error:  # whatever it is, the measurement must not pass as one
            answer = self._refuse(call, error)
        with self._lock:
            self._calls[call.action] += 1
            self._metrics_asked += call.metrics_asked
        return answer

    def _answer(self, call: AwsCall, request: Request) -> Answer:
        if call.service == "s3":
            return self._s3(call, request)
        if call.service == "cloudwatch":
            return 200, *self._account.cloudwatch(call, request.body)
        if call.service == "fsx":
            return 200, b'{"FileSystems":[]}', {"Content-Type": "application/x-amz-json-1.1"}
        if call.service in SERVICES:
            return 200, self._account.sagemaker(call, request.body), {"Content-Type": "application/x-amz-json-1.1"}
        if call.service == "ec2":
            return 200, self._account.ec2(call, request.form), _XML
        if call.action == "pricing:GetProducts":  # the dated table has the prices
            return 200, b'{"FormatVersion":"aws_v1","PriceList":[]}', {"Content-Type": "application/x-amz-json-1.1"}
        if call.action == "sns:Publish":
            self._publish(request.form)
        return 200, _ANSWERS[call.action].encode(), _XML

    def _publish(self, form: dict[str, str]) -> None:
        attributes = {value: key.removesuffix("Name") for key, value in form.items() if key.endswith(".Name")}
        team = form[f"{attributes['team']}Value.StringValue"]
        with self._lock:
            self._published[team] += len(form["Message"].encode())

    def _s3(self, call: AwsCall, request: Request) -> Answer:
        bucket, key = bucket_and_key(request)
        if bucket != BUCKET or call.operation not in ("GetObject", "PutObject"):
            raise Refused(f"{call.operation} of {bucket}/{key}")
        with self._lock:
            body = self._objects.get(key)
            etag = None if body is None else f'"{hashlib.md5(body).hexdigest()}"'
            if call.operation == "GetObject":
                return _NO_SUCH_KEY if body is None else (200, body, {"ETag": etag, "Content-Type": "application/json"})
            wanted = request.headers.get("if-match")
            if wanted not in (None, etag) or ("if-none-match" in request.headers and body is not None):
                return _LOST
            self._objects[key] = request.body
            return 200, b"", {"ETag": f'"{hashlib.md5(request.body).hexdigest()}"'}

    def _refuse(self, call: AwsCall, error: Exception) -> Answer:
        with self._lock:
            self._refused.append(f"{call.action}: {type(error).__name__}: {error}"[:500])
        return 400, b"<Response><Errors><Error><Code>NotPrepared</Code></Error></Errors></Response>", _XML


_SUBSCRIPTIONS = f"""\
<ListSubscriptionsByTopicResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
  <ListSubscriptionsByTopicResult><Subscriptions><member>
    <TopicArn>{TOPIC_ARN}</TopicArn><Protocol>email</Protocol><Owner>123456789012</Owner>
    <SubscriptionArn>{TOPIC_ARN}:80289ba6-0fd4-4079-afb4-ce8c8260f0ca</SubscriptionArn>
    <Endpoint>platform@example.com</Endpoint>
  </member></Subscriptions></ListSubscriptionsByTopicResult>
  <ResponseMetadata><RequestId>384ac68d-3775-11df-8963-01868b7c937a</RequestId></ResponseMetadata>
</ListSubscriptionsByTopicResponse>
"""
_SUBSCRIPTION = f"""\
<GetSubscriptionAttributesResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
  <GetSubscriptionAttributesResult><Attributes>
    <entry><key>SubscriptionArn</key><value>{TOPIC_ARN}:80289ba6-0fd4-4079-afb4-ce8c8260f0ca</value></entry>
  </Attributes></GetSubscriptionAttributesResult>
  <ResponseMetadata><RequestId>057f074c-33a7-11df-9540-99d0768312d3</RequestId></ResponseMetadata>
</GetSubscriptionAttributesResponse>
"""
_PUBLISHED = """\
<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
  <PublishResult><MessageId>94f20ce6-13c5-43a0-9a9e-ca52d816e90b</MessageId></PublishResult>
  <ResponseMetadata><RequestId>f187a3c1-376f-11df-8963-01868b7c937a</RequestId></ResponseMetadata>
</PublishResponse>
"""
_IDENTITY = """\
<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <GetCallerIdentityResult>
    <Arn>arn:aws:iam::123456789012:user/bench</Arn><UserId>AIDAEXAMPLE</UserId><Account>123456789012</Account>
  </GetCallerIdentityResult>
  <ResponseMetadata><RequestId>01234567-89ab-cdef-0123-456789abcdef</RequestId></ResponseMetadata>
</GetCallerIdentityResponse>
"""
_ANSWERS = {
    "sns:ListSubscriptionsByTopic": _SUBSCRIPTIONS,
    "sns:GetSubscriptionAttributes": _SUBSCRIPTION,
    "sns:Publish": _PUBLISHED,
    "sts:GetCallerIdentity": _IDENTITY,
}
_NO_SUCH_KEY = (404, b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>", _XML)
_LOST = (412, b"<Error><Code>PreconditionFailed</Code><Message>Something else is there.</Message></Error>", _XML)


def _handler(endpoint: Endpoint) -> type:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _carry_out(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            if parts.path.startswith("/_bench/"):
                if parts.path == "/_bench/forget":
                    endpoint.forget()
                return self._send(200, json.dumps(endpoint.told()).encode(), {})
            headers = {name.lower(): value for name, value in self.headers.items()}
            return self._send(*endpoint.answer(Request(self.command, parts.path, parts.query, headers, body)))

        do_GET = do_POST = do_PUT = do_HEAD = _carry_out

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
            self.wfile.write("\r\n".join([*lines, "", ""]).encode())
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.endpoint", description="Serves an account to look at.")
    parser.add_argument("--function", choices=ACCOUNTS, default="reap-instances")
    parser.add_argument("--count", type=int, default=10_000, help="of instances, volumes or endpoints (10000)")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    asked = parser.parse_args()
    endpoint = Endpoint(asked.function, asked.count)
    server = ThreadingHTTPServer(("127.0.0.1", asked.port), _handler(endpoint))
    server.daemon_threads = True
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    ready = {
        "address": f"http://127.0.0.1:{server.server_port}",
        "function": asked.function,
        "count": asked.count,
        "rendered_bytes": endpoint.rendered_bytes,
    }
    print(json.dumps(ready), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
