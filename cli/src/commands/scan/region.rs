//! Looking at one region.

use std::collections::BTreeSet;
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument, PriceSource, Quote, sagemaker_types};
use cloud::Aws;
use cloud::operator::caller_arn;
use execution::UsageInquiry;
use execution::file_systems::{FileSystemsObservation, observe_file_systems};
use futures::future::{join, join5};
use jiff::Timestamp;
use model::capacity_reservation::{CapacityReservation, ReservationKind};
use model::gang::Gangs;
use model::id::{Region, TypeName};
use model::instance::{Instance, PurchaseOption};
use model::near_keys::NearKeys;
use model::notification_log::NotificationLogs;
use model::observation::{Gap, GapKind, Observation, Observed};
use model::usage::ActivityCache;
use model::volume::Volume;
use operator::organization::{RegionPart, RunningTeams};
use reaping::file_systems::Inquiry;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use reaping::reservations::unused_cost;
use reaping::sagemaker::wants_facts;
use reaping::scan;
use reaping::scan::ScanFinding;
use reaping::volumes::wants_its_source;
use store::Store;

use crate::list_prices::{WantedPrices, refresh};

/// Timeout of each list of a region, and of its metrics: tens of thousands of instances take a minute or two.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Timeout of the Price List; a price without an answer is that of the table, or unknown.
const PRICES_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The known prices, with those that the Price List was asked for.
    pub(super) prices: PriceDocument,
    /// The gaps of the Price List, without which the table counts.
    pub(super) price_gaps: Vec<Gap>,
    /// The running instances, for a scan of many accounts; else nothing.
    pub(super) running: RunningTeams,
}

impl RegionFindings {
    /// The region among those of its account.
    pub(super) fn into_part(self) -> RegionPart {
        let saw_nothing = self.saw_nothing();
        let Self { running, volumes, unjudged, findings, gaps, .. } = self;
        RegionPart { running, volumes, unjudged, findings, gaps, saw_nothing }
    }

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
    /// The live prices that the policy has.
    pub(super) known_prices: &'a PriceDocument,
    /// `true` if the scan includes `SageMaker`.
    pub(super) sagemaker: bool,
    pub(super) now: Timestamp,
    /// The connection that asks the Price List, for a scan of many accounts: it answers every account the same, so none but the scanning one
    /// needs its permission.
    pub(super) price_list: Option<&'a Aws>,
}

impl RegionScan<'_> {
    pub(super) async fn scan_region(self, aws: &Aws, region: Region) -> RegionFindings {
        let sagemaker =
            async { if self.sagemaker { self.scan_sagemaker(aws, &region).await } else { PartialFindings::default() } };
        let (instances, volumes, sagemaker, reservations, file_systems) = Box::pin(join5(
            self.scan_instances(aws, &region),
            self.scan_volumes(aws, &region),
            sagemaker,
            self.scan_reservations(aws, &region),
            self.scan_file_systems(aws, &region),
        ))
        .await;
        let mut gaps = forbidden_once([instances.gaps, volumes.gaps].concat());
        gaps.extend(sagemaker.gaps);
        // A region that is unseen is said once.
        let is_unseen = gaps.iter().any(|gap| gap.kind.hides_region());
        let besides = reservations.gaps.into_iter().chain(file_systems.gaps);
        gaps.extend(besides.filter(|_| !is_unseen));
        let mut prices = instances.prices;
        prices.merge(volumes.prices);
        prices.merge(sagemaker.prices);
        prices.merge(reservations.prices);
        let price_gaps =
            [instances.price_gaps, volumes.price_gaps, sagemaker.price_gaps, reservations.price_gaps].concat();
        let findings =
            [instances.findings, volumes.findings, sagemaker.findings, reservations.findings, file_systems.findings]
                .concat();
        RegionFindings {
            region,
            instances: instances.seen,
            unjudged: instances.unjudged,
            volumes: volumes.seen,
            findings,
            near_keys: instances.near_keys,
            gaps,
            prices,
            price_gaps,
            running: instances.running,
        }
    }

    /// No cache says which instances can be idle, so the metrics of all are read.
    async fn scan_instances(self, aws: &Aws, region: &Region) -> PartialFindings {
        let Self { store, policy, now, .. } = self;
        let Observation { items, mut gaps } = cloud::instances(aws, std::slice::from_ref(region), TIMEOUT).await;
        let jobs = match store {
            Some(store) => execution::load_job_states(store, &items, aws.home(), TIMEOUT).await.with_gaps_in(&mut gaps),
            None => JobStates::default(),
        };
        let gangs = Gangs::find(&items, &policy.config);
        let policy = Policy { jobs, gangs, ..policy.clone() };
        let seen: Vec<&Instance> = items.iter().collect();
        let (activity, memory) = (ActivityCache::default(), NotificationLogs::default());
        let inquiry =
            UsageInquiry { activity: &activity, memory: Some(&memory), policy: &policy, now, timeout: TIMEOUT };
        let wanted = WantedPrices { on_demand: unpriced_types(&items, &policy.prices), ..WantedPrices::default() };
        let (learned, Observed { items: prices, gaps: price_gaps }) =
            join(inquiry.learn(aws, region, &seen), self.ask_prices(aws, &wanted)).await;
        let is_answered = learned.gaps.is_empty();
        let usages = learned.with_gaps_in(&mut gaps).usages;
        let policy = &Policy { prices: self.price_book(&prices), ..policy };
        let findings = scan::instances(&items, &usages, policy, now).with_gaps_in(&mut gaps);
        // Without a refusal, an instance without a query is too young to have been idle.
        let unjudged = if is_answered { 0 } else { scan::unjudged(&items, &usages, policy, now) };
        let near_keys = NearKeys::from_instances(&items, &policy.config);
        let running = match self.price_list {
            Some(_) => RunningTeams::from_instances(&items, &policy.prices, &policy.config),
            None => RunningTeams::default(),
        };
        PartialFindings { seen: items.len(), unjudged, findings, near_keys, gaps, prices, price_gaps, running }
    }

    async fn scan_volumes(self, aws: &Aws, region: &Region) -> PartialFindings {
        let Self { policy, now, .. } = self;
        let source = |volume: &_| wants_its_source(volume, &policy.config);
        let mut storage = cloud::operator::unattached(aws, region, TIMEOUT, source).await;
        let is_unpriced = |volume: &&Volume| !has_list_price(policy.prices.volume_cost(volume));
        let unpriced = storage.volumes.items.iter().filter(is_unpriced);
        let wanted =
            WantedPrices { storage: unpriced.map(|volume| volume.region.clone()).collect(), ..WantedPrices::default() };
        let Observed { items: prices, gaps: price_gaps } = self.ask_prices(aws, &wanted).await;
        let policy = &Policy { prices: self.price_book(&prices), ..policy.clone() };
        let mut gaps = std::mem::take(&mut storage.volumes.gaps);
        let findings = scan::volumes(&storage, policy, now).with_gaps_in(&mut gaps);
        let seen = storage.volumes.items.len();
        PartialFindings { seen, findings, gaps, prices, price_gaps, ..PartialFindings::default() }
    }

    /// Its lists are beside the two: a region without them is seen all the same.
    async fn scan_sagemaker(self, aws: &Aws, region: &Region) -> PartialFindings {
        let Self { policy, now, .. } = self;
        let wants = |resource: &_| wants_facts(resource, &policy.config, now);
        let Observation { items, mut gaps } = cloud::sagemaker(aws, std::slice::from_ref(region), TIMEOUT, wants).await;
        let (activities, unanswered) =
            execution::sagemaker::activities(aws, (region, None), &items, &policy.config, now, TIMEOUT).await;
        gaps.extend(unanswered);
        gaps.iter_mut().filter(|gap| gap.kind.hides_region()).for_each(|gap| gap.kind = GapKind::Listing);
        // Curfew comes with no table of `SageMaker`.
        let mut prices = self.known_prices.clone();
        let wanted = prices.wanted(&[], &[], &sagemaker_types(&items), now);
        let aws = self.price_list.unwrap_or(aws);
        let price_gaps = cloud::prices(aws, &mut prices, &wanted, now, PRICES_TIMEOUT).await;
        let policy = &Policy { prices: self.price_book(&prices), ..policy.clone() };
        let findings = scan::sagemaker(&items, &activities, policy, now).with_gaps_in(&mut gaps);
        PartialFindings { findings, gaps, prices, price_gaps, ..PartialFindings::default() }
    }

    /// Beside the two lists as well. A region that forbids everything is said once.
    async fn scan_reservations(self, aws: &Aws, region: &Region) -> PartialFindings {
        let Self { policy, now, .. } = self;
        let Observation { mut items, mut gaps } =
            cloud::unused_reservations(aws, std::slice::from_ref(region), None, TIMEOUT).await;
        if items.iter().any(|one| one.billed_to.is_some()) {
            match caller_arn(aws).await {
                Ok(arn) => {
                    let account = arn.split(':').nth(4).filter(|account| !account.is_empty());
                    items.retain(|one| one.is_billed_to(account));
                }
                Err(error) => {
                    gaps.push(error.gap_of_kind(GapKind::Reservations));
                    items.clear();
                }
            }
        }
        let is_unpriced = |one: &&CapacityReservation| {
            one.kind == ReservationKind::OnDemand && one.plain_linux && !has_list_price(unused_cost(one, policy))
        };
        let unpriced = items.iter().filter(is_unpriced).map(|one| (one.region.clone(), one.instance_type.clone()));
        let wanted = WantedPrices { on_demand: unpriced.collect(), ..WantedPrices::default() };
        let Observed { items: prices, gaps: price_gaps } = self.ask_prices(aws, &wanted).await;
        let policy = &Policy { prices: self.price_book(&prices), ..policy.clone() };
        let findings = scan::reservations(&items, policy, now).with_gaps_in(&mut gaps);
        PartialFindings { findings, gaps, prices, price_gaps, ..PartialFindings::default() }
    }

    /// Beside the two lists as well.
    async fn scan_file_systems(self, aws: &Aws, region: &Region) -> PartialFindings {
        let Self { policy, now, .. } = self;
        let of_region = std::slice::from_ref(region);
        let FileSystemsObservation { items, uses, mut gaps } =
            observe_file_systems(aws, of_region, policy, Inquiry::OfScan, now, TIMEOUT).await;
        let findings = scan::file_systems(&items, &uses, policy, now).with_gaps_in(&mut gaps);
        PartialFindings { findings, gaps, ..PartialFindings::default() }
    }

    /// The known prices, with the Price List's answers.
    async fn ask_prices(self, aws: &Aws, wanted: &WantedPrices) -> Observed<PriceDocument> {
        let mut prices = self.known_prices.clone();
        let gaps = refresh(self.price_list.unwrap_or(aws), &mut prices, wanted, self.now, PRICES_TIMEOUT).await;
        Observed { items: prices, gaps }
    }

    fn price_book(self, prices: &PriceDocument) -> PriceBook {
        PriceBook::from_document(prices.clone(), &self.policy.config.prices, self.now)
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
#[derive(Default)]
struct PartialFindings {
    seen: usize,
    unjudged: usize,
    findings: Vec<ScanFinding>,
    near_keys: NearKeys,
    gaps: Vec<Gap>,
    prices: PriceDocument,
    price_gaps: Vec<Gap>,
    running: RunningTeams,
}

/// The types that run on demand without a list price of today.
fn unpriced_types(instances: &[Instance], prices: &PriceBook) -> BTreeSet<(Region, TypeName)> {
    let is_unpriced = |instance: &&Instance| {
        instance.purchase == PurchaseOption::OnDemand
            && instance.plain_linux
            && !has_list_price(prices.running_cost(instance))
    };
    let name = |instance: &Instance| (instance.region.clone(), instance.instance_type.clone());
    instances.iter().filter(is_unpriced).map(name).collect()
}

fn has_list_price(quote: Option<Quote>) -> bool {
    matches!(quote, Some(Quote { source: PriceSource::PriceList { of_today: true, .. }, .. }))
}
