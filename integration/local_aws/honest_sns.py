"""Corrections of moto's SNS: subscriptions. Moto counts none, and treats e-mail subscriptions as confirmed.

Source: "GetTopicAttributes", "ListSubscriptionsByTopic" (SNS API Reference).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Callable

from cryptography.hazmat.primitives.asymmetric import rsa
from moto.sns.models import Subscription, Topic, sns_backends

_NEED_CONFIRMATION = ("email", "email-json", "http", "https")


def apply() -> None:
    # The attribute names are moto's, the spelling too.
    Topic.subscriptions_confimed = _counted(lambda subscription: not is_pending(subscription))
    Topic.subscriptions_pending = _counted(is_pending)
    Subscription.subscription_arn = property(
        lambda subscription: "PendingConfirmation" if is_pending(subscription) else subscription.arn
    )
    # Moto makes an RSA key for each subscription to sign with, which takes longer than most tests.
    Subscription.private_key = lambda subscription: signing_key()


def is_pending(subscription: Subscription) -> bool:
    return subscription.protocol in _NEED_CONFIRMATION and not subscription.confirmed


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
