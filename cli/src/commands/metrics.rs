//! `curfew metrics`: the metrics of GPUs, without which no instance is judged idle.

mod install;
mod uninstall;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, Subcommand};
use model::config::{Config, MetricsConfig};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance, InstanceState};
use model::observation::{Gap, Observation};
use model::usage::{device_of, power_device, power_names, reads_power};
use operator::gpu_metrics::{CONFIGURE_ASSOCIATION, MetricSources, memory_names};
use serde::Serialize;
use store::Documents as _;

use self::install::Install;
use self::uninstall::Remove;
use crate::command_error::{CommandError, describe_gap};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

const TIMEOUT: Duration = Duration::from_mins(1);

/// Install, check or remove the metrics of GPUs
#[derive(Debug, Subcommand)]
pub(crate) enum Metrics {
    Install(Install),
    Check(Check),
    Uninstall(Remove),
}

/// Show which metrics of each GPU machine report
///
/// Utilisation and held memory, by [metrics] of the configuration, and the power that EC2 itself publishes. It lists names of metrics, and asks
/// for no value.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every GPU reports its utilisation; 1 one does not; 2 something could not be seen.\n\n\
                        Example:\n  curfew metrics check i-0123456789abcdef0"
)]
pub(crate) struct Check {
    /// Only this instance
    #[arg(value_name = "INSTANCE")]
    instance: Option<String>,
    #[command(flatten)]
    regions: Regions,
}

#[derive(Debug, Args)]
struct Regions {
    /// Only these regions, comma-separated [default: those of the configuration, else every enabled one]
    #[arg(long, value_name = "REGIONS", value_delimiter = ',', value_parser = super::scan::region)]
    regions: Vec<Region>,
}

impl Metrics {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Install(install) => install.run(context).await,
            Self::Check(check) => check.run(context).await,
            Self::Uninstall(remove) => remove.run(context).await,
        }
    }
}

#[derive(Serialize)]
struct CheckOutput {
    instances: Vec<CheckedInstance>,
    gaps: Vec<String>,
}

#[derive(Serialize)]
struct CheckedInstance {
    region: Region,
    instance: ResourceId,
    instance_type: String,
    accelerators: u32,
    /// The names of the devices that report.
    utilization: Vec<String>,
    memory: Vec<String>,
    power: Vec<String>,
    is_full: bool,
    advice: Option<String>,
}

/// The configuration, and the GPU machines that run in these regions.
struct Fleet {
    config: Config,
    regions: Vec<Region>,
    instances: Vec<Instance>,
    /// Ids of all GPU machines, those that do not run as well.
    ids: BTreeSet<ResourceId>,
    gaps: Vec<Gap>,
}

impl Regions {
    async fn config(self, context: &CommandContext) -> Result<Config, CommandError> {
        let config = match context.deployed().await? {
            Some(deployed) => deployed.store.read_config().await?,
            None => Config::default(),
        };
        Ok(if self.regions.is_empty() { config } else { Config { regions: self.regions, ..config } })
    }

    async fn fleet(self, context: &CommandContext) -> Result<Fleet, CommandError> {
        let config = self.config(context).await?;
        let Observation { items: regions, mut gaps } = cloud::regions(&context.aws, &config).await;
        let seen = cloud::instances(&context.aws, &regions, TIMEOUT).await;
        gaps.extend(seen.gaps);
        let runs = |instance: &Instance| {
            instance.state == InstanceState::Running && instance.machine.accelerator != Accelerator::None
        };
        let ids = seen.items.iter().map(|instance| instance.id.clone()).collect();
        let mut instances: Vec<Instance> = seen.items.into_iter().filter(runs).collect();
        instances.sort_by(|one, other| (&one.region, &one.id).cmp(&(&other.region, &other.id)));
        Ok(Fleet { config, regions, instances, ids, gaps })
    }
}

impl Fleet {
    /// The sources that report of each instance. A region whose metrics cannot be listed is a gap.
    async fn sources(&self, context: &CommandContext) -> (Vec<MetricSources<'_>>, Vec<Gap>) {
        let (mut all, mut gaps) = (Vec::new(), self.gaps.clone());
        let mut by_region: BTreeMap<&Region, Vec<&Instance>> = BTreeMap::new();
        for instance in &self.instances {
            by_region.entry(&instance.region).or_default().push(instance);
        }
        for (region, here) in by_region {
            match self.sources_in(context, region, &here).await {
                Ok(found) => all.extend(found),
                Err(error) => gaps.push(error.gap()),
            }
        }
        (all, gaps)
    }

    async fn sources_in<'a>(
        &self,
        context: &CommandContext,
        region: &Region,
        here: &[&'a Instance],
    ) -> Result<Vec<MetricSources<'a>>, cloud::CallError> {
        let Config { metrics, idle, .. } = &self.config;
        let (mut memory, mut power) = (BTreeMap::new(), BTreeMap::new());
        for accelerator in [Accelerator::Nvidia, Accelerator::Amd, Accelerator::Neuron] {
            let of_kind: Vec<&Instance> =
                here.iter().copied().filter(|one| one.machine.accelerator == accelerator).collect();
            if of_kind.is_empty() {
                continue;
            }
            if let Some(names) = metrics.series_names(accelerator).and_then(memory_names) {
                let name_of = |series: &_| device_of(series, &names).to_owned();
                memory.extend(execution::listed_devices(&context.aws, region, &of_kind, &names, name_of).await?);
            }
            if reads_power(accelerator, idle) {
                let names = power_names();
                power.extend(execution::listed_devices(&context.aws, region, &of_kind, names, power_device).await?);
            }
        }
        let mut reports = execution::device_reports(&context.aws, region, here, metrics).await?;
        let sources = |instance: &&'a Instance| MetricSources {
            instance,
            utilization: reports.remove(&instance.id),
            memory: memory.remove(&instance.id).unwrap_or_default(),
            power: power.remove(&instance.id).unwrap_or_default(),
        };
        Ok(here.iter().map(sources).collect())
    }
}

impl Check {
    async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let mut fleet = self.regions.fleet(context).await?;
        if let Some(id) = &self.instance {
            fleet.instances.retain(|instance| instance.id.as_str() == id);
            if fleet.instances.is_empty() {
                let unread: Vec<String> = fleet.gaps.iter().map(describe_gap).collect();
                return Err(if unread.is_empty() {
                    let problem = format!("no running GPU machine {id} was found");
                    CommandError::with(problem, "name its region by --regions")
                } else {
                    let problem = format!("whether a GPU machine {id} runs is unknown: {}", unread.join("; "));
                    CommandError::with(problem, "if it is in another region, name that by --regions")
                });
            }
        }
        let (sources, gaps) = fleet.sources(context).await;
        if context.global.json {
            let instances = sources.iter().map(|one| CheckedInstance::new(one, &fleet.config.metrics)).collect();
            let gaps = gaps.iter().map(describe_gap).collect();
            screen::json(&CheckOutput { instances, gaps })?;
        } else {
            show_sources(&sources, &fleet.config.metrics);
            gaps.iter().map(describe_gap).for_each(screen::warn);
        }
        Ok(match () {
            () if !gaps.is_empty() => CommandStatus::Error,
            () if sources.iter().all(MetricSources::is_full) => CommandStatus::Success,
            () => CommandStatus::Findings,
        })
    }
}

fn show_sources(sources: &[MetricSources<'_>], metrics: &MetricsConfig) {
    for one in sources {
        let Instance { id, region, instance_type, .. } = one.instance;
        screen::print_line(format!("{id} ({instance_type}, {region}): {}", one.describe()));
        if let Some(advice) = one.advice(metrics) {
            screen::print_line(format!("  {advice}"));
        }
    }
    let full = sources.iter().filter(|one| one.is_full()).count();
    screen::print_line(format!(
        "All GPUs report their utilisation on {full} of {}.",
        screen::counted(sources.len(), "machine")
    ));
    if full < sources.len() {
        screen::print_line(format!(
            "After curfew metrics install, State Manager shows what {CONFIGURE_ASSOCIATION} did on each machine."
        ));
    }
}

impl CheckedInstance {
    fn new(one: &MetricSources<'_>, metrics: &MetricsConfig) -> Self {
        let Instance { id, region, instance_type, machine, .. } = one.instance;
        let utilization = one.utilization.iter().flat_map(|report| &report.reporting).cloned().collect();
        Self {
            region: region.clone(),
            instance: id.clone(),
            instance_type: instance_type.to_string(),
            accelerators: machine.accelerators,
            utilization,
            memory: one.memory.iter().cloned().collect(),
            power: one.power.iter().cloned().collect(),
            is_full: one.is_full(),
            advice: one.advice(metrics),
        }
    }
}
