//! `curfew scan`: each region is looked at by itself and forgotten but for what was found there, so that the largest
//! account takes little room, and the first rows are there as soon as one region has answered.

mod document;
mod organization;
mod region;
mod show;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use billing::budget::BudgetStatuses;
use billing::price::{PriceBook, PriceDocument};
use clap::Args;
use futures::future::{Either, join, select};
use futures::{StreamExt as _, stream};
use model::ceiling::Ceiling;
use model::config::Config;
use model::fault::InvalidValue;
use model::gang::Gangs;
use model::id::Region;
use model::mode::Mode;
use model::near_keys::NearKeys;
use model::observation::{Gap, GapKind, Observation};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use reaping::scan;
use reaping::scan::ScanFinding;
use store::{Documents as _, Store};

use super::config::read_config_file;
use crate::command_error::{CommandError, describe_gap};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use organization::OrganizationArguments;
pub(crate) use organization::read_accounts;
use region::{RegionFindings, RegionScan};
use show::ScanProgress;

/// Limit of the regions that are read at once. The command holds a fleet and a list of volumes of each at a time.
const REGIONS_AT_ONCE_MAX: usize = 6;

/// Time without an answer after which a message names what the command waits for.
const SILENCE: Duration = Duration::from_secs(10);

/// Find idle GPU instances and unused volumes in every region, with read permissions only
///
/// It needs no deployment, and changes nothing. It lists instances that are idle, idle with GPU memory held
/// (reserved), without required tags (untagged), or without the metrics to judge them by
/// (uninstrumented); volumes that are unattached (orphaned); reserved capacity that nothing runs in
/// (unused-capacity); and Lustre file systems that no client uses (idle-file-system). With --sagemaker it also lists
/// training that managed Spot could run (on-demand-training), and endpoints with few requests (low-use). It leaves out
/// what is protected or kept by tag.
#[derive(Debug, Args)]
#[command(after_help = "\
Needs ec2:DescribeRegions, ec2:DescribeInstances, ec2:DescribeInstanceTypes, ec2:DescribeSpotInstanceRequests, \
ec2:DescribeVolumes, ec2:DescribeSnapshots, ec2:DescribeCapacityReservations, fsx:DescribeFileSystems, cloudwatch:GetMetricData and cloudwatch:ListMetrics; to judge by a \
deployment's configuration also cloudformation:DescribeStackResources, and s3:GetObject and s3:ListBucket on its \
bucket. With pricing:GetProducts, prices are those of today: else those of a dated table. CloudWatch bills GetMetricData by the metric: $0.01 for 1,000.

Exit codes: 0 nothing was found; 1 something was; 2 nothing was found, but not everything could be seen, or it was \
interrupted.

Example:
  curfew scan --profile research --regions us-east-1,eu-central-1
  curfew scan --organization --resume accounts.jsonl")]
pub(crate) struct Scan {
    /// Scan only these regions, comma-separated [default: those of the configuration, else every enabled one]
    #[arg(long, value_name = "REGIONS", value_delimiter = ',', value_parser = region)]
    regions: Vec<Region>,
    /// Judge by this configuration [default: the deployed one, or without a deployment the defaults]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Look at SageMaker too: notebook instances, Studio apps, endpoints and jobs (docs/sagemaker.md has the permissions)
    #[arg(long)]
    sagemaker: bool,
    /// Show no progress: only the result, and what could not be read
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    organization: OrganizationArguments,
}

/// Timeout of the look at regions that the configuration leaves out: the result does not wait for them.
const LEFT_OUT_TIMEOUT: Duration = Duration::from_secs(10);

/// The findings of a scan, and the resources that it looked at.
struct ScanResult {
    regions: Vec<Region>,
    instances: usize,
    unjudged: usize,
    volumes: usize,
    findings: Vec<ScanFinding>,
    near_keys: NearKeys,
    gaps: Vec<Gap>,
    /// The known list prices, with the answers of the Price List.
    prices: PriceDocument,
    /// The gaps of the Price List, which hide no resource.
    price_gaps: Vec<Gap>,
    saw_nothing: bool,
    /// The regions that had not answered when somebody interrupted the look.
    unanswered: BTreeSet<Region>,
}

impl Scan {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        if self.organization.organization {
            return Box::pin(organization::run(self, context)).await;
        }
        let progress = ScanProgress { quiet: self.quiet };
        let (config, store, is_deployed) = self.config(context, progress).await?;
        let are_regions_named = !self.regions.is_empty();
        let config = if are_regions_named { Config { regions: self.regions, ..config } } else { config };
        let seen = cloud::regions(&context.aws, &config).await;
        if !seen.gaps.is_empty() {
            let home = context.aws.home();
            screen::warn(format_args!(
                "the regions could not be listed, so {home} is looked at alone; name others by --regions"
            ));
        }
        let known_prices = context.known_prices(store.as_ref()).await;
        let prices = PriceBook::from_document(known_prices.clone(), &config.prices, context.now);
        let policy = build_policy(config, prices);
        let look = RegionScan {
            store: store.as_ref(),
            policy: &policy,
            known_prices: &known_prices,
            sagemaker: self.sagemaker,
            now: context.now,
            price_list: None,
        };
        let elsewhere = async {
            // Regions that somebody typed leave out others on purpose.
            if !are_regions_named {
                context.warn_of_left_out_regions(&policy.config, LEFT_OUT_TIMEOUT).await;
            }
        };
        let (found, ()) = Box::pin(join(find(context, look, seen, progress), elsewhere)).await;
        context.cache_prices(&found.prices);
        show::gaps(&found, context);
        if let Some(gap) = found.price_gaps.first() {
            progress.print(format_args!("Prices are those of tables, as far as these have any: {}", describe_gap(gap)));
        }
        show::near_keys(&found, &policy.config);
        if context.global.json {
            screen::json(&document::build_output(&found, context.now))?;
        } else {
            show::result(&found);
            progress.next(&found, is_deployed);
        }
        Ok(found.ending())
    }

    /// The configuration to judge by, its deployment's bucket, and whether something may be deployed. A look must not fail for want of one; but
    /// a named file or bucket comes first.
    async fn config(
        &self,
        context: &CommandContext,
        progress: ScanProgress,
    ) -> Result<(Config, Option<Store>, bool), CommandError> {
        if let Some(file) = &self.config {
            let advice = || Some("curfew config check FILE finds every mistake in it".to_owned());
            let config = read_config_file(file)
                .map_err(|failure| CommandError { advice: failure.advice.or_else(advice), ..failure })?;
            return Ok((config, None, true));
        }
        progress.print(format_args!("Looking for a deployment in {}", context.aws.home()));
        let read = async {
            let Some(deployed) = context.deployed().await? else { return Ok(None) };
            Ok::<_, CommandError>(Some((deployed.store.read_config().await?, deployed.store)))
        };
        match read.await {
            Ok(Some((config, store))) => Ok((config, Some(store), true)),
            Ok(None) => {
                let stack = &context.global.stack;
                progress.print(format_args!("There is no stack {stack}, so the default configuration counts"));
                Ok((Config::default(), None, false))
            }
            Err(failure) if context.global.bucket.is_some() => Err(failure),
            Err(failure) => {
                screen::warn(format!("{}; the default configuration counts", failure.problem));
                Ok((Config::default(), None, true))
            }
        }
    }
}

/// The rules by which a scan judges: without a mode, budgets and jobs, because it acts on nothing.
fn build_policy(config: Config, prices: PriceBook) -> Policy {
    Policy {
        config,
        ceiling: Ceiling::fixed(Mode::Observe),
        prices,
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
        gangs: Gangs::default(),
    }
}

/// Looks at some regions at a time, at home first, and says of each what was found.
async fn find(
    context: &CommandContext,
    look: RegionScan<'_>,
    seen: Observation<Region>,
    progress: ScanProgress,
) -> ScanResult {
    let Observation { items: mut regions, gaps } = seen;
    regions.sort_by_key(|region| region != context.aws.home());
    let mut found = ScanResult {
        regions,
        instances: 0,
        unjudged: 0,
        volumes: 0,
        findings: Vec::new(),
        near_keys: NearKeys::default(),
        gaps,
        prices: PriceDocument::default(),
        price_gaps: Vec::new(),
        saw_nothing: true,
        unanswered: BTreeSet::new(),
    };
    progress.begin(&found.regions);
    let looks = found.regions.clone().into_iter().map(|region| look.scan_region(&context.aws, region));
    let mut looks = stream::iter(looks).buffer_unordered(REGIONS_AT_ONCE_MAX);
    let mut waited_for: BTreeSet<Region> = found.regions.iter().cloned().collect();
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let next = tokio::time::timeout(SILENCE, looks.next());
        let next = match select(&mut interrupted, pin!(next)).await {
            Either::Left(_) => {
                found.unanswered = waited_for;
                break;
            }
            Either::Right((next, _)) => next,
        };
        match next {
            Ok(Some(mut looked)) => {
                waited_for.remove(&looked.region);
                scan::sort(&mut looked.findings);
                progress.region(&looked, found.regions.len() - waited_for.len(), found.regions.len());
                found.add(looked);
            }
            Ok(None) => break,
            Err(_) => progress.waiting(&waited_for),
        }
    }
    found.regions.sort();
    scan::sort(&mut found.findings);
    found
}

impl ScanResult {
    fn add(&mut self, looked: RegionFindings) {
        self.saw_nothing &= looked.saw_nothing();
        self.instances += looked.instances;
        self.unjudged += looked.unjudged;
        self.volumes += looked.volumes;
        self.findings.extend(looked.findings);
        self.near_keys.merge(looked.near_keys);
        self.gaps.extend(looked.gaps);
        self.prices.merge(looked.prices);
        self.price_gaps.extend(looked.price_gaps);
    }

    /// Returns `true` if every region answered, and every gap is a region that the organisation forbids: that cannot be mended here, and
    /// nothing runs there.
    fn saw_everything(&self) -> bool {
        self.unanswered.is_empty() && self.gaps.iter().all(|gap| gap.kind == GapKind::ForbiddenRegion)
    }

    fn ending(&self) -> CommandStatus {
        if !self.unanswered.is_empty() {
            CommandStatus::Error
        } else if !self.findings.is_empty() {
            CommandStatus::Findings
        } else if self.saw_everything() {
            CommandStatus::Success
        } else {
            CommandStatus::Error
        }
    }
}

/// Becomes part of an address (EC2 user guide, "Regions and Zones").
pub(crate) fn region(text: &str) -> Result<Region, InvalidValue> {
    let text = text.trim();
    let is_legal = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    let legal = !text.is_empty() && text.bytes().all(is_legal);
    if legal { Ok(Region::from(text)) } else { Err(InvalidValue::new("write it as us-east-1")) }
}
