"""Corrections of moto's SNS: subscriptions. Moto counts none, treats e-mail subscriptions as confirmed, and takes any rate.

Source: "GetTopicAttributes", "ListSubscriptionsByTopic" (SNS API Reference). More than 10 messages in a second suspend an
e-mail subscription: it is pending confirmation again, and gets nothing ("Email subscription setup and management", SNS
developer guide).
"""

from __future__ import annotations

from collections import deque
from functools import cache
from time import monotonic
from typing import Any, Callable

from cryptography.hazmat.primitives.asymmetric import rsa
from moto.sns.models import Subscription, Topic, sns_backends

_EMAIL = ("email", "email-json")
_NEED_CONFIRMATION = (*_EMAIL, "http", "https")
_EMAILS_PER_SECOND_MAX = 10

_moto_publish = Subscription.publish


def apply() -> None:
    # The attribute names are moto's, the spelling too.
    Topic.subscriptions_confimed = _counted(lambda subscription: not is_pending(subscription))
    Topic.subscriptions_pending = _counted(is_pending)
    Subscription.subscription_arn = property(
        lambda subscription: "PendingConfirmation" if is_pending(subscription) else subscription.arn
    )
    Subscription.publish = _publish
    # Moto makes an RSA key for each subscription to sign with, which takes longer than most tests.
    Subscription.private_key = lambda subscription: signing_key()


def is_pending(subscription: Subscription) -> bool:
    return subscription.protocol in _NEED_CONFIRMATION and not subscription.confirmed


def _publish(subscription: Subscription, message: str, message_id: str, **more: Any) -> None:
    if is_pending(subscription):
        return
    if subscription.protocol in _EMAIL and _is_for(subscription, message, more.get("message_attributes")):
        _count_email(subscription)
    _moto_publish(subscription, message, message_id, **more)


def _is_for(subscription: Subscription, message: str, attributes: Any) -> bool:
    matcher = subscription._filter_policy_matcher
    return matcher is None or matcher.matches(attributes, message)


def _count_email(subscription: Subscription) -> None:
    now = monotonic()
    sent: deque[float] = subscription.__dict__.setdefault("sent_at", deque(maxlen=_EMAILS_PER_SECOND_MAX + 1))
    sent.append(now)
    if len(sent) > _EMAILS_PER_SECOND_MAX and now - sent[0] < 1.0:
        subscription.confirmed = False


def confirm(endpoint: str) -> int:
    """Confirms every subscription of this address, as its owner's click would. Answers how many there are."""
    found = [
        subscription
        for regions in sns_backends.values()
        for backend in regions.values()
        for subscription in backend.subscriptions.values()
        if subscription.endpoint == endpoint
    ]
    for subscription in found:
        subscription.confirmed = True
    return len(found)


@cache
def signing_key() -> rsa.RSAPrivateKey:
    """That of all subscriptions, made once it is needed."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _counted(counts: Callable[[Subscription], bool]) -> property:
    def count(topic: Topic) -> int:
        return sum(1 for one in topic.sns_backend.subscriptions.values() if one.topic is topic and counts(one))

    def ignore(_topic: Topic, _value: Any) -> None:
        """Moto's constructor sets these to zero."""

    return property(count, ignore)
