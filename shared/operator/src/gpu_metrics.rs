//! `curfew metrics`: the `CloudWatch` agent on GPU machines by Systems Manager, its cost before it is there, and what reports by now.
//!
//! The configuration is a file of its own beside those that the agent has, and sets nothing for the whole agent: the agent refuses two files with
//! different values of one setting (amazon-cloudwatch-agent, `mergeJsonUtil/util.go`). Where there is no `nvidia-smi`, an agent with an `nvidia_gpu`
//! section does not start (telegraf, `nvidia_smi.go`), so such a machine gets no configuration.

use std::collections::BTreeSet;

use model::config::{MetricsConfig, SeriesNames};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance, InstanceState};
use model::money::Amount;
use model::usage::DeviceReport;
use reaping::instances::describe_report;
use serde_json::{Value, json};

/// Association that installs the agent.
pub const INSTALL_ASSOCIATION: &str = "curfew-gpu-metrics-agent";
/// Association that adds the configuration to the agent's own.
pub const CONFIGURE_ASSOCIATION: &str = "curfew-gpu-metrics-configuration";
pub const MANAGED_POLICIES: [&str; 2] = ["AmazonSSMManagedInstanceCore", "CloudWatchAgentServerPolicy"];

/// Values of one target of an association (Systems Manager API reference, `Target`).
pub const TARGETS_MAX: usize = 50;

/// Name of the configuration's file. The agent keeps what it takes as `file_` and this name (amazon-cloudwatch-agent, `downloader.go`).
const FILE: &str = "curfew-gpu.json";
const AGENT: &str = "/opt/aws/amazon-cloudwatch-agent";

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
    /// Other running instances among the targets; `None` if their number is unknown.
    pub others: Option<usize>,
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

    /// Reads `Targets` of an association; `None` if they are none that `curfew metrics install` writes.
    #[must_use]
    pub fn from_json(targets: &Value) -> Option<Self> {
        let [target] = targets.as_array()?.as_slice() else { return None };
        let values = target["Values"].as_array()?.iter().map(Value::as_str);
        let values: Vec<&str> = values.collect::<Option<_>>()?;
        match target["Key"].as_str()? {
            "InstanceIds" => Some(Self::Instances(values.into_iter().map(ResourceId::from).collect())),
            key => {
                let key = key.strip_prefix("tag:")?.to_owned();
                Some(Self::Tag { key, values: values.into_iter().map(str::to_owned).collect() })
            }
        }
    }

    /// Adds these targets to those that an association of the region has. Several targets of an association narrow each other (Systems Manager API
    /// reference, `Target`), so only values of one tag, or instances, can be added.
    ///
    /// # Errors
    /// If they cannot be added, or are too many.
    pub fn add_to(self, installed: Self, region: &Region) -> Result<Self, String> {
        let sum = match (installed, self) {
            (Self::Tag { key, values }, Self::Tag { key: other, values: more }) if key == other => {
                Self::Tag { key, values: union(values, more) }
            }
            (Self::Instances(ids), Self::Instances(more)) => Self::Instances(union(ids, more)),
            (installed, more) => {
                return Err(format!(
                    "{region}: it is installed on {}, to which {} cannot be added; name values of the same tag, or begin anew: curfew metrics \
                     uninstall --regions {region}",
                    installed.describe(),
                    more.describe()
                ));
            }
        };
        match &sum {
            Self::Tag { values, .. } if values.len() > TARGETS_MAX => Err(format!(
                "{region}: {} values of the tag are more than the {TARGETS_MAX} that an association takes; choose another tag",
                values.len()
            )),
            _ => Ok(sum),
        }
    }

    /// `Team = vision or speech`, or the ids.
    fn describe(&self) -> String {
        match self {
            Self::Tag { key, values } => format!("every instance with {key} = {}", values.join(" or ")),
            Self::Instances(ids) if ids.is_empty() => "no instance".to_owned(),
            Self::Instances(ids) => ids.iter().map(ResourceId::as_str).collect::<Vec<_>>().join(", "),
        }
    }

    /// The targets without instances that are gone: they only take places of those that an association has.
    #[must_use]
    pub fn without_gone(self, is_there: impl Fn(&ResourceId) -> bool) -> Self {
        match self {
            Self::Instances(ids) => Self::Instances(ids.into_iter().filter(is_there).collect()),
            tag @ Self::Tag { .. } => tag,
        }
    }

    /// True if the instance is among them.
    #[must_use]
    pub fn includes(&self, instance: &Instance) -> bool {
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

fn union<T: PartialEq>(mut all: Vec<T>, more: Vec<T>) -> Vec<T> {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// True for a running machine on which the agent can read its GPUs.
#[must_use]
pub fn takes_agent(instance: &Instance) -> bool {
    instance.state == InstanceState::Running && instance.machine.accelerator == Accelerator::Nvidia
}

impl AgentPlan {
    /// The plan for a region: the machines with this tag, or the named ones.
    ///
    /// # Errors
    /// If more instances are named than an association takes.
    pub fn new(
        region: &Region,
        targets: AgentTargets,
        seen: &[Instance],
        others: Option<usize>,
    ) -> Result<Self, String> {
        if let AgentTargets::Instances(ids) = &targets
            && ids.len() > TARGETS_MAX
        {
            return Err(format!(
                "{region}: an association takes {TARGETS_MAX} instances, and these are {}: choose them by --tag KEY=VALUE, after curfew metrics \
                 uninstall --regions {region} if instances are installed there",
                ids.len()
            ));
        }
        let included: Vec<&Instance> = seen
            .iter()
            .filter(|instance| instance.region == *region && takes_agent(instance) && targets.includes(instance))
            .collect();
        let gpus = included.iter().map(|instance| u64::from(instance.machine.accelerators)).sum();
        let instances = included.iter().map(|one| (one.id.clone(), one.instance_type.to_string())).collect();
        Ok(Self { region: region.clone(), targets, instances, gpus, others })
    }
}

/// Refuses to install metrics that this configuration does not read: they would only cost.
///
/// # Errors
/// If `[metrics.nvidia]` names others.
pub fn check_names(metrics: &MetricsConfig) -> Result<(), String> {
    let agent = SeriesNames::default();
    let Some(read) = metrics.series_names(Accelerator::Nvidia) else { return Ok(()) };
    let is_of_agent = |names: &SeriesNames| {
        (
            names.namespace.clone(),
            names.utilization.clone(),
            names.device_dimension.clone(),
            names.instance_dimension.clone(),
        )
    };
    if is_of_agent(read) == is_of_agent(&agent) {
        return Ok(());
    }
    Err(format!(
        "[metrics.nvidia] of the configuration reads {} by {} and {} of namespace {}, and the agent publishes {} by {} and {} of {}, which Curfew would \
         not read",
        read.utilization,
        read.instance_dimension,
        read.device_dimension,
        read.namespace,
        agent.utilization,
        agent.instance_dimension,
        agent.device_dimension,
        agent.namespace
    ))
}

/// The agent's configuration (`CloudWatch` user guide, "Collect NVIDIA GPU metrics"): utilisation, and the memory that is held unless it is left
/// out. The agent puts the id into `append_dimensions` of one section since 1.300061 of October 2025 (its `RELEASE_NOTES`); there it contradicts no
/// other configuration.
#[must_use]
pub fn agent_configuration(utilisation_only: bool) -> String {
    let measurement: &[&str] =
        if utilisation_only { &["utilization_gpu"] } else { &["utilization_gpu", "memory_used"] };
    json!({ "metrics": { "metrics_collected": { "nvidia_gpu": {
        "measurement": measurement,
        "metrics_collection_interval": 60,
        "append_dimensions": { "InstanceId": "${aws:InstanceId}" },
    } } } })
    .to_string()
}

/// Commands that add the configuration, for `AWS-RunShellScript`. They restart the agent only if it has another one.
#[must_use]
pub fn configure_commands(configuration: &str) -> Vec<String> {
    let script = format!(
        r#"set -eu
agent={AGENT}
ctl=$agent/bin/amazon-cloudwatch-agent-ctl
configuration='{configuration}'
command -v nvidia-smi >/dev/null || {{ echo "no nvidia-smi: this machine gets no configuration"; exit 0; }}
test -x "$ctl" || {{ echo "the CloudWatch agent is not installed yet: the next hour tries again"; exit 1; }}
if test "$(cat "$agent/etc/amazon-cloudwatch-agent.d/file_{FILE}" 2>/dev/null)" = "$configuration"; then exec "$ctl" -a start; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf %s "$configuration" >"$folder/{FILE}"
"$ctl" -a append-config -m ec2 -c "file:$folder/{FILE}" -s"#
    );
    script.lines().map(str::to_owned).collect()
}

/// Commands that take the configuration back. The program that would restart the agent applies its default configuration where none is left, which
/// publishes memory and disks (`amazon-cloudwatch-agent-ctl`, `agent_start`): the agent is stopped there, and restarted elsewhere if it runs.
#[must_use]
pub fn remove_commands() -> Vec<String> {
    let script = format!(
        r#"set -eu
agent={AGENT}
test -e "$agent/etc/amazon-cloudwatch-agent.d/file_{FILE}" || {{ echo "no configuration of Curfew"; exit 0; }}
"$agent/bin/amazon-cloudwatch-agent-ctl" -a remove-config -m ec2 -c file:{FILE}
if test -n "$(ls -A "$agent/etc/amazon-cloudwatch-agent.d")" || test -e "$agent/etc/amazon-cloudwatch-agent.json"; then
systemctl try-restart amazon-cloudwatch-agent
else
systemctl disable --now amazon-cloudwatch-agent
fi"#
    );
    script.lines().map(str::to_owned).collect()
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
    let mut lines = vec![format!(
        "It costs {cost} a month at the prices of us-east-1: {what} of the {gpus} GPUs that run now on the machines below, each a custom metric of \
         CloudWatch. GPUs that start later cost as much each."
    )];
    if !utilisation_only {
        let half = monthly_cost(gpus, true);
        lines.push(format!(
            "With --utilisation-only it costs {half}; then Curfew does not see that a notebook or a waiting server holds memory."
        ));
    }
    lines.extend(plans.iter().map(AgentPlan::describe));
    lines.push(format!(
        "The association {INSTALL_ASSOCIATION} installs the agent once a day, and so updates it when AWS has released another version; \
         {CONFIGURE_ASSOCIATION} runs a script as root each hour, on Linux alone, which adds Curfew's section where nvidia-smi is, and restarts the agent only \
         where that changes something."
    ));
    lines.push(
        "An agent that is there already keeps its configuration. Where that has another nvidia_gpu section the agent refuses Curfew's, and goes on as \
         before: State Manager shows it as a failure of the association."
            .to_owned(),
    );
    lines.push("The role of each instance needs two policies, which this command does not attach:".to_owned());
    lines.extend(MANAGED_POLICIES.map(|policy| {
        format!("  aws iam attach-role-policy --role-name ROLE --policy-arn arn:{partition}:iam::aws:policy/{policy}")
    }));
    lines
}

impl AgentPlan {
    fn describe(&self) -> String {
        let Self { region, targets, instances, others, .. } = self;
        let whom = match targets {
            AgentTargets::Tag { .. } => {
                let others = match others {
                    None => ", and on the others, whose number is unknown".to_owned(),
                    Some(0) => String::new(),
                    Some(others) => format!(", and {others} other, which get the agent without a configuration"),
                };
                format!("{}, now {} with NVIDIA GPUs{others}", targets.describe(), instances.len())
            }
            AgentTargets::Instances(_) => {
                instances.iter().map(|(id, kind)| format!("{id} ({kind})")).collect::<Vec<_>>().join(", ")
            }
        };
        format!("{region}: Systems Manager installs the CloudWatch agent on {whom}.")
    }
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
mod tests;
