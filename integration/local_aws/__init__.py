"""A local AWS for tests and the demo: moto, in-process, behind a proxy of ours.

The proxy records every call, translates CloudWatch's CBOR, injects faults, honours ClientTokens, and offers a back
door to what AWS has no call for. `README.md` beside this package shows its use.

Every request is checked against botocore's models, and so is every answer but those of S3; a test fails with what it finds
(contract.py, wire.py).

What moto 5.2.5 gets wrong and this package corrects:
  - RunInstances and CreateVolume ignore ClientToken (idempotency.py).
  - RunInstances looks at neither quotas, capacity, Spot prices nor the length of user data and tokens, answers an unknown
    instance profile as IAM would, and makes no volume of a device that only its image names (launch_refusals.py,
    machine_images.py).
  - Filters of DescribeInstanceTypes and DescribeInstanceTypeOfferings know no wildcards, and neither has pages
    (instance_type_corrections.py).
  - RunInstances ignores card and type of network interfaces, gives a profile to the first instance alone, and answers in the order of the
    launch index, as DescribeInstances does; DeleteSecurityGroup lets go what an instance has (interface_corrections.py, ec2_corrections.py).
  - Instances are gone at once, are never interrupted, and never shut themselves down (lifecycle.py).
  - RunInstances ignores DisableApiTermination; no Spot request stands behind a Spot instance (ec2_corrections.py, spot.py).
  - StopInstances stops one-time Spot and instance-store instances, and terminated ones; StartInstances starts
    terminated ones and leaves LaunchTime; StateTransitionReason says UTC where EC2 says GMT.
  - TerminateInstances with one protected instance ends those named before it; EC2 spares that instance's zone.
  - CreateTags tags what does not exist.
  - Filters of DescribeInstances know no wildcards, nor client-token, instance-lifecycle and others.
  - DescribeVolumes and DescribeSnapshots ignore MaxResults and OwnerIds, match several values of a filter as a set, and
    take filters for any attribute (ebs_listing.py).
  - Volumes lack baseline IOPS, throughput, MultiAttachEnabled, an empty SnapshotId and DeleteOnTermination;
    CreateVolume takes any zone, size and numbers, pending snapshots and sizes below the snapshot's (ebs_corrections.py).
  - AttachVolume takes what is attached or elsewhere and an instance that does not run yet, DetachVolume wants an instance, and ModifyVolume has no
    limit and shrinks (volume_attachments.py).
  - Snapshots grow with their volume, RegisterImage does not hold its snapshots (ebs_corrections.py). CreateSnapshot answers `pending`; the snapshot is `completed` at once, until a test holds them.
  - Tags outlive their volume or snapshot, keys of AWS and any number and length are taken where resources are tagged or
    created with tags, and DeleteTags without tags deletes none (tag_corrections.py; RunInstances is not checked).
  - Tags of one resource are searched among those of all, which makes large accounts slow.
  - DescribeSpotPriceHistory answers 0.00001 USD of 2006 for everything (spot_prices.py).
  - Events reach a target without their account, and only with a package that is not installed here (event_corrections.py).
  - SNS counts no subscribers, takes e-mail subscriptions as confirmed, and suspends none for its rate (sns_corrections.py).
  - SES asks IAM about nothing; recorded calls of SendEmail name the ARNs that a role needs (ses_permissions.py).
  - Images without a root of their own have a root device of a type that EC2 does not have (machine_images.py).
  - Unknown credentials are those of a user that AWS does not have, and a bucket's policy has no conditions (identity_corrections.py).
  - S3 tells every caller that an object is absent, also one that may not list the bucket (absence_errors.py).
  - CloudWatch speaks no CBOR; metrics: see cloudwatch_metrics.py.
  - OwnerIds=self lists 1,301 foreign snapshots: the public AMIs that bring them are not loaded.
  - Concurrent calls race, conditional writes to S3 among them: calls are carried out one at a time.

What moto does not have, and this package does: placement groups (placement_groups.py), the Deep Learning AMIs and their public parameters (machine_images.py),
CloudFormation stacks and the roles that they make (stacks.py), ListServiceQuotas of EC2 (service_quotas.py), the Price List of EC2 (price_list.py),
Savings Plans and Reserved Instances (commitments.py), SageMaker and the tags and scalable targets of its resources (sagemaker.py), capacity
reservations and FSx file systems to look at (capacity_reservations.py, file_systems.py), associations of Systems Manager (ssm_associations.py),
IAM's policy simulator on the policies of moto's roles and users (policy_simulator.py).

What it does not correct: RunInstances launches MinCount, not MaxCount; launch templates lose their shutdown behaviour
and metadata options; terminating an instance of a persistent Spot request does not relaunch it; AMI ids, instance types
and zones are not checked; DescribeInstanceTypes knows every type in every region; a volume is
attached to one instance even with Multi-Attach; CreateImage photographs a volume of its own making; completing a
multipart upload answers no checksum; IAM does not enforce conditions; nothing
launches in a capacity reservation; states change at once (`set_instance(state="pending")` shows the ones between).
"""

from .client import LocalAws, LocalAwsError
from .server import check_calls, running

__all__ = ["LocalAws", "LocalAwsError", "check_calls", "running"]
