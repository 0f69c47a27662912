//! `curfew metrics install`: the plans, the question, and the associations.

use clap::Args;
use cloud::CallError;
use cloud::operator::{agent_associations, install_agent, running_with_tag};
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::observation::Gap;
use model::partition::Partition;
use operator::gpu_metrics::{
    AgentPlan, AgentTargets, CONFIGURE_ASSOCIATION, MetricSources, check_names, describe_install, takes_agent,
};
use serde::Serialize;

use super::{Fleet, Regions};
use crate::command_error::{CommandError, describe_call_error, describe_gap};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Let Systems Manager install the CloudWatch agent on GPU machines
///
/// The cost comes first: two custom metrics of CloudWatch for each GPU. Without --tag it is about the NVIDIA machines that run now and do not
/// report. With it, it is about every machine that carries the tag, now or later, in the regions where a GPU machine with it runs, or in those that
/// --regions names. It may be repeated: a region's values of the tag, or its instances, are added to those that are installed.
#[derive(Debug, Args)]
#[command(
    after_help = "It is for Linux, and changes no role: it prints the two policies that the role of each instance needs.\n\n\
                        Exit codes: 0 installed, or nothing to do; 1 it was not confirmed; 2 an error, or a region failed.\n\n\
                        Example:\n  curfew metrics install --tag Team=vision\n  curfew metrics install --utilisation-only --yes"
)]
pub(crate) struct Install {
    /// The machines with this tag: KEY=VALUE, or KEY=VALUE,VALUE
    #[arg(long, value_name = "TAG", value_parser = AgentTargets::parse_tag)]
    tag: Option<AgentTargets>,
    /// Leave out the held memory: half the cost
    #[arg(long, alias = "utilization-only")]
    utilisation_only: bool,
    #[command(flatten)]
    regions: Regions,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
}

/// `outcome` is `installed`; `incomplete`; `nothing-to-do`; `declined` if the person said no.
#[derive(Serialize)]
struct InstallOutput<'a> {
    outcome: &'static str,
    regions: &'a [Region],
    gpus: u64,
    gaps: Vec<String>,
    /// Regions in which it failed, each with its reason.
    failures: &'a [String],
}

impl Install {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let Self { tag, utilisation_only, regions, yes } = self;
        let is_region_named = !regions.regions.is_empty();
        let fleet = regions.fleet(context).await?;
        check_names(&fleet.config.metrics).map_err(|problem| {
            CommandError::with(
                problem,
                "leave [metrics.nvidia] out, or see what your own metrics report: curfew metrics check",
            )
        })?;
        let InstallPlans { plans, mut failures, gaps } = fleet.plan(context, tag.as_ref(), is_region_named).await;
        gaps.iter().map(describe_gap).for_each(screen::warn);
        let gpus = plans.iter().map(|plan| plan.gpus).fold(0, u64::saturating_add);
        let show = |outcome: &'static str, regions: &[Region], failures: &[String], text: &str| {
            if context.global.json {
                let gaps = gaps.iter().map(describe_gap).collect();
                screen::json(&InstallOutput { outcome, regions, gpus, gaps, failures })?;
            } else {
                screen::print_line(text);
                for line in failures {
                    screen::print_line(format!("not installed: {line}"));
                }
            }
            Ok::<_, CommandError>(())
        };
        if plans.is_empty() && failures.is_empty() {
            let text = match tag {
                Some(_) => {
                    "No GPU machine with this tag runs. For those that start later, name their regions: --regions"
                }
                None => "No running machine with NVIDIA GPUs needs the agent.",
            };
            show("nothing-to-do", &[], &[], text)?;
            return Ok(if gaps.is_empty() { CommandStatus::Success } else { CommandStatus::Error });
        }
        if !plans.is_empty() {
            let partition = Partition::find(context.aws.home().as_str()).map_or("aws", |partition| partition.name);
            describe_install(&plans, utilisation_only, partition).iter().for_each(screen::propose);
            if !screen::confirm("Install it?", yes)? {
                show("declined", &[], &failures, "Nothing was installed.")?;
                return Ok(CommandStatus::Findings);
            }
        }
        let mut installed = Vec::new();
        for AgentPlan { region, targets, .. } in &plans {
            match install_agent(&context.aws, region, targets, utilisation_only).await {
                Ok(()) => installed.push(region.clone()),
                Err(error) => failures.push(describe_call_error(&error)),
            }
        }
        let text = if installed.is_empty() {
            "It was installed nowhere.".to_owned()
        } else {
            format!(
                "Systems Manager installs the agent; see in an hour: curfew metrics check. What it did on each machine: State Manager, \
                 {CONFIGURE_ASSOCIATION}."
            )
        };
        show(if failures.is_empty() { "installed" } else { "incomplete" }, &installed, &failures, &text)?;
        let is_whole = gaps.is_empty() && failures.is_empty();
        Ok(if is_whole { CommandStatus::Success } else { CommandStatus::Error })
    }
}

/// The machines of a region that could have the agent and do not report in full.
fn silent_in(region: &Region, sources: &[MetricSources<'_>]) -> Vec<ResourceId> {
    let here = sources.iter().filter(|one| one.instance.region == *region && takes_agent(one.instance));
    here.filter(|one| !one.is_full()).map(|one| one.instance.id.clone()).collect()
}

#[derive(Default)]
struct InstallPlans {
    plans: Vec<AgentPlan>,
    /// Regions that have no plan, each with its reason.
    failures: Vec<String>,
    gaps: Vec<Gap>,
}

impl Fleet {
    /// The plans for the regions with a machine that gets the agent, and for all that were named with a tag.
    async fn plan(&self, context: &CommandContext, tag: Option<&AgentTargets>, is_region_named: bool) -> InstallPlans {
        let (sources, gaps) = self.sources(context).await;
        let mut all = InstallPlans { gaps, ..InstallPlans::default() };
        for region in &self.regions {
            let targets = tag.cloned().unwrap_or_else(|| AgentTargets::Instances(silent_in(region, &sources)));
            if self.instances_in(region, &targets) == 0 && !(tag.is_some() && is_region_named) {
                continue;
            }
            match self.add_installed(context, region, targets).await {
                Err(problem) => all.failures.push(problem),
                Ok(targets) => {
                    let others = self.count_others(context, region, &targets).await;
                    let others = others.map_err(|error| all.gaps.push(error.gap())).ok();
                    match AgentPlan::new(region, targets, &self.instances, others) {
                        Ok(plan) => all.plans.push(plan),
                        Err(problem) => all.failures.push(problem),
                    }
                }
            }
        }
        all
    }

    fn instances_in(&self, region: &Region, targets: &AgentTargets) -> usize {
        let is_target = |one: &&Instance| one.region == *region && takes_agent(one) && targets.includes(one);
        self.instances.iter().filter(is_target).count()
    }

    /// These targets with those that are installed in the region already.
    async fn add_installed(
        &self,
        context: &CommandContext,
        region: &Region,
        targets: AgentTargets,
    ) -> Result<AgentTargets, String> {
        let associations = agent_associations(&context.aws, region).await;
        match associations.map_err(|error| describe_call_error(&error))?.targets().map(AgentTargets::from_json) {
            None => Ok(targets),
            Some(Some(installed)) => targets.add_to(installed.without_gone(|id| self.ids.contains(id)), region),
            Some(None) => Err(format!(
                "{region}: the targets of the association {CONFIGURE_ASSOCIATION} were changed by hand; begin anew: curfew metrics uninstall \
                 --regions {region}"
            )),
        }
    }

    /// Number of running instances with the tag that have no NVIDIA GPU.
    async fn count_others(
        &self,
        context: &CommandContext,
        region: &Region,
        targets: &AgentTargets,
    ) -> Result<usize, CallError> {
        let AgentTargets::Tag { key, values } = targets else { return Ok(0) };
        let all = running_with_tag(&context.aws, region, key, values).await?;
        Ok(all.saturating_sub(self.instances_in(region, targets)))
    }
}
