"""Makes the copy of a state bucket the state bucket of a new stack, before `make deploy` deploys the rest: docs/region.md.

`restore.py -- ARGS...` has the arguments of `make deploy`. Without RestoreFrom among them it does nothing. Each step may be repeated: what was
done before is left as it is.

1. It deletes the stack of deploy/replica/replica.yaml, whose bucket is retained, and whose policy goes with it.
2. It makes the new stack by importing that bucket as StateBucket, and nothing else. An import makes no other resource (CloudFormation user guide,
   "Import AWS resources into a CloudFormation stack"), so the rest is the update that follows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from preflight import Deployment, code_of, settings_of

LOGICAL_ID, LOGICAL_ID_OF_COPY = "StateBucket", "ReplicaBucket"
KIND = "AWS::S3::Bucket"
# CloudFormation waits for nothing but S3 here.
WAITER = {"Delay": 5, "MaxAttempts": 120}


class NotRestored(Exception):
    """The reason, and what to do about it."""


def import_template(bucket: str) -> str:
    """The new stack as it is first: its bucket alone. Whatever template.yaml says beside it, the update adds."""
    imported = {"Type": KIND, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": {"BucketName": bucket}}
    return json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": {LOGICAL_ID: imported}})


def restore(cloudformation: Any, stack: str, bucket: str, say: Callable[[str], None]) -> None:
    """Imports the bucket into the stack.

    Raises NotRestored if the stack has another bucket, or the bucket belongs to another stack than that of a copy.
    """
    status = status_of(cloudformation, stack)
    if status not in (None, "REVIEW_IN_PROGRESS"):
        found = cloudformation.describe_stack_resources(StackName=stack, LogicalResourceId=LOGICAL_ID)["StackResources"]
        if [one["PhysicalResourceId"] for one in found] != [bucket]:
            raise NotRestored(f"There is a stack {stack} already, whose state bucket is not {bucket}. Name another by --stack-name.")
        return say(f"The stack {stack} has the bucket {bucket} already")
    holder = stack_of(cloudformation, bucket)
    if holder is not None:
        say(f"Deleting the stack {holder}, which has the copy; the bucket {bucket} stays")
        cloudformation.delete_stack(StackName=holder)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=holder, WaiterConfig=WAITER)
    say(f"Importing the bucket {bucket} into the stack {stack}")
    change = {"StackName": stack, "ChangeSetName": "restore"}
    if status is not None:  # an import that was cut off
        cloudformation.delete_change_set(**change)
    cloudformation.create_change_set(
        **change,
        ChangeSetType="IMPORT",
        TemplateBody=import_template(bucket),
        ResourcesToImport=[{"ResourceType": KIND, "LogicalResourceId": LOGICAL_ID, "ResourceIdentifier": {"BucketName": bucket}}],
    )
    cloudformation.get_waiter("change_set_create_complete").wait(**change, WaiterConfig=WAITER)
    cloudformation.execute_change_set(**change)
    cloudformation.get_waiter("stack_import_complete").wait(StackName=stack, WaiterConfig=WAITER)


def status_of(cloudformation: Any, stack: str) -> str | None:
    found = unless_missing(cloudformation, cloudformation.describe_stacks, StackName=stack)
    return None if found is None else str(found["Stacks"][0]["StackStatus"])


def stack_of(cloudformation: Any, bucket: str) -> str | None:
    """The stack of the copy; `None` if it was deleted before."""
    found = unless_missing(cloudformation, cloudformation.describe_stack_resources, PhysicalResourceId=bucket)
    if found is None:
        return None
    (held,) = [one for one in found["StackResources"] if one["PhysicalResourceId"] == bucket]
    if held["LogicalResourceId"] != LOGICAL_ID_OF_COPY:
        raise NotRestored(f"{bucket} is {held['LogicalResourceId']} of the stack {held['StackName']}, and no copy of deploy/replica/replica.yaml.")
    return str(held["StackName"])


def unless_missing(cloudformation: Any, call: Callable[..., Any], **named: str) -> Any:
    """What the call answers; `None` where there is no such stack or resource."""
    try:
        return call(**named)
    except cloudformation.exceptions.ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def main() -> int:
    wanted = Deployment.read(sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:])
    bucket = wanted.parameters.get("RestoreFrom")
    if not bucket:
        return 0
    session, region = settings_of(wanted)
    try:
        restore(session.create_client("cloudformation", region), wanted.stack, bucket, print)
    except NotRestored as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 - botocore's errors have no common class
        print(f"{bucket} was not imported ({code_of(error)}): {error}\nCorrect that, and run the same command again.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
