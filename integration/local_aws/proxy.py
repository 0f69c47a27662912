"""The WSGI application in front of moto: records each call, applies the rules, then carries it out.

Calls are carried out one at a time. Moto is not thread-safe, and S3's conditional writes, ClientTokens and the
`before` hooks are only true if nothing happens in between. Waiting (`slow`) happens outside that lock.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import traceback
from collections.abc import Iterable
from typing import Any, Callable

from . import (
    absence_errors,
    capacity_reservations,
    cloudwatch_cbor,
    cloudwatch_metrics,
    commitments,
    contract,
    control,
    ebs_corrections,
    ebs_listing,
    ec2_corrections,
    event_corrections,
    fast_headers,
    fast_moto,
    file_systems,
    identity_corrections,
    instance_type_corrections,
    interface_corrections,
    invocations,
    launch_refusals,
    machine_images,
    placement_groups,
    policy_simulator,
    sagemaker,
    sns_corrections,
    spot_prices,
    ssm_associations,
    tag_corrections,
    volume_attachments,
)
from .admin_api import BackDoor
from .aws_call import AwsCall, identify
from .calls import Ledger, Violations
from .commitments import SavingsPlans
from .errors import error_response
from .faults import DAMAGED, Rule, RuleBook
from .http_message import Request, Response
from .idempotency import ClientTokens
from .moto_services import MotoServices
from .price_list import PriceList
from .service_quotas import Quotas
from .stacks import Stacks


class Proxy:
    def __init__(self, regions: Iterable[str] = ()) -> None:
        ec2_corrections.apply(tuple(regions))
        ebs_corrections.apply()
        ebs_listing.apply()
        volume_attachments.apply()
        instance_type_corrections.apply()
        interface_corrections.apply()
        placement_groups.apply()
        machine_images.apply()
        tag_corrections.apply()
        cloudwatch_metrics.apply()
        sns_corrections.apply()
        event_corrections.apply()
        identity_corrections.apply()
        commitments.apply()
        fast_moto.apply()
        fast_headers.apply()
        spot_prices.apply()
        capacity_reservations.apply()
        file_systems.apply()
        ssm_associations.apply()
        self.back_door = BackDoor(self)
        self.ledger = Ledger()
        self.violations = Violations()
        self.rules = RuleBook()
        self.stacks = Stacks()
        self.invocations = invocations.Invocations()
        self.quotas = Quotas()
        self.savings_plans = SavingsPlans()
        self.price_list = PriceList()
        self.sagemaker = sagemaker.SageMaker()
        self.launches = launch_refusals.Launches()
        self._tokens = ClientTokens()
        self._moto = MotoServices()
        self._one_at_a_time = threading.RLock()
        self._account = 0  # A call that was still held up at a reset must not change the next account.

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        request = Request.from_environ(environ)
        if request.path.startswith(control.PREFIX):
            return self.control(request.path.removeprefix(control.PREFIX), request.body).send(start_response)
        if request.path.startswith("/moto-api"):
            return self._forward(request).send(start_response)
        return self._aws(request).send(start_response)

    def control(self, name: str, body: bytes) -> Response:
        """The answer of the back door's method of that name, with a JSON object of its arguments."""
        if name == control.RELEASE:  # It waits for calls that need the lock.
            return control.answer(self.back_door, name, body)
        with self._one_at_a_time:
            return control.answer(self.back_door, name, body)

    def reset(self) -> None:
        """An empty account, without rules and without recorded calls."""
        from moto.moto_api._internal.models import moto_api_backend

        with self._one_at_a_time:
            self._account += 1
            moto_api_backend.reset()
            self._tokens.clear()
            self.stacks.clear()
            self.invocations.clear()
            self.quotas.clear()
            self.savings_plans.clear()
            self.price_list.clear()
            self.sagemaker.clear()
            self.launches.clear()
            self.rules.clear()
            self.ledger.clear()
            self.violations.clear()

    def _aws(self, request: Request) -> Response:
        call = identify(request)
        recorded = self.ledger.begin(call, request)
        self.violations.add(call, "request", contract.wrong_in_request(call, request))
        rule = self.rules.fault(call, request)
        if rule is None:
            response = self._carry_out(call, request)
        else:
            recorded.fault = rule.fault
            response = self._with_fault(rule, call, request)
        recorded.status = response.status
        return response

    def _with_fault(self, rule: Rule, call: AwsCall, request: Request) -> Response:
        error = rule.error(call)
        if error is not None:
            return error
        if rule.fault == "slow":
            return self._carry_out_late(rule, call, request)
        if rule.fault in DAMAGED:
            return _damaged(rule.fault, self._carry_out(call, request), request)
        if rule.fault == "lost_answer":
            self._carry_out(call, request)
        raise _close_connection(request)

    def _carry_out_late(self, rule: Rule, call: AwsCall, request: Request) -> Response:
        account, is_over = self._account, threading.Event()
        rule.slow_calls.append(is_over)
        try:
            rule.released.wait(rule.seconds)
            if account != self._account:
                raise _close_connection(request)
            return self._carry_out(call, request)
        finally:
            is_over.set()

    def _carry_out(self, call: AwsCall, request: Request) -> Response:
        response = self._answer(call, request)
        self.violations.add(call, "answer", contract.wrong_in_answer(call, response))
        return response

    def _answer(self, call: AwsCall, request: Request) -> Response:
        try:
            with self._one_at_a_time:
                for name, arguments in self.rules.changes(call, request):
                    getattr(self.back_door, name)(**arguments)
                if own := self._own_answer(call, request):
                    return own
                if call.protocol == "cbor":
                    return cloudwatch_cbor.carry_out(request, call, self._forward)
                return self._tokens.carry_out(call, request, lambda: self._launch_or_forward(call, request))
        except Exception as error:  # what moto does not know: 501 is not retried, so it is seen at once
            traceback.print_exc()
            return error_response(call, 501, "NotImplemented", f"the local AWS failed: {error!r}")

    def _launch_or_forward(self, call: AwsCall, request: Request) -> Response:
        if call.service in ("s3", "secretsmanager", "ssm"):
            return absence_errors.as_seen_by_caller(call, request, self._forward(request))
        return self.launches.carry_out(call, request, lambda: self._forward(request))

    def _own_answer(self, call: AwsCall, request: Request) -> Response | None:
        """Of services, and of one call, that moto does not have."""
        if call.service == "cloudformation":
            return self.stacks.answer(call, request)
        if call.action == "lambda:Invoke":
            return self.invocations.answer(call, request)
        if call.service == "servicequotas":
            return self.quotas.answer(call, request)
        if call.service == "savingsplans":
            return self.savings_plans.answer(call, request)
        if call.service == "pricing":
            return self.price_list.answer(call, request)
        if call.service in sagemaker.SERVICES:
            return self.sagemaker.answer(call, request)
        if call.action == "iam:SimulatePrincipalPolicy":
            return policy_simulator.simulate(call, request)
        return None

    def _forward(self, request: Request, **environ: Any) -> Response:
        with self._one_at_a_time:
            return self._moto.answer(request.as_environ(**environ))


def _damaged(fault: str, response: Response, request: Request) -> Response:
    half = response.body[: len(response.body) // 2]
    if fault == "cut_off":
        response.send_raw(request.environ["werkzeug.socket"], half)
        raise _close_connection(request, abruptly=False)
    return response.with_body(b"" if fault == "empty" else half)


def _close_connection(request: Request, abruptly: bool = True) -> ConnectionResetError:
    """Ends the connection: with a TCP reset, so that the client sees neither an answer nor a clean end; or, where some of
    an answer was sent, so that it gets there."""
    connection = request.environ["werkzeug.socket"]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", abruptly, 0))
    os.close(connection.detach())  # close() would wait for the files that the handler made of it
    return ConnectionResetError("closed by a fault rule")
