use super::*;
use model::fixture::instance;

#[test]
fn the_cost_follows_the_tiers() {
    let check = |gpus: u64, utilisation_only: bool, expect: &str| {
        assert_eq!(monthly_cost(gpus, utilisation_only).to_string(), expect, "{gpus}");
    };
    check(8, false, "$4.80");
    check(8, true, "$2.40");
    check(0, false, "$0.00");
    check(8000, false, "$3,600.00");
    check(200_000, false, "$34,500.00");
    assert!(monthly_cost(u64::MAX, false) > Amount::ZERO);
}

#[test]
fn a_tag_has_a_key_and_values() {
    let tag = AgentTargets::parse_tag("Team=vision, speech").unwrap();
    assert_eq!(tag.to_json(), json!([{ "Key": "tag:Team", "Values": ["vision", "speech"] }]));
    for wrong in ["", "Team", "=vision", "Team=", "Team=a,,b"] {
        assert!(AgentTargets::parse_tag(wrong).is_err(), "{wrong}");
    }
    assert!(AgentTargets::parse_tag(&format!("Team={}", vec!["a"; 51].join(","))).is_err());
}

#[test]
fn the_configuration_is_what_the_agent_reads() {
    let read = |only: bool| serde_json::from_str::<Value>(&agent_configuration(only)).unwrap();
    let gpu = |document: &Value| document["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"].clone();
    assert_eq!(gpu(&read(false)), json!(["utilization_gpu", "memory_used"]));
    assert_eq!(gpu(&read(true)), json!(["utilization_gpu"]));
    let metrics = &read(true)["metrics"];
    assert_eq!(metrics["metrics_collected"]["nvidia_gpu"]["append_dimensions"]["InstanceId"], "${aws:InstanceId}");
    // A key beside `metrics_collected` would contradict the configurations of others.
    assert_eq!(metrics.as_object().unwrap().len(), 1);
    let commands = configure_commands(&agent_configuration(false));
    assert_eq!(commands.iter().filter(|line| line.contains('\'')).count(), 2, "{commands:?}");
    // Systems Manager replaces what is in two braces by a parameter.
    assert!(commands.iter().chain(&remove_commands()).all(|line| !line.contains("{{")), "{commands:?}");
}

#[test]
fn targets_are_added_to_those_that_are_installed() {
    let tag = |text: &str| AgentTargets::parse_tag(text).unwrap();
    let named = |ids: &[&str]| AgentTargets::Instances(ids.iter().map(|id| ResourceId::from(*id)).collect());
    let region = Region::from("us-east-1");
    let check = |more: AgentTargets, installed: AgentTargets, expect: Option<AgentTargets>| {
        let again = AgentTargets::from_json(&installed.to_json());
        assert_eq!(again.as_ref(), Some(&installed));
        assert_eq!(more.add_to(installed, &region).ok(), expect);
    };
    check(tag("Team=a,b"), tag("Team=b,c"), Some(tag("Team=b,c,a")));
    check(named(&["i-2"]), named(&["i-1"]), Some(named(&["i-1", "i-2"])));
    check(tag("Owner=a"), tag("Team=a"), None);
    check(named(&["i-1"]), tag("Team=a"), None);
    let error = tag("Team=a").add_to(named(&["i-1"]), &region).unwrap_err();
    assert!(error.contains("installed on i-1") && error.contains("uninstall --regions us-east-1"), "{error}");
    let values = |range: std::ops::Range<u32>| {
        tag(&format!("Team={}", range.map(|number| number.to_string()).collect::<Vec<_>>().join(",")))
    };
    assert!(values(0..30).add_to(values(20..51), &region).unwrap_err().contains("51 values"));
    for other in [json!([]), json!([{ "Key": "tag:a", "Values": ["b"] }, { "Key": "tag:c", "Values": ["d"] }])] {
        assert_eq!(AgentTargets::from_json(&other), None);
    }
    assert_eq!(AgentTargets::from_json(&json!([{ "Key": "resource-groups:Name", "Values": ["b"] }])), None);
}

#[test]
fn metrics_that_nothing_reads_are_refused() {
    assert_eq!(check_names(&MetricsConfig::default()), Ok(()));
    let names = SeriesNames { memory_used_mib: String::new(), ..SeriesNames::default() };
    assert_eq!(check_names(&MetricsConfig { nvidia: Some(names), ..MetricsConfig::default() }), Ok(()));
    let names = SeriesNames { namespace: "DCGM".to_owned(), ..SeriesNames::default() };
    let refused = check_names(&MetricsConfig { nvidia: Some(names), ..MetricsConfig::default() }).unwrap_err();
    assert!(refused.contains("of namespace DCGM"), "{refused}");
}

#[test]
fn the_plan_names_the_cost_first_and_whom_it_is_about() {
    let (one, other) = (instance().id("i-1").build(), instance().id("i-2").tag("Team", "speech").build());
    let seen = [one, other, instance().id("i-3").accelerators(Accelerator::Neuron, 1).build()];
    let region = Region::from("us-east-1");
    let tag = AgentTargets::parse_tag("Team=vision").unwrap();
    let plan = AgentPlan::new(&region, tag, &seen, Some(3)).unwrap();
    assert_eq!((plan.instances.len(), plan.gpus), (1, 1));
    let lines = describe_install(&[plan], false, "aws-cn");
    assert!(lines[0].starts_with("It costs $0.60 a month"), "{lines:?}");
    assert!(lines[1].contains("$0.30"), "{lines:?}");
    assert!(lines[2].contains("every instance with Team = vision, now 1 with NVIDIA GPUs, and 3 other"), "{lines:?}");
    assert!(lines.last().unwrap().ends_with("arn:aws-cn:iam::aws:policy/CloudWatchAgentServerPolicy"), "{lines:?}");
    let nobody = AgentTargets::parse_tag("Team=nobody").unwrap();
    assert_eq!(AgentPlan::new(&region, nobody, &seen, None).unwrap().gpus, 0);
    let many = AgentTargets::Instances((0..51).map(|number| format!("i-{number}").as_str().into()).collect());
    assert!(AgentPlan::new(&region, many, &seen, None).unwrap_err().contains("--tag"));
}

#[test]
fn sources_are_counted_and_what_lacks_is_said() {
    let instance = instance().accelerators(Accelerator::Nvidia, 2).build();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let sources = |reporting: &[&str], memory: &[&str]| MetricSources {
        instance: &instance,
        utilization: Some(DeviceReport { devices: 2, reporting: names(reporting), ..DeviceReport::default() }),
        memory: names(memory),
        power: names(&["0"]),
    };
    let metrics = MetricsConfig::default();
    let full = sources(&["0", "1"], &["0", "1"]);
    assert_eq!(full.describe(), "utilisation 2 of 2 (0, 1), memory 2 of 2 (0, 1), power 1 of 2 (0)");
    assert_eq!((full.is_full(), full.advice(&metrics)), (true, None));
    assert!(sources(&["0", "1"], &[]).advice(&metrics).unwrap().contains("nvidia_smi_memory_used"));
    let half = sources(&["0"], &[]);
    assert!(!half.is_full() && half.advice(&metrics).unwrap().starts_with("GPU 1 does not report"));
}
