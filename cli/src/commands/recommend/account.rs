//! The facts about the account that a recommendation reads: as many as the credentials allow, and none without them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::ledger::{CalendarMonth, Ledger};
use billing::price::{PriceBook, PriceDocument};
use cloud::gpu_offers;
use cloud::operator::{ConnectionOptions, named_region, quotas};
use futures::future::join_all;
use jiff::Timestamp;
use model::config::Config;
use model::id::{Region, TypeName};
use model::region;
use recommend::{GpuOffer, tabled_offers};
use store::{Documents as _, LedgerDocuments as _, Store, StoreError};

use crate::command_error::{CommandError, describe_call_error, describe_gap, describe_store_error};
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;
use crate::list_prices::{PriceCache, WantedPrices, refresh};
use crate::{screen, world};

/// The timeout of the Price List; a price without an answer is that of the table, or unknown.
const PRICES_TIMEOUT: Duration = Duration::from_secs(30);

/// More regions than AWS has.
pub(in crate::commands) const REGIONS_MAX: usize = 60;

fn check_against(option: &str, regions: &[Region], enabled: &[Region]) -> Result<(), CommandError> {
    let refusal = regions.iter().find_map(|region| region::check_exists(region, enabled).err());
    refusal.map_or(Ok(()), |refusal| Err(CommandError::new(format!("{option}: {refusal}"))))
}

/// The sources of prices, quotas and history.
pub(in crate::commands) struct Account {
    /// `None`: without credentials, or with --offline.
    pub(in crate::commands) context: Option<CommandContext>,
    /// The region of the deployment, if one is named.
    home: Option<Region>,
    pub(in crate::commands) now: Timestamp,
    pub(in crate::commands) json: bool,
    /// The reason why there is no context.
    pub(in crate::commands) why_offline: &'static str,
}

/// A deployment and its configuration, if there is one.
pub(in crate::commands) struct Deployed {
    pub(in crate::commands) store: Option<Store>,
    pub(in crate::commands) config: Config,
}

/// Ledgers of several months.
#[derive(Default)]
pub(in crate::commands) struct LedgersRead {
    pub(in crate::commands) ledgers: Vec<Ledger>,
    /// Ledgers, or lists of them, that could not be read.
    pub(in crate::commands) unread: usize,
    /// Months without a ledger, `yyyy-mm`.
    pub(in crate::commands) absent: Vec<String>,
}

impl LedgersRead {
    fn warn(&mut self, error: &StoreError) {
        self.unread += 1;
        screen::warn(describe_store_error(error));
    }
}

impl Account {
    /// Looks for credentials, except with `offline`. If a profile is named, its absence is an error.
    pub(in crate::commands) async fn connect(global: GlobalOptions, offline: bool) -> Result<Self, CommandError> {
        let (now, json) = (world::clock(), global.json);
        let options =
            ConnectionOptions { profile: global.profile.clone(), region: global.region.as_deref().map(Region::from) };
        let context = if offline { None } else { CommandContext::connect_if_possible(global).await?.ok() };
        let home = match &context {
            Some(context) => Some(context.aws.home().clone()),
            None => named_region(&options).await,
        };
        let why_offline = if offline { "--offline" } else { "no credentials" };
        Ok(Self { context, home, now, json, why_offline })
    }

    /// The region of `--region`, of the environment or of the profile.
    ///
    /// # Errors
    /// AWS has no such region.
    pub(in crate::commands) async fn home(&self) -> Result<Option<&Region>, CommandError> {
        self.check_regions("--region, or AWS_REGION", self.home.as_slice()).await?;
        Ok(self.home.as_ref())
    }

    /// Refuses regions that AWS does not have. It is asked about those that are not in the list that comes with Curfew.
    pub(in crate::commands) async fn check_regions(
        &self,
        option: &str,
        regions: &[Region],
    ) -> Result<(), CommandError> {
        let Some(context) = self.context.as_ref().filter(|_| !regions.iter().all(region::is_known)) else {
            return check_against(option, regions, &[]);
        };
        let enabled = cloud::regions(&context.aws, &Config::default()).await;
        let enabled = if enabled.gaps.is_empty() { enabled.items } else { Vec::new() };
        check_against(option, regions, &enabled)
    }

    /// Adds the credentials to an error.
    pub(in crate::commands) fn blame<T>(&self, done: Result<T, CommandError>) -> Result<T, CommandError> {
        done.map_err(|failure| match &self.context {
            Some(context) => context.blame(failure),
            None => failure,
        })
    }

    /// # Errors
    /// Without credentials.
    pub(in crate::commands) fn needs_context(&self) -> Result<&CommandContext, CommandError> {
        self.context.as_ref().ok_or_else(|| {
            CommandError::with(
                format!("the ledger cannot be read: {}", self.why_offline),
                "set AWS_PROFILE, or pass --profile",
            )
        })
    }

    /// The deployment. It may be missing, unless a bucket is named.
    pub(in crate::commands) async fn deployed(&self) -> Result<Deployed, CommandError> {
        let Some(context) = &self.context else { return Ok(Deployed { store: None, config: Config::default() }) };
        let read = async {
            let Some(deployed) = context.deployed().await? else { return Ok(None) };
            Ok::<_, CommandError>(Some((deployed.store.read_config().await?, deployed.store)))
        };
        match read.await {
            Ok(Some((config, store))) => Ok(Deployed { store: Some(store), config }),
            Ok(None) => Ok(Deployed { store: None, config: Config::default() }),
            Err(failure) if context.global.bucket.is_some() => Err(context.blame(failure)),
            Err(failure) => {
                screen::warn(format_args!("{}; quotas in use and interruptions are unknown", failure.problem));
                Ok(Deployed { store: None, config: Config::default() })
            }
        }
    }

    /// Every type of these regions, from the table without AWS; and whether all regions answered.
    pub(in crate::commands) async fn offers(&self, regions: &[Region]) -> (Vec<GpuOffer>, bool) {
        let Some(context) = &self.context else { return (tabled_offers(regions), true) };
        let looks = regions.iter().map(|region| gpu_offers(&context.aws, region));
        let (mut offers, mut is_complete) = (Vec::new(), true);
        for answer in join_all(looks).await {
            match answer {
                Ok(of_region) => offers.extend(of_region),
                Err(error) => {
                    is_complete = false;
                    screen::warn(describe_call_error(&error));
                }
            }
        }
        (offers, is_complete)
    }

    /// The stored prices, with missing and old ones of these types refreshed, and kept in the user's cache.
    pub(in crate::commands) async fn prices(
        &self,
        deployed: &Deployed,
        offers: &[GpuOffer],
        on_spot: bool,
    ) -> PriceBook {
        let mut known = match &deployed.store {
            Some(store) => match store.read_prices().await {
                Ok(versioned) => versioned.value,
                Err(error) => {
                    screen::warn(describe_store_error(&error));
                    PriceDocument::default()
                }
            },
            None => PriceDocument::default(),
        };
        if let Some(context) = &self.context {
            let cache = PriceCache::locate(&context.aws);
            known.merge(cache.as_ref().map(|cache| cache.load(self.now)).unwrap_or_default());
            let names = || offers.iter().map(|offer| (offer.region.clone(), offer.instance_type.clone()));
            let wanted = WantedPrices { on_demand: names().collect(), ..WantedPrices::default() };
            let mut gaps = refresh(&context.aws, &mut known, &wanted, self.now, PRICES_TIMEOUT).await;
            context.cache_prices(&known);
            let spot: BTreeSet<(Region, TypeName)> = names().filter(|_| on_spot).collect();
            let spot = known.wanted_of_types(&BTreeSet::new(), &spot, self.now);
            gaps.extend(cloud::prices(&context.aws, &mut known, &spot, self.now, PRICES_TIMEOUT).await);
            for gap in gaps {
                screen::warn(describe_gap(&gap));
            }
        }
        PriceBook::from_document(known, &deployed.config.prices, self.now)
    }

    /// The quotas of these regions. A region that does not answer is unknown.
    pub(in crate::commands) async fn quotas(&self, regions: &[Region]) -> BTreeMap<Region, BTreeMap<String, f64>> {
        let Some(context) = &self.context else { return BTreeMap::new() };
        let looks = regions.iter().map(|region| async move { (region.clone(), quotas(&context.aws, region).await) });
        let mut granted = BTreeMap::new();
        for (region, answer) in join_all(looks).await {
            match answer {
                Ok(values) => {
                    granted.insert(region, values);
                }
                Err(error) => screen::warn(describe_call_error(&error)),
            }
        }
        granted
    }

    /// The ledgers of this month and of so many before it, of these regions; without regions, of all that have one.
    pub(in crate::commands) async fn ledgers(
        &self,
        deployed: &Deployed,
        regions: Option<&[Region]>,
        months_before: usize,
    ) -> Vec<Ledger> {
        self.read_ledgers(deployed, regions, months_before).await.ledgers
    }

    /// These facts, with the failed reads.
    pub(in crate::commands) async fn read_ledgers(
        &self,
        deployed: &Deployed,
        regions: Option<&[Region]>,
        months_before: usize,
    ) -> LedgersRead {
        let mut read_all = LedgersRead::default();
        let Some(store) = &deployed.store else { return read_all };
        let mut month = CalendarMonth::containing(self.now, &deployed.config.account.zone());
        for _ in 0..=months_before {
            match store.list_ledgers(&month).await {
                Ok(listed) => {
                    if listed.is_empty() {
                        read_all.absent.push(month.to_string());
                    }
                    let wanted = listed.iter().filter(|region| regions.is_none_or(|named| named.contains(region)));
                    for read in join_all(wanted.map(|region| store.read_ledger(&month, region))).await {
                        match read {
                            Ok(read) => read_all.ledgers.push(read.value),
                            Err(error) => read_all.warn(&error),
                        }
                    }
                }
                Err(error) => read_all.warn(&error),
            }
            month = month.previous();
        }
        read_all
    }
}
