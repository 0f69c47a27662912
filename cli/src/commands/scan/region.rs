//! Looking at one region.

use std::time::Duration;

use billing::price::{PriceBook, PriceDocument, sagemaker_types};
use cloud::Aws;
use execution::{IdleThresholds, due_queries, learn_usage};
use futures::future::join3;
use jiff::Timestamp;
use model::id::Region;
use model::instance::Instance;
use model::near_keys::NearKeys;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::{Gap, GapKind, Observation};
use model::sagemaker::SageMakerResource;
use model::usage::ActivityCache;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use reaping::sagemaker::wants_facts;
use reaping::scan;
use reaping::scan::ScanFinding;
use reaping::volumes::wants_its_source;
use store::Store;

use crate::command_error::describe_gap;
use crate::screen;

/// Timeout of each list of a region, and of its metrics: tens of thousands of instances take a minute or two.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The number of lists, one of instances and one of volumes: each that cannot be read is one gap of the region.
const LISTS: usize = 2;

/// The findings of one region. The fleet itself is not kept.
pub(super) struct RegionFindings {
    pub(super) region: Region,
    /// The number of instances with an accelerator.
    pub(super) instances: usize,
    /// The number of these instances that could not be judged for idleness, because `CloudWatch` did not answer.
    pub(super) unjudged: usize,
    /// Attached to nothing.
    pub(super) volumes: usize,
    pub(super) findings: Vec<ScanFinding>,
    /// The tag keys of its instances that look like those of the configuration.
    pub(super) near_keys: NearKeys,
    pub(super) gaps: Vec<Gap>,
}

impl RegionFindings {
    /// Returns `true` if neither list could be read.
    pub(super) fn saw_nothing(&self) -> bool {
        self.gaps.iter().filter(|gap| gap.kind == GapKind::Region).count() == LISTS
    }
}

/// The settings of a scan, for each region.
#[derive(Clone, Copy)]
pub(super) struct RegionScan<'a> {
    /// The bucket with the states of jobs; without it the owner of an instance that names one is unknown.
    pub(super) store: Option<&'a Store>,
    pub(super) policy: &'a Policy,
    /// `true` if the scan includes `SageMaker`.
    pub(super) sagemaker: bool,
    pub(super) now: Timestamp,
}

impl RegionScan<'_> {
    pub(super) async fn scan_region(self, aws: &Aws, region: Region) -> RegionFindings {
        let Self { store, policy, now, .. } = self;
        let of_sagemaker = async {
            if self.sagemaker { sagemaker(aws, &region, policy, now).await } else { (Vec::new(), Vec::new()) }
        };
        let (of_instances, of_volumes, (more, unseen)) =
            join3(instances(aws, store, &region, policy, now), volumes(aws, &region, policy, now), of_sagemaker).await;
        let mut gaps = forbidden_once([of_instances.gaps, of_volumes.gaps].concat());
        gaps.extend(unseen);
        let findings = [of_instances.findings, of_volumes.findings, more].concat();
        let (instances, unjudged, volumes) = (of_instances.seen, of_instances.unjudged, of_volumes.seen);
        let near_keys = of_instances.near_keys;
        RegionFindings { region, instances, unjudged, volumes, findings, near_keys, gaps }
    }
}

/// The organisation forbids a region where it forbids every list of it, which is said once; one list alone is unseen.
fn forbidden_once(mut gaps: Vec<Gap>) -> Vec<Gap> {
    let is_forbidden = |gap: &Gap| gap.kind == GapKind::ForbiddenRegion;
    if gaps.iter().filter(|gap| is_forbidden(gap)).count() == LISTS {
        let mut is_said = false;
        gaps.retain(|gap| !is_forbidden(gap) || !std::mem::replace(&mut is_said, true));
    } else {
        gaps.iter_mut().filter(|gap| is_forbidden(gap)).for_each(|gap| gap.kind = GapKind::Region);
    }
    gaps
}

/// The findings of one kind of resource.
struct PartialFindings {
    seen: usize,
    unjudged: usize,
    findings: Vec<ScanFinding>,
    near_keys: NearKeys,
    gaps: Vec<Gap>,
}

/// Everybody that runs is asked about: nothing is known of them.
async fn instances(
    aws: &Aws,
    store: Option<&Store>,
    region: &Region,
    policy: &Policy,
    now: Timestamp,
) -> PartialFindings {
    let Observation { items, mut gaps } = cloud::instances(aws, std::slice::from_ref(region), TIMEOUT).await;
    let jobs = match store {
        Some(store) => {
            let (jobs, unread) = execution::load_job_states(store, &items, aws.home(), TIMEOUT).await;
            gaps.extend(unread);
            jobs
        }
        None => JobStates::default(),
    };
    let policy = &Policy { jobs, ..policy.clone() };
    let seen: Vec<&Instance> = items.iter().collect();
    let (activity, memory) = (ActivityCache::default(), NotificationLogs::default());
    let (due, bugs) = due_queries(&seen, &activity, &memory, policy, now);
    let lines = IdleThresholds { metrics: &policy.config.metrics, idle: &policy.config.idle };
    let (found, unanswered) = execution::usages(aws, region, &due, lines, now, TIMEOUT).await;
    let is_answered = unanswered.is_empty();
    gaps.extend(unanswered);
    let (learnt, more_bugs) = learn_usage(&seen, &due, found, &activity, policy, now);
    let Observation { items: findings, gaps: unscanned } = scan::instances(&items, &learnt.usages, policy, now);
    gaps.extend([bugs, more_bugs, unscanned].concat());
    // Without a refusal, an instance without a query is too young to have been idle.
    let unjudged = if is_answered { 0 } else { scan::unjudged(&items, &learnt.usages, policy, now) };
    let near_keys = NearKeys::from_instances(&items, &policy.config);
    PartialFindings { seen: items.len(), unjudged, findings, near_keys, gaps }
}

async fn volumes(aws: &Aws, region: &Region, policy: &Policy, now: Timestamp) -> PartialFindings {
    let source = |volume: &_| wants_its_source(volume, &policy.config);
    let mut storage = cloud::operator::unattached(aws, region, TIMEOUT, source).await;
    let Observation { items: findings, gaps: bugs } = scan::volumes(&storage, policy, now);
    let mut gaps = std::mem::take(&mut storage.volumes.gaps);
    gaps.extend(bugs);
    let seen = storage.volumes.items.len();
    PartialFindings { seen, unjudged: 0, findings, near_keys: NearKeys::default(), gaps }
}

/// Its lists are beside the two: a region without them is seen all the same.
async fn sagemaker(aws: &Aws, region: &Region, policy: &Policy, now: Timestamp) -> (Vec<ScanFinding>, Vec<Gap>) {
    let wants = |resource: &_| wants_facts(resource, &policy.config, now);
    let Observation { items, mut gaps } = cloud::sagemaker(aws, std::slice::from_ref(region), TIMEOUT, wants).await;
    let (activities, unanswered) = execution::sagemaker::activities(
        aws,
        (region, &NotificationLog::default()),
        &items,
        &policy.config,
        now,
        TIMEOUT,
    )
    .await;
    gaps.extend(unanswered);
    gaps.iter_mut().filter(|gap| gap.kind.hides_region()).for_each(|gap| gap.kind = GapKind::Listing);
    let prices = sagemaker_prices(aws, &items, policy, now).await;
    let found = scan::sagemaker(&items, &activities, &Policy { prices, ..policy.clone() }, now);
    gaps.extend(found.gaps);
    (found.items, gaps)
}

/// Returns the prices, with the Price List's answers for types without a price: Curfew comes with no table of `SageMaker`.
async fn sagemaker_prices(aws: &Aws, seen: &[SageMakerResource], policy: &Policy, now: Timestamp) -> PriceBook {
    if seen.iter().all(|resource| policy.prices.sagemaker_cost(resource).is_some()) {
        return policy.prices.clone();
    }
    let mut known = PriceDocument::default();
    let wanted = known.wanted(&[], &[], &sagemaker_types(seen), now);
    for gap in cloud::prices(aws, &mut known, &wanted, now, TIMEOUT).await {
        screen::warn(describe_gap(&gap));
    }
    PriceBook::from_document(known, &policy.config.prices, now)
}
