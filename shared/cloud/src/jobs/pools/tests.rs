use execution::jobs::AnswerCache;
use jobs::{CapacityPool, GpuSpec, JobTerms, MachineSpec};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, page_of};

/// A type that is sold on demand and on Spot; `gpus` is the inside of `gpuInfo.gpus`.
fn kind_xml(name: &str, architecture: &str, gpus: &str, more: &str) -> String {
    let classes = if more.contains("supportedUsageClasses") {
        ""
    } else {
        "<supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>"
    };
    format!(
        "<item><instanceType>{name}</instanceType>{classes}<processorInfo><supportedArchitectures><item>{architecture}</item>\
         </supportedArchitectures></processorInfo><gpuInfo><gpus>{gpus}</gpus></gpuInfo>{more}</item>"
    )
}

fn gpu_xml(maker: &str, count: u32, mib: u32) -> String {
    let memory = format!("<memoryInfo><sizeInMiB>{mib}</sizeInMiB></memoryInfo>");
    format!("<item><name>A10G</name><manufacturer>{maker}</manufacturer><count>{count}</count>{memory}</item>")
}

fn g5() -> String {
    kind_xml("g5.xlarge", "x86_64", &gpu_xml("NVIDIA", 1, 22888), "")
}

fn subnet_xml(id: &str, zone: &str, free: u32, state: &str) -> String {
    format!(
        "<item><subnetId>{id}</subnetId><availabilityZone>{zone}</availabilityZone>\
         <availableIpAddressCount>{free}</availableIpAddressCount><state>{state}</state></item>"
    )
}

fn offer_xml(name: &str, zone: &str) -> String {
    format!(
        "<item><instanceType>{name}</instanceType><locationType>availability-zone</locationType><location>{zone}</location></item>"
    )
}

/// An account of EC2.
#[derive(Clone, Default)]
struct Account {
    kinds: Vec<String>,
    offers: Vec<String>,
    subnets: Vec<String>,
    no_wildcards: bool,
}

impl Account {
    fn usual() -> Self {
        Self {
            kinds: vec![g5()],
            offers: vec![offer_xml("g5.xlarge", "us-east-1a")],
            subnets: vec![subnet_xml("subnet-a", "us-east-1a", 100, "available")],
            no_wildcards: false,
        }
    }

    fn answer(&self, call: &ReplayedCall) -> ReplayAnswer {
        let matches_nothing = self.no_wildcards && call.parameters.iter().any(|one| one.ends_with('*'));
        match call.name.as_str() {
            "DescribeInstanceTypes" if matches_nothing => page_of("instanceTypeSet", &[], None),
            "DescribeInstanceTypes" => page_of("instanceTypeSet", &self.kinds, None),
            "DescribeInstanceTypeOfferings" => page_of("instanceTypeOfferingSet", &self.offers, None),
            "DescribeSubnets" => page_of("subnetSet", &self.subnets, None),
            other => panic!("{other} was not expected"),
        }
    }
}

fn terms(types: &[&str], machine: MachineSpec) -> JobTerms {
    let types = types.iter().map(|name| TypeName::from(*name)).collect();
    JobTerms {
        tags: BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types },
        network: None,
        spot: None,
        max_runtime_seconds: 3600,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine,
    }
}

async fn asked(account: Account, terms: JobTerms) -> (Result<Vec<CapacityPool>, CallError>, ReplayedCalls) {
    let (aws, calls) = aws(move |call| account.answer(call));
    (AnswerCache::default().pools(&aws, &"us-east-1".into(), &terms).await, calls)
}

/// The pools as `type zone subnet architecture gpus×MiB spot`.
async fn check(account: Account, terms: JobTerms, expect: &[&str]) -> ReplayedCalls {
    let (pools, calls) = asked(account, terms).await;
    let said = |pool: CapacityPool| {
        assert_eq!(pool.gpu_name, "A10G");
        let CapacityPool { zone, subnet, instance_type, architecture, gpus, gpu_memory_mib, spot, .. } = pool;
        let spot = if spot { " spot" } else { "" };
        format!("{instance_type} {zone} {subnet} {architecture} {gpus}x{gpu_memory_mib}{spot}")
    };
    assert_eq!(pools.unwrap().into_iter().map(said).collect::<Vec<_>>(), expect);
    calls
}

#[tokio::test]
async fn three_calls_find_every_pool() {
    let account = Account {
        kinds: vec![g5(), kind_xml("g5g.xlarge", "arm64", &gpu_xml("NVIDIA", 1, 16384), "")],
        offers: vec![
            offer_xml("g5g.xlarge", "us-east-1b"),
            offer_xml("g5.xlarge", "us-east-1b"),
            offer_xml("g5.xlarge", "us-east-1a"),
            offer_xml("g5.xlarge", "us-east-1e"),
        ],
        subnets: vec![
            subnet_xml("subnet-a", "us-east-1a", 100, "available"),
            subnet_xml("subnet-b", "us-east-1b", 100, "available"),
        ],
        ..Account::default()
    };
    let expect = [
        "g5.xlarge us-east-1a subnet-a x86_64 1x22888 spot",
        "g5.xlarge us-east-1b subnet-b x86_64 1x22888 spot",
        "g5g.xlarge us-east-1b subnet-b arm64 1x16384 spot",
    ];
    let calls = check(account, terms(&[], MachineSpec::default()), &expect).await;
    let mut said = calls.said();
    said.sort();
    let expect = [
        "DescribeInstanceTypeOfferings Filter.1.Name=instance-type Filter.1.Value.1=g5.xlarge Filter.1.Value.2=g5g.xlarge \
         LocationType=availability-zone MaxResults=1000",
        "DescribeInstanceTypes Filter.1.Name=instance-type Filter.1.Value.1=g* Filter.1.Value.2=p*",
        "DescribeSubnets Filter.1.Name=default-for-az Filter.1.Value.1=true MaxResults=1000",
    ];
    assert_eq!(said, expect);
}

#[tokio::test]
async fn only_the_named_types_and_subnets_are_asked_for() {
    let machine = MachineSpec { subnets: vec!["subnet-a".into(), "subnet-z".into()], ..MachineSpec::default() };
    let expect = ["g5.xlarge us-east-1a subnet-a x86_64 1x22888 spot"];
    let calls = check(Account::usual(), terms(&["g5.xlarge", "g9.huge"], machine), &expect).await;
    let said = calls.said().concat();
    assert!(said.contains("Filter.1.Name=instance-type Filter.1.Value.1=g5.xlarge Filter.1.Value.2=g9.huge"), "{said}");
    assert!(said.contains("Filter.1.Name=subnet-id Filter.1.Value.1=subnet-a Filter.1.Value.2=subnet-z"), "{said}");
}

#[tokio::test]
async fn where_wildcards_match_nothing_all_types_are_asked_for() {
    let account = Account { no_wildcards: true, ..Account::usual() };
    let expect = ["g5.xlarge us-east-1a subnet-a x86_64 1x22888 spot"];
    let calls = check(account, terms(&[], MachineSpec::default()), &expect).await;
    assert_eq!(calls.recorded().len(), 4);
}

#[tokio::test]
async fn types_that_no_job_can_take_are_left_out() {
    let nvidia = gpu_xml("NVIDIA", 1, 22888);
    let part = "<item><manufacturer>NVIDIA</manufacturer><count>0</count><logicalGpuCount>1</logicalGpuCount>\
                <gpuPartitionSize>0.125</gpuPartitionSize><memoryInfo><sizeInMiB>2861</sizeInMiB></memoryInfo></item>";
    let blocks = "<supportedUsageClasses><item>capacity-block</item></supportedUsageClasses>";
    let without_spot = "<supportedUsageClasses><item>on-demand</item></supportedUsageClasses>";
    let kinds = vec![
        kind_xml("g4ad.xlarge", "x86_64", &gpu_xml("AMD", 1, 8192), ""),
        kind_xml("g6f.xlarge", "x86_64", part, ""),
        kind_xml("p6e-gb200.36xlarge", "arm64", &nvidia, blocks),
        kind_xml("g4dn.metal", "x86_64", &nvidia, "<bareMetal>true</bareMetal>"),
        kind_xml("g9mac.metal", "arm64_mac", &nvidia, ""),
        "<item><instanceType>p0.plain</instanceType></item>".to_owned(),
        kind_xml("p4d.24xlarge", "x86_64", &gpu_xml("NVIDIA", 8, 40960), without_spot),
    ];
    let names =
        ["g4ad.xlarge", "g6f.xlarge", "p6e-gb200.36xlarge", "g4dn.metal", "g9mac.metal", "p0.plain", "p4d.24xlarge"];
    let offers = names.iter().map(|name| offer_xml(name, "us-east-1a")).collect();
    let account = Account { kinds, offers, ..Account::usual() };
    let p4d = "p4d.24xlarge us-east-1a subnet-a x86_64 8x40960";
    check(account.clone(), terms(&[], MachineSpec::default()), &[p4d]).await;
    // Who names bare metal waits for it.
    let metal = "g4dn.metal us-east-1a subnet-a x86_64 1x22888 spot";
    check(account, terms(&names, MachineSpec::default()), &[metal, p4d]).await;
}

#[tokio::test]
async fn of_several_subnets_the_one_with_most_free_addresses_is_taken() {
    let mut account = Account::usual();
    account.subnets = vec![
        subnet_xml("subnet-1", "us-east-1a", 5, "available"),
        subnet_xml("subnet-3", "us-east-1a", 90, "available"),
        subnet_xml("subnet-2", "us-east-1a", 90, "available"),
        subnet_xml("subnet-4", "us-east-1a", 200, "pending"),
    ];
    let expect = ["g5.xlarge us-east-1a subnet-2 x86_64 1x22888 spot"];
    check(account.clone(), terms(&[], MachineSpec::default()), &expect).await;
    account.subnets.reverse();
    check(account, terms(&[], MachineSpec::default()), &expect).await;
}

#[tokio::test]
async fn a_region_without_a_subnet_says_so() {
    let without = || Account { subnets: Vec::new(), ..Account::usual() };
    let (none, _) = asked(without(), terms(&[], MachineSpec::default())).await;
    let said = none.unwrap_err().to_string();
    assert!(said.contains("us-east-1 has no default subnet; name some under `[machine] subnets`"), "{said}");
    let named = MachineSpec { subnets: vec!["subnet-z".into()], ..MachineSpec::default() };
    let (none, _) = asked(without(), terms(&[], named.clone())).await;
    assert!(none.unwrap_err().to_string().contains("none of the subnets under `[machine] subnets`: subnet-z"));
    // Of several regions each has its own.
    let two = MachineSpec { regions: vec!["us-east-1".into(), "eu-west-1".into()], ..named };
    assert_eq!(asked(without(), terms(&[], two)).await.0, Ok(Vec::new()));
}

#[tokio::test]
async fn a_type_that_no_zone_offers_is_no_pool_and_no_further_call() {
    let account = Account { kinds: Vec::new(), offers: Vec::new(), ..Account::usual() };
    let calls = check(account, terms(&["g9.huge"], MachineSpec::default()), &[]).await;
    assert_eq!(calls.recorded().len(), 2);
}

#[tokio::test]
async fn what_ec2_does_not_say_whole_is_an_error() {
    for refused in ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSubnets"] {
        let (aws, _) = aws(move |call| {
            if call.name == refused {
                ReplayAnswer::error("UnauthorizedOperation", "said")
            } else {
                Account::usual().answer(call)
            }
        });
        let error = AnswerCache::default()
            .pools(&aws, &"us-east-1".into(), &terms(&[], MachineSpec::default()))
            .await
            .unwrap_err();
        assert_eq!(error.call, format!("ec2:{refused}"));
        assert!(error.to_string().contains(&format!("grant ec2:{refused}")), "{error}");
    }
}

#[tokio::test]
async fn every_page_is_read() {
    let (aws, calls) = aws(|call| {
        let is_second = call.parameters.contains(&"NextToken=2".to_owned());
        match call.name.as_str() {
            "DescribeInstanceTypes" if is_second => page_of("instanceTypeSet", &[g5()], None),
            "DescribeInstanceTypes" => page_of("instanceTypeSet", &[], Some("2")),
            _ => Account::usual().answer(call),
        }
    });
    let pools =
        AnswerCache::default().pools(&aws, &"us-east-1".into(), &terms(&[], MachineSpec::default())).await.unwrap();
    assert_eq!((pools.len(), calls.recorded().len()), (1, 4));
}

#[tokio::test]
async fn the_jobs_of_a_run_ask_once_for_what_they_have_in_common() {
    let account = Account::usual();
    let (aws, calls) = aws(move |call| account.answer(call));
    let (asked, here) = (AnswerCache::default(), Region::from("us-east-1"));
    let elsewhere = MachineSpec { subnets: vec!["subnet-a".into()], ..MachineSpec::default() };
    let jobs = [
        terms(&["g5.xlarge", "g9.huge"], MachineSpec::default()),
        terms(&["g9.huge", "g5.xlarge"], MachineSpec::default()),
        terms(&["g5.xlarge", "g9.huge"], elsewhere),
    ];
    let all = futures::future::join_all(jobs.iter().map(|terms| asked.pools(&aws, &here, terms))).await;
    assert!(all.iter().all(|pools| *pools == all[0] && pools.as_ref().unwrap().len() == 1));
    let mut names = calls.names();
    names.sort();
    let once = ["DescribeInstanceTypeOfferings", "DescribeInstanceTypes", "DescribeSubnets", "DescribeSubnets"];
    assert_eq!(names, once);
}

#[tokio::test]
async fn a_refusal_counts_for_all_jobs_of_a_run() {
    let (aws, calls) = aws(|_| ReplayAnswer::error("UnauthorizedOperation", "said"));
    let (asked, here, terms) = (AnswerCache::default(), Region::from("us-east-1"), terms(&[], MachineSpec::default()));
    let first = asked.pools(&aws, &here, &terms).await.unwrap_err();
    let so_many = calls.recorded().len();
    assert_eq!(asked.pools(&aws, &here, &terms).await, Err(first));
    assert_eq!(calls.recorded().len(), so_many);
}

#[tokio::test]
async fn network_cards_and_subnets_are_read() {
    let card = |index: u32, kinds: &str| {
        format!(
            "<item><networkCardIndex>{index}</networkCardIndex><maximumNetworkInterfaces>2</maximumNetworkInterfaces>\
             <interfaceTypeSet>{kinds}</interfaceTypeSet></item>"
        )
    };
    let network = format!(
        "<networkInfo><efaSupported>true</efaSupported><efaInfo><maximumEfaInterfaces>1</maximumEfaInterfaces></efaInfo>\
         <networkCards>{}{}</networkCards></networkInfo>",
        card(1, "<item>interface</item><item>efa</item><item>efa-only</item>"),
        card(0, "<item>interface</item>")
    );
    let subnet = "<item><subnetId>subnet-a</subnetId><availabilityZone>us-east-1a</availabilityZone><vpcId>vpc-1</vpcId>\
                  <mapPublicIpOnLaunch>false</mapPublicIpOnLaunch><state>available</state></item>";
    let account = Account {
        kinds: vec![kind_xml("g5.xlarge", "x86_64", &gpu_xml("NVIDIA", 1, 22888), &network)],
        subnets: vec![subnet.to_owned()],
        ..Account::usual()
    };
    let (pools, _) = asked(account, terms(&[], MachineSpec::default())).await;
    let found = pools.unwrap().swap_remove(0).network;
    let card = |index, has_efa| NetworkCard { index, interfaces_max: 2, has_efa, has_efa_only: has_efa };
    assert_eq!(found.cards, NetworkCards { cards: vec![card(0, false), card(1, true)], efas_max: 1 });
    assert_eq!((found.are_addresses_public, found.vpc), (Some(false), Some("vpc-1".into())));
    let (pools, _) = asked(Account::usual(), terms(&[], MachineSpec::default())).await;
    assert_eq!(pools.unwrap()[0].network, jobs::PoolNetwork::default());
}
