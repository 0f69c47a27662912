//! Checks of the account, in every region at once: telemetry, quotas and tags.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::price::PriceBook;
use cloud::CallError;
use futures::future::join_all;
use futures::{StreamExt as _, join, stream};
use model::config::Config;
use model::id::Region;
use model::instance::Instance;
use model::observation::Observation;
use operator::doctor::telemetry::{InstanceTelemetry, should_report};
use operator::doctor::{DoctorFinding, configuration, quotas, telemetry};

use super::section::{DoctorSection, unanswered, unseen};
use super::tags;
use crate::context::{CommandContext, DeployedResources};

const TIMEOUT: Duration = Duration::from_mins(1);
/// Service Quotas accepts few calls a second.
const QUOTAS_AT_ONCE: usize = 8;

/// A region and its quotas by their codes.
type QuotaAnswer<'a> = (&'a Region, Result<BTreeMap<String, f64>, CallError>);

/// The checks of the account, and what they saw besides.
pub(super) struct AccountChecks {
    /// GPU instances in regions that the configuration leaves out.
    pub(super) left_out: Vec<Instance>,
    /// The machines that `local_disk` withholds.
    pub(super) withheld: Option<DoctorFinding>,
    pub(super) sections: Vec<DoctorSection>,
}

/// Reads every region that the configuration names, or that the account has.
pub(super) async fn check_regions(
    context: &CommandContext,
    deployed: &DeployedResources,
    config: &Config,
) -> AccountChecks {
    let Observation { items: regions, gaps } = cloud::regions(&context.aws, config).await;
    let unlisted: Vec<DoctorFinding> = gaps.iter().map(unseen).collect();
    let quotas =
        regions.iter().map(|region| async move { (region, cloud::operator::quotas(&context.aws, region).await) });
    let (left_out, instances, tagged, quotas) = join!(
        context.instances_left_out(config, TIMEOUT),
        cloud::instances(&context.aws, &regions, TIMEOUT),
        join_all(regions.iter().map(|region| cloud::operator::tagged(&context.aws, region))),
        stream::iter(quotas).buffered(QUOTAS_AT_ONCE).collect::<Vec<_>>(),
    );
    let tagged: Vec<tags::RegionTags> = regions.iter().cloned().zip(tagged).collect();
    let prices = context.prices(Some(&deployed.store), config).await;
    let (telemetry, tags) = join!(
        telemetry_of(context, config, &prices, &instances, unlisted.clone()),
        tags::check(context, deployed, config, &instances, tagged, unlisted.clone()),
    );
    let withheld = configuration::check_local_disk(&instances.items, config, &prices);
    AccountChecks { left_out, withheld, sections: vec![telemetry, quotas_of(quotas, &instances, unlisted), tags] }
}

/// A region that could not be observed in full, or whose metrics could not be listed, is not judged.
async fn telemetry_of(
    context: &CommandContext,
    config: &Config,
    prices: &PriceBook,
    instances: &Observation<Instance>,
    mut findings: Vec<DoctorFinding>,
) -> DoctorSection {
    findings.extend(instances.gaps.iter().map(unseen));
    let mut by_region: BTreeMap<&Region, Vec<&Instance>> = BTreeMap::new();
    for instance in instances.items.iter().filter(|instance| should_report(instance, context.now)) {
        by_region.entry(&instance.region).or_default().push(instance);
    }
    let looks = by_region.into_iter().map(|(region, here)| async move {
        let reports = execution::device_reports(&context.aws, region, &here, &config.metrics).await;
        reports.map(|reports| (here, reports))
    });
    let mut all = Vec::new();
    for looked in join_all(looks).await {
        match looked {
            Ok((here, mut reports)) => all.extend(here.into_iter().map(|instance| {
                let report = reports.remove(&instance.id);
                InstanceTelemetry { instance, report }
            })),
            Err(error) => findings.push(unanswered(&error)),
        }
    }
    findings.extend(telemetry::check(&all, &config.metrics, prices));
    DoctorSection::new(telemetry::CHECK, findings, telemetry::summary(&all))
}

fn quotas_of(
    answers: Vec<QuotaAnswer<'_>>,
    instances: &Observation<Instance>,
    mut findings: Vec<DoctorFinding>,
) -> DoctorSection {
    let mut values = BTreeMap::new();
    for (region, answered) in answers {
        match answered {
            Ok(quotas) => drop(values.insert(region.clone(), quotas)),
            Err(error) => findings.push(unanswered(&error)),
        }
    }
    // The instances there are unknown.
    let unseen_there = instances.gaps.iter().filter(|gap| gap.kind.hides_region() && values.contains_key(&gap.region));
    findings.extend(unseen_there.map(unseen));
    let quotas = quotas::quotas(&values, &instances.items);
    findings.extend(quotas::check(&quotas));
    findings.extend(quotas::check_gangs(&quotas::running_gangs(&instances.items), &quotas));
    let summary = if quotas::usable_families(&quotas).is_empty() { "" } else { "vCPUs that run, of those granted:" };
    DoctorSection { quotas: Some(quotas), ..DoctorSection::new(quotas::CHECK, findings, summary) }
}
