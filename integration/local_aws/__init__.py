"""A local AWS for tests and the demo: moto, in-process, behind a proxy of ours.

The proxy records every call, translates CloudWatch's CBOR, injects faults, honours ClientTokens, and offers a back
door to what AWS has no call for. `README.md` beside this package shows its use.

What moto 5.2.5 gets wrong and this package corrects:
  - RunInstances, CreateFleet and CreateVolume ignore ClientToken (idempotency.py).
  - RunInstances ignores DisableApiTermination; no Spot request stands behind a Spot instance; a cancelled Spot
    request is forgotten (honest_ec2.py, spot.py).
  - StopInstances stops one-time Spot and instance-store instances, and terminated ones; StartInstances starts
    terminated ones and leaves LaunchTime; StateTransitionReason says UTC where EC2 says GMT.
  - TerminateInstances with one protected instance ends those named before it; EC2 spares that instance's zone.
  - CreateTags tags what does not exist.
  - Filters of DescribeInstances know no wildcards, nor client-token, instance-lifecycle and others.
  - DescribeVolumes and DescribeSnapshots ignore MaxResults.
  - Tags of one resource are searched among those of all, which makes large accounts slow.
  - DescribeSpotPriceHistory answers 0.00001 USD of 2006 for everything (spot_prices.py).
  - SNS counts no subscribers, and takes e-mail subscriptions as confirmed (honest_sns.py).
  - CloudWatch speaks no CBOR; metrics: see honest_cloudwatch.py.
  - OwnerIds=self lists 1,301 foreign snapshots: the public AMIs that bring them are not loaded.
  - Concurrent calls race, conditional writes to S3 among them: calls are carried out one at a time.

What it does not correct: RunInstances launches MinCount, not MaxCount; launch templates lose their shutdown
behaviour and metadata options; terminating an instance of a persistent Spot request does not relaunch it; AMI ids and
instance types are not checked; completing a multipart upload answers no checksum; CreateFleet ignores parts of its
template; IAM has no tag conditions; no pricing, quotas or capacity reservations; states
change at once (`set_instance(state="pending")` shows the ones between).
"""

from .client import LocalAws, LocalAwsError
from .server import running

__all__ = ["LocalAws", "LocalAwsError", "running"]
