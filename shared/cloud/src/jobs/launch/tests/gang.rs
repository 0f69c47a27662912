use jobs::CandidateNetwork;
use jobs::efa::{InterfaceKind, NetworkInterface};

use super::*;

async fn launched_nodes(
    answer: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (LaunchResult, ReplayedCalls) {
    launched_in(CandidateNetwork::default(), answer).await
}

async fn launched_in(
    network: CandidateNetwork,
    answer: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (LaunchResult, ReplayedCalls) {
    let (aws, calls) = aws(answer);
    let (mut launch, mut terms) = (spot(), terms(MachineSpec::default()));
    terms.gpu.nodes = 2;
    terms.machine.security_groups = vec!["sg-1".into()];
    launch.candidate.network = Some(Box::new(network));
    let order = LaunchOrder { launch: &launch, terms: &terms, tags: &Tags::new(), user_data: "", profile: None };
    (AnswerCache::default().launch(&aws, &order).await, calls)
}

fn node(id: &str, index: u8) -> String {
    format!(
        "<item><instanceId>{id}</instanceId><amiLaunchIndex>{index}</amiLaunchIndex><launchTime>2026-09-01T12:00:00.000Z</launchTime></item>"
    )
}

#[tokio::test]
async fn all_machines_of_a_gang_are_one_request() {
    let (answered, calls) = launched_nodes(|_| answer(&(node("i-0123456b", 1) + &node("i-0123456a", 0)))).await;
    let launched_at = "2026-09-01T12:00:00Z".parse().unwrap();
    assert_eq!(
        answered,
        LaunchResult::Launched { instance: "i-0123456a".into(), members: vec!["i-0123456b".into()], launched_at }
    );
    let all = calls.recorded();
    assert_eq!(all.len(), 1);
    for parameter in ["MinCount=2", "MaxCount=2", "InstanceMarketOptions.SpotOptions.MaxPrice=0.503000"] {
        assert!(all[0].parameters.iter().any(|one| one == parameter), "{parameter}: {all:?}");
    }
}

/// A retry may list only what is left of the first request.
#[tokio::test]
async fn the_rest_of_a_short_answer_is_found_by_the_token() {
    let found = |instances: &[String]| instances_page(instances, None);
    let indexed =
        |id, index: u8| instance_xml(id, "running", &[], &format!("<amiLaunchIndex>{index}</amiLaunchIndex>"));
    let all = [indexed("i-0123456b", 1), indexed("i-0123456a", 0)];
    let (answered, calls) = launched_nodes(move |call| match call.name.as_str() {
        "RunInstances" => answer(&node("i-0123456b", 1)),
        _ => found(&all),
    })
    .await;
    assert!(matches!(answered, LaunchResult::Launched { instance, .. } if instance.as_str() == "i-0123456a"));
    assert!(calls.said()[1].contains("Filter.1.Name=client-token Filter.1.Value.1=a-token"));
    let one = [instance_xml("i-0123456b", "running", &[], "<amiLaunchIndex>1</amiLaunchIndex>")];
    let (answered, _) = launched_nodes(move |call| match call.name.as_str() {
        "RunInstances" => answer(&node("i-0123456b", 1)),
        _ => instances_page(&one, None),
    })
    .await;
    assert_eq!(answered, LaunchResult::Incomplete(vec!["i-0123456b".into()]));
}

/// The parameters of the only launch that place it in the network.
fn network_of(calls: &ReplayedCalls) -> Vec<String> {
    let names = ["NetworkInterface", "Subnet", "SecurityGroup", "Placement"];
    let is_of_network = |parameter: &String| names.iter().any(|name| parameter.starts_with(name));
    let all = calls.recorded();
    assert_eq!(all.len(), 1);
    all[0].parameters.iter().filter(|one| is_of_network(one)).cloned().collect()
}

/// Beside the interfaces EC2 takes neither a subnet nor groups.
#[tokio::test]
async fn subnet_and_groups_go_into_each_interface() {
    let interface = |card, device, kind| NetworkInterface { card, device, kind };
    let interfaces = vec![interface(0, 0, InterfaceKind::Interface), interface(1, 0, InterfaceKind::EfaOnly)];
    let network = CandidateNetwork { interfaces, ..CandidateNetwork::default() };
    let (_, calls) = launched_in(network, |_| answer(&(node("i-0123456b", 1) + &node("i-0123456a", 0)))).await;
    let expect = [
        "NetworkInterface.1.DeleteOnTermination=true",
        "NetworkInterface.1.DeviceIndex=0",
        "NetworkInterface.1.InterfaceType=interface",
        "NetworkInterface.1.NetworkCardIndex=0",
        "NetworkInterface.1.SecurityGroupId.1=sg-1",
        "NetworkInterface.1.SubnetId=subnet-0b",
        "NetworkInterface.2.DeleteOnTermination=true",
        "NetworkInterface.2.DeviceIndex=0",
        "NetworkInterface.2.InterfaceType=efa-only",
        "NetworkInterface.2.NetworkCardIndex=1",
        "NetworkInterface.2.SecurityGroupId.1=sg-1",
        "NetworkInterface.2.SubnetId=subnet-0b",
    ];
    assert_eq!(network_of(&calls), expect);
    let (_, calls) = launched_nodes(|_| answer(&(node("i-0123456b", 1) + &node("i-0123456a", 0)))).await;
    let expect = ["SecurityGroupId.1=sg-1", "SubnetId=subnet-0b"];
    assert_eq!(network_of(&calls), expect);
}

#[tokio::test]
async fn groups_of_a_gang_are_in_its_request() {
    let network = CandidateNetwork {
        security_groups: vec!["sg-1".into(), "sg-9".into()],
        group: Some("sg-9".into()),
        ..CandidateNetwork::default()
    };
    let (_, calls) = launched_in(network.clone(), |_| answer(&(node("i-0123456b", 1) + &node("i-0123456a", 0)))).await;
    let expect = ["SecurityGroupId.1=sg-1", "SecurityGroupId.2=sg-9", "SubnetId=subnet-0b"];
    assert_eq!(network_of(&calls), expect);
    // EC2 may not know yet what was made a moment ago. Another missing group is the job's own fault.
    for (missing, is_own) in [("sg-9", true), ("sg-1", false)] {
        let message = format!("The security group '{missing}' does not exist");
        let (answered, _) =
            launched_in(network.clone(), move |_| ReplayAnswer::error("InvalidGroup.NotFound", &message)).await;
        assert_eq!(matches!(answered, LaunchResult::NoCapacity(_)), is_own, "{answered:?}");
        assert_eq!(matches!(answered, LaunchResult::Refused(_)), !is_own, "{answered:?}");
    }
}

#[tokio::test]
async fn a_placement_group_that_ec2_does_not_know_yet_is_asked_for_again() {
    let (aws, calls) = aws(|_| ReplayAnswer::error("InvalidPlacementGroup.Unknown", "said"));
    let (launch, mut terms) = (spot(), terms(MachineSpec::default()));
    terms.gpu.nodes = 2;
    let launch = LaunchRequest { placement_group: Some("curfew-a-0123abcd-1".to_owned()), ..launch };
    let order = LaunchOrder { launch: &launch, terms: &terms, tags: &Tags::new(), user_data: "", profile: None };
    let answered = AnswerCache::default().launch(&aws, &order).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
    assert!(calls.said()[0].contains("Placement.GroupName=curfew-a-0123abcd-1"), "{:?}", calls.said());
}

#[cfg(feature = "operator")]
#[tokio::test]
async fn a_dry_run_asks_for_what_a_launch_needs_and_tells_what_is_refused() {
    let network = CandidateNetwork {
        vpc: Some("vpc-1".into()),
        is_clustered: true,
        interfaces: vec![NetworkInterface { card: 0, device: 0, kind: InterfaceKind::Efa }],
        ..CandidateNetwork::default()
    };
    let (aws, calls) = aws(|call| match call.name.as_str() {
        "CreatePlacementGroup" => ReplayAnswer::error("PlacementGroupLimitExceeded", "there are 500"),
        _ => ReplayAnswer::error_of(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."),
    });
    let (mut launch, mut terms) = (spot(), terms(MachineSpec::default()));
    terms.gpu.nodes = 2;
    launch.candidate.network = Some(Box::new(network));
    let order = LaunchOrder { launch: &launch, terms: &terms, tags: &Tags::new(), user_data: "", profile: None };
    let id = jobs::JobId { team: "vision".into(), job: "curfew-doctor-00000000".to_owned() };
    let job = jobs::Job::submitted(id, None, terms.clone(), launch.ends_at);
    let config = model::config::Config::default();
    let refused = crate::operator::dry_run_gang(&aws, &job, &order, &config).await;
    assert_eq!(refused.iter().map(|error| error.call).collect::<Vec<_>>(), ["ec2:CreatePlacementGroup"]);
    let all = calls.recorded();
    let names: Vec<_> = all.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["CreateSecurityGroup", "CreatePlacementGroup", "RunInstances"]);
    for call in &all {
        assert!(call.parameters.iter().any(|one| one == "DryRun=true"), "{call:?}");
    }
    for parameter in ["MinCount=2", "NetworkInterface.1.InterfaceType=efa"] {
        assert!(all[2].parameters.iter().any(|one| one == parameter), "{parameter}: {all:?}");
    }
}
