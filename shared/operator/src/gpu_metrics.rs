//! `curfew metrics`: the `CloudWatch` agent on GPU machines by Systems Manager, its cost before it is there, and what reports by now.

use std::collections::BTreeSet;

use model::config::{MetricsConfig, SeriesNames};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance, InstanceState};
use model::money::Amount;
use model::usage::DeviceReport;
use reaping::instances::describe_report;
use serde_json::{Value, json};

/// Parameter of the agent's configuration. `CloudWatchAgentServerPolicy` lets an instance read parameters whose name begins with
/// `AmazonCloudWatch-` (AWS managed policy reference).
pub const PARAMETER: &str = "AmazonCloudWatch-curfew-gpu";
/// Association that installs the agent.
pub const INSTALL_ASSOCIATION: &str = "curfew-gpu-metrics-agent";
/// Association that adds the configuration to the agent's own.
pub const CONFIGURE_ASSOCIATION: &str = "curfew-gpu-metrics-configuration";
pub const MANAGED_POLICIES: [&str; 2] = ["AmazonSSMManagedInstanceCore", "CloudWatchAgentServerPolicy"];

/// Values of one target of an association (Systems Manager API reference, `Target`).
pub const TARGETS_MAX: usize = 50;

/// Prices of a custom metric a month, in micro-USD, with the number of metrics at each (Amazon `CloudWatch` pricing, us-east-1, 2026-11).
const TIERS: [(u64, u64); 4] = [(10_000, 300_000), (240_000, 100_000), (750_000, 50_000), (u64::MAX, 20_000)];

/// Instances of one region that get the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentTargets {
    /// Those that carry this tag, now or later.
    Tag {
        key: String,
        values: Vec<String>,
    },
    Instances(Vec<ResourceId>),
}

/// Plan for one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlan {
    pub region: Region,
    pub targets: AgentTargets,
    /// The running NVIDIA machines among the targets.
    pub instances: Vec<(ResourceId, String)>,
    pub gpus: u64,
}

impl AgentTargets {
    /// Reads `Team=vision` or `Team=vision,speech`.
    ///
    /// # Errors
    /// If it has no key or no value, or more values than a target may have.
    pub fn parse_tag(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').unwrap_or_default();
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err("write KEY=VALUE, or KEY=VALUE,VALUE".to_owned());
        }
        if values.len() > TARGETS_MAX {
            return Err(format!("name {TARGETS_MAX} values at most"));
        }
        Ok(Self::Tag { key: key.trim().to_owned(), values })
    }

    fn includes(&self, instance: &Instance) -> bool {
        match self {
            Self::Tag { key, values } => instance.tags.get(key).is_some_and(|value| values.contains(value)),
            Self::Instances(ids) => ids.contains(&instance.id),
        }
    }

    /// `Targets` of an association.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Tag { key, values } => json!([{ "Key": format!("tag:{key}"), "Values": values }]),
            Self::Instances(ids) => {
                let ids: Vec<&str> = ids.iter().map(ResourceId::as_str).collect();
                json!([{ "Key": "InstanceIds", "Values": ids }])
            }
        }
    }
}

/// True for a running machine on which the agent can read its GPUs.
#[must_use]
pub fn takes_agent(instance: &Instance) -> bool {
    instance.state == InstanceState::Running && instance.machine.accelerator == Accelerator::Nvidia
}

impl AgentPlan {
    /// The plan for a region: the machines with this tag, or the named ones. `None` if no machine that runs is among them.
    ///
    /// # Errors
    /// If more instances are named than an association takes.
    pub fn new(region: &Region, targets: AgentTargets, seen: &[Instance]) -> Result<Option<Self>, String> {
        if let AgentTargets::Instances(ids) = &targets
            && ids.len() > TARGETS_MAX
        {
            return Err(format!(
                "{} instances of {region} do not report, and an association takes {TARGETS_MAX}: choose them by --tag KEY=VALUE",
                ids.len()
            ));
        }
        let included: Vec<&Instance> = seen
            .iter()
            .filter(|instance| instance.region == *region && takes_agent(instance) && targets.includes(instance))
            .collect();
        if included.is_empty() {
            return Ok(None);
        }
        let gpus = included.iter().map(|instance| u64::from(instance.machine.accelerators)).sum();
        let instances = included.iter().map(|one| (one.id.clone(), one.instance_type.to_string())).collect();
        Ok(Some(Self { region: region.clone(), targets, instances, gpus }))
    }
}

/// The agent's configuration (`CloudWatch` user guide, "Collect NVIDIA GPU metrics"): utilisation, and the memory that is held unless it is left
/// out. `append_dimensions` is of the whole section: elsewhere the agent puts in no id.
#[must_use]
pub fn agent_configuration(utilisation_only: bool) -> String {
    let measurement: &[&str] =
        if utilisation_only { &["utilization_gpu"] } else { &["utilization_gpu", "memory_used"] };
    let document = json!({ "metrics": {
        "append_dimensions": { "InstanceId": "${aws:InstanceId}" },
        "metrics_collected": { "nvidia_gpu": { "measurement": measurement, "metrics_collection_interval": 60 } },
    } });
    format!("{document:#}")
}

/// Cost of the metrics of so many GPUs for a month, if the account has no other custom metric.
#[must_use]
pub fn monthly_cost(gpus: u64, utilisation_only: bool) -> Amount {
    let mut metrics = gpus.saturating_mul(if utilisation_only { 1 } else { 2 });
    let mut usd_micros = 0_u64;
    for (count, price) in TIERS {
        let tier = metrics.min(count);
        usd_micros = usd_micros.saturating_add(tier.saturating_mul(price));
        metrics = metrics.saturating_sub(tier);
    }
    Amount::from_usd_micros(usd_micros)
}

/// Announces what `metrics install` is about to do, for people: first the cost.
#[must_use]
pub fn describe_install(plans: &[AgentPlan], utilisation_only: bool, partition: &str) -> Vec<String> {
    let gpus = plans.iter().map(|plan| plan.gpus).fold(0_u64, u64::saturating_add);
    let cost = monthly_cost(gpus, utilisation_only);
    let what = if utilisation_only { "utilisation" } else { "utilisation and held memory" };
    let mut lines =
        vec![format!("It costs {cost} a month: {what} of {gpus} GPUs, each a custom metric of CloudWatch.")];
    if !utilisation_only {
        let half = monthly_cost(gpus, true);
        lines.push(format!(
            "With --utilisation-only it costs {half}; then Curfew does not see that a notebook or a waiting server holds memory."
        ));
    }
    for AgentPlan { region, targets, instances, .. } in plans {
        let whom = match targets {
            AgentTargets::Tag { key, values } => {
                format!("every instance with {key} = {}, now {} with NVIDIA GPUs", values.join(" or "), instances.len())
            }
            AgentTargets::Instances(_) => {
                instances.iter().map(|(id, kind)| format!("{id} ({kind})")).collect::<Vec<_>>().join(", ")
            }
        };
        lines.push(format!("{region}: Systems Manager installs the CloudWatch agent on {whom}."));
    }
    lines.push(format!(
        "It writes the parameter {PARAMETER} and the associations {INSTALL_ASSOCIATION} and {CONFIGURE_ASSOCIATION}; an agent that is there \
         already keeps its configuration, and gets this one besides."
    ));
    lines.push("The role of each instance needs two policies, which this command does not attach:".to_owned());
    lines.extend(MANAGED_POLICIES.map(|policy| {
        format!("  aws iam attach-role-policy --role-name ROLE --policy-arn arn:{partition}:iam::aws:policy/{policy}")
    }));
    lines
}

/// The sources that report of one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSources<'a> {
    pub instance: &'a Instance,
    /// `None` where no metric is configured for its kind.
    pub utilization: Option<DeviceReport>,
    /// Devices whose held memory reports.
    pub memory: BTreeSet<String>,
    /// GPUs whose power EC2 publishes.
    pub power: BTreeSet<String>,
}

impl MetricSources<'_> {
    /// True if Curfew can judge it for idleness by utilisation.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.utilization.as_ref().is_some_and(DeviceReport::is_full)
    }

    /// `utilisation of 8 of 8 (0, 1, …), memory of 8, power of none`.
    #[must_use]
    pub fn describe(&self) -> String {
        let devices = self.instance.machine.accelerators;
        let reporting = self.utilization.as_ref().map(|report| &report.reporting);
        let of = |names: Option<&BTreeSet<String>>| {
            let names: Vec<&str> =
                names.into_iter().flatten().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let count = names.len();
            let shown = names.into_iter().take(16).map(reaping::instances::quote_device).collect::<Vec<_>>().join(", ");
            if shown.is_empty() { format!("{count} of {devices}") } else { format!("{count} of {devices} ({shown})") }
        };
        format!("utilisation {}, memory {}, power {}", of(reporting), of(Some(&self.memory)), of(Some(&self.power)))
    }

    /// Remedy for what does not report.
    #[must_use]
    pub fn advice(&self, metrics: &MetricsConfig) -> Option<String> {
        if self.is_full() {
            let names = metrics.series_names(self.instance.machine.accelerator)?;
            return (self.memory.is_empty() && !names.memory_used_mib.is_empty()).then(|| {
                format!("no held memory reports ({}): a notebook that waits looks idle", names.memory_used_mib)
            });
        }
        let [_, advice] = match &self.utilization {
            Some(report) => describe_report(report, self.instance, metrics),
            None => [String::new(), "no metric is configured for its kind of accelerator ([metrics])".to_owned()],
        };
        Some(advice)
    }
}

/// The names under which held memory reports, as those of a utilisation; `None` without such a metric.
#[must_use]
pub fn memory_names(names: &SeriesNames) -> Option<SeriesNames> {
    let metric = names.memory_used_mib.clone();
    (!metric.is_empty()).then(|| SeriesNames { utilization: metric, ..names.clone() })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(read(true)["metrics"]["append_dimensions"]["InstanceId"], "${aws:InstanceId}");
    }

    #[test]
    fn the_plan_names_the_cost_first_and_whom_it_is_about() {
        let (one, other) = (instance().id("i-1").build(), instance().id("i-2").tag("Team", "speech").build());
        let seen = [one, other, instance().id("i-3").accelerators(Accelerator::Neuron, 1).build()];
        let region = Region::from("us-east-1");
        let tag = AgentTargets::parse_tag("Team=vision").unwrap();
        let plan = AgentPlan::new(&region, tag, &seen).unwrap().unwrap();
        assert_eq!((plan.instances.len(), plan.gpus), (1, 1));
        let lines = describe_install(&[plan], false, "aws-cn");
        assert!(lines[0].starts_with("It costs $0.60 a month"), "{lines:?}");
        assert!(lines[1].contains("$0.30"), "{lines:?}");
        assert!(lines[2].contains("every instance with Team = vision, now 1"), "{lines:?}");
        assert!(lines.last().unwrap().ends_with("arn:aws-cn:iam::aws:policy/CloudWatchAgentServerPolicy"), "{lines:?}");
        let nobody = AgentTargets::parse_tag("Team=nobody").unwrap();
        assert_eq!(AgentPlan::new(&region, nobody, &seen).unwrap(), None);
        let many = AgentTargets::Instances((0..51).map(|number| format!("i-{number}").as_str().into()).collect());
        assert!(AgentPlan::new(&region, many, &seen).unwrap_err().contains("--tag"));
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
}
