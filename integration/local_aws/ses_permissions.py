"""What SES asks IAM about a mail: the sender's identity, and the configuration set that is used. Moto asks about neither.

An identity may have a configuration set by default, and SES's own set-up gives it one; then a role needs `ses:SendEmail` on both
("Actions, resources, and condition keys for Amazon Simple Email Service v2", Service Authorization Reference).
"""

from __future__ import annotations

import json

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ses.models import ses_backends

from .http_message import Request


def resources_of_mail(request: Request, region: str) -> tuple[str, ...]:
    """The ARNs on which the sender needs `ses:SendEmail`: of the address or, where that is no identity, of its domain; and of the set."""
    mail = json.loads(request.body)
    address = mail.get("FromEmailAddress", "")
    known = ses_backends[DEFAULT_ACCOUNT_ID][region].email_identities
    name = address if address in known else address.rpartition("@")[2]
    by_default = known[name].configuration_set_name if name in known else None
    configuration_set = mail.get("ConfigurationSetName") or by_default
    start = f"arn:aws:ses:{region}:{DEFAULT_ACCOUNT_ID}"
    of_set = (f"{start}:configuration-set/{configuration_set}",) if configuration_set else ()
    return (f"{start}:identity/{name}", *of_set)
