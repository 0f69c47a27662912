"""The local AWS, where it would let a test of machines that are launched together pass for the wrong reason."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

NODES = 4
EFA_ON_EACH = [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface"}] + [
    {"NetworkCardIndex": card, "DeviceIndex": int(card == 0), "InterfaceType": "efa-only"} for card in range(4)
]


def launch(aws: LocalAws, token: str = "t", count: int = NODES, **more: Any) -> list[dict[str, Any]]:
    asked = {"ImageId": "ami-1", "InstanceType": "g6.12xlarge", "ClientToken": token, "MinCount": count, "MaxCount": count}
    return aws.client("ec2").run_instances(**asked, **more)["Instances"]


def of_token(aws: LocalAws, token: str = "t") -> list[dict[str, Any]]:
    filters = [{"Name": "client-token", "Values": [token]}]
    pages = aws.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [one for page in pages for one in page["Instances"]]


def indexes(instances: list[dict[str, Any]]) -> list[int]:
    return [one["AmiLaunchIndex"] for one in instances]


def subnet(aws: LocalAws, zone: str = "us-east-1a") -> str:
    found = aws.client("ec2").describe_subnets(Filters=[{"Name": "availability-zone", "Values": [zone]}])["Subnets"]
    return found[0]["SubnetId"]


def test_all_are_launched_or_none(aws: LocalAws) -> None:
    aws.client("iam").create_instance_profile(InstanceProfileName="job")
    aws.set_capacity(NODES - 1, zone="us-east-1a")
    aws.set_quota("L-DB2E81BA", NODES * 48 - 1, enforced=True)
    with pytest.raises(ClientError, match="VcpuLimitExceeded"):
        launch(aws)
    aws.set_quota("L-DB2E81BA", NODES * 48, enforced=True)
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        launch(aws)
    assert aws.machines() == []
    aws.set_capacity(NODES, zone="us-east-1a")
    launched = launch(aws, IamInstanceProfile={"Name": "job"})
    assert sorted(indexes(launched)) == list(range(NODES))
    assert indexes(launched) not in (sorted(indexes(launched)), sorted(indexes(launched), reverse=True)), "no order to rely on"
    assert launch(aws, IamInstanceProfile={"Name": "job"}) == launched, "a token launches once"
    assert [one["InstanceId"] for one in of_token(aws)] == [one["InstanceId"] for one in launched]
    assert indexes(of_token(aws)) == indexes(launched)
    assert all(one["IamInstanceProfile"]["Arn"].endswith("/job") for one in of_token(aws))
    assert len({one["PrivateIpAddress"] for one in launched}) == NODES
    aws.set_quota("L-DB2E81BA", 10**6, enforced=True)
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        launch(aws, "u", count=1)
    assert [(call["instances_asked"], call["status"]) for call in aws.calls("ec2:RunInstances")][-2:] == [([NODES, NODES], 200), ([1, 1], 500)]


def test_a_placement_group_goes_after_its_last_instance(aws: LocalAws) -> None:
    ec2, name = aws.client("ec2"), "curfew-1"
    group = {"Placement": {"GroupName": name, "AvailabilityZone": "us-east-1a"}}
    with pytest.raises(ClientError, match="InvalidPlacementGroup.Unknown"):
        launch(aws, **group)
    tagged = [{"ResourceType": "placement-group", "Tags": [{"Key": "curfew:job", "Value": "vision/llama"}]}]
    made = ec2.create_placement_group(GroupName=name, Strategy="cluster", TagSpecifications=tagged)["PlacementGroup"]
    with pytest.raises(ClientError, match="InvalidPlacementGroup.Duplicate"):
        ec2.create_placement_group(GroupName=name, Strategy="cluster")
    instances = [one["InstanceId"] for one in launch(aws, count=2, **group)]
    assert all(one["Placement"]["GroupName"] == name for one in of_token(aws))
    with pytest.raises(ClientError, match="InvalidPlacementGroup.InUse.*another availability zone: us-east-1a"):
        launch(aws, "u", count=2, Placement={**group["Placement"], "AvailabilityZone": "us-east-1b"})
    aws.hold_ends()
    ec2.terminate_instances(InstanceIds=instances)
    for instance in instances:
        with pytest.raises(ClientError, match="InvalidPlacementGroup.InUse"):
            ec2.delete_placement_group(GroupName=name)
        aws.gone(instance)
    filters = [{"Name": "tag:curfew:job", "Values": ["vision/*"]}]
    assert ec2.describe_placement_groups(Filters=filters)["PlacementGroups"] == [made]
    ec2.delete_placement_group(GroupName=name)
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    with pytest.raises(ClientError, match="InvalidPlacementGroup.Unknown"):
        ec2.describe_placement_groups(GroupNames=[name])


def test_a_security_group_goes_after_its_last_instance(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    group = ec2.create_security_group(GroupName="gang", Description="of a job")["GroupId"]
    to_itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=to_itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=to_itself)
    with pytest.raises(ClientError, match="InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=to_itself)
    [found] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    for permissions in (found["IpPermissions"], found["IpPermissionsEgress"]):
        assert group in [pair["GroupId"] for one in permissions for pair in one["UserIdGroupPairs"]]
    interface = {"DeviceIndex": 0, "InterfaceType": "efa", "SubnetId": subnet(aws), "Groups": [group]}
    instances = [one["InstanceId"] for one in launch(aws, count=2, NetworkInterfaces=[interface])]
    assert [[one["GroupId"] for one in each["SecurityGroups"]] for each in of_token(aws)] == [[group], [group]]
    for instance in instances:
        with pytest.raises(ClientError, match="DependencyViolation"):
            ec2.delete_security_group(GroupId=group)
        ec2.terminate_instances(InstanceIds=[instance])
    ec2.delete_security_group(GroupId=group)


def test_interfaces_have_their_cards(aws: LocalAws) -> None:
    ec2, group = aws.client("ec2"), aws.client("ec2").create_security_group(GroupName="gang", Description="x")["GroupId"]
    place = {"SubnetId": subnet(aws), "Groups": [group], "DeleteOnTermination": True}
    several = [{**one, **place} for one in EFA_ON_EACH]
    asked = {"ImageId": "ami-1", "InstanceType": "p4d.24xlarge", "MinCount": 2, "MaxCount": 2, "ClientToken": "t"}
    launched = ec2.run_instances(**asked, NetworkInterfaces=several)["Instances"]
    for instance in launched:
        layout = [
            (one["Attachment"]["NetworkCardIndex"], one["Attachment"]["DeviceIndex"], one["InterfaceType"], "PrivateIpAddress" in one)
            for one in instance["NetworkInterfaces"]
        ]
        assert layout == [(0, 0, "interface", True), (0, 1, "efa-only", False), *((card, 0, "efa-only", False) for card in (1, 2, 3))]
        assert "PublicIpAddress" not in instance, "EC2 gives a public address to a machine with one interface alone"
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in launched])
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    ec2.delete_security_group(GroupId=group)


@pytest.mark.parametrize(
    ("interfaces", "more", "error"),
    [
        ([{"DeviceIndex": 0}], {"SubnetId": "subnet-1"}, "InvalidParameterCombination.*subnet ID"),
        ([{"DeviceIndex": 0}], {"SecurityGroupIds": ["default"]}, "InvalidParameterCombination.*security groups"),
        ([{"DeviceIndex": 0, "AssociatePublicIpAddress": True}, {"DeviceIndex": 1}], {}, "InvalidParameterCombination.*multiple"),
        ([{"DeviceIndex": 0, "InterfaceType": "efa-only"}], {}, "InvalidParameterValue.*primary"),
        ([{"DeviceIndex": 1}], {}, "InvalidParameterValue.*device 0 of card 0"),
        ([{"DeviceIndex": 0}, {"DeviceIndex": 0, "NetworkCardIndex": 1}], {}, "InvalidParameterValue.*card 1"),
        ([{"DeviceIndex": 0, "Groups": ["sg-00000000000000000"]}], {}, "InvalidGroup.NotFound"),
        ([{"DeviceIndex": number, "InterfaceType": "efa"} for number in (0, 1)], {}, "InvalidParameterValue.*fewer than 2"),
    ],
)
def test_ec2_refuses_wrong_interfaces(aws: LocalAws, interfaces: list[dict[str, Any]], more: dict[str, Any], error: str) -> None:
    if "SecurityGroupIds" in more:
        more = {"SecurityGroupIds": [aws.client("ec2").create_security_group(GroupName="gang", Description="x")["GroupId"]]}
    with pytest.raises(ClientError, match=error):
        launch(aws, NetworkInterfaces=interfaces, **more)
    assert aws.machines() == []


def test_a_machine_with_one_interface_has_a_public_address_and_its_type_says_its_cards(aws: LocalAws) -> None:
    interface = {"DeviceIndex": 0, "InterfaceType": "efa", "SubnetId": subnet(aws)}
    assert all("PublicIpAddress" in one for one in launch(aws, count=2, NetworkInterfaces=[interface]))
    asked = {"InstanceTypes": ["g5.xlarge", "g6.12xlarge", "p4d.24xlarge", "p5.48xlarge"]}
    told = {one["InstanceType"]: one["NetworkInfo"] for one in aws.client("ec2").describe_instance_types(**asked)["InstanceTypes"]}
    efas = {name: info.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) for name, info in told.items()}
    assert efas == {"g5.xlarge": 0, "g6.12xlarge": 1, "p4d.24xlarge": 4, "p5.48xlarge": 32}
    for name, info in told.items():
        assert info["EfaSupported"] == (efas[name] > 0)
        assert [one["NetworkCardIndex"] for one in info["NetworkCards"]] == list(range(max(efas[name], 1)))
        assert all(("efa-only" in one["InterfaceTypes"]) == info["EfaSupported"] for one in info["NetworkCards"])
