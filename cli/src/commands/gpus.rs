//! `curfew gpus`: types with accelerators, their prices by region, and the account's quotas.

use std::collections::{BTreeMap, BTreeSet};

use billing::price::PriceBook;
use clap::Args;
use jiff::Timestamp;
use model::id::Region;
use model::money::{Amount, Rate};
use recommend::{
    GpuOffer, ListingFacts, ListingFilter, TypeListing, TypePlace, list_types, table_date, tabled_types, untabled_types,
};
use serde::Serialize;

use super::recommend::account::Account;
use super::recommend::place::table_regions_for_all;
use super::scan::region;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::global_options::GlobalOptions;
use crate::screen::{self, ColumnAlignment, Table};

const HOUR_SECONDS: u64 = 3_600;

/// The most types that a sentence names.
const NAMED_MAX: usize = 8;

/// List accelerated types with their memory, their prices by region, and the account's quotas
#[derive(Debug, Args)]
#[command(
    after_help = "Without credentials it goes by the tables that come with Curfew, which have prices on demand alone. Exit codes: 0 \
                        listed; 1 no region is known to offer it; 2 error, or a region could not be read.\n\nExample:\n  \
                        curfew gpus\n  curfew gpus h100\n  curfew gpus g6e.xlarge --regions us-east-1,eu-west-1 --json"
)]
pub(crate) struct Gpus {
    /// List this GPU, family or type alone, such as h100, p5 or p5.48xlarge, with every region
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Look at these regions, comma-separated [default: those of the configuration, else that of --region or the environment; without
    /// credentials the commercial ones that the table has prices of]
    #[arg(long, value_name = "REGIONS", value_delimiter = ',', value_parser = region)]
    regions: Vec<Region>,
    /// Ask AWS nothing: go by the tables that come with Curfew
    #[arg(long)]
    offline: bool,
}

/// ```json
/// {"schema": 1, "at": "…", "source": "AWS", "regions": ["us-east-1"], "not_tabled": [],
///  "types": [{"type": "p5.48xlarge", "accelerator": "NVIDIA H100", "accelerators": 8.0, "accelerator_memory_mib": 81920, "vcpus": 192,
///             "memory_gib": 2048, "network_gbps": 3200, "is_for_jobs": true, "is_retired": false,
///             "places": [{"region": "us-east-1", "usd_per_hour": 55.04, "price_source": "table of 2026-09-24", "spot_usd_per_hour": 20.1,
///                         "spot_zone": "us-east-1b", "quota_vcpus": 192.0, "spot_quota_vcpus": 0.0}]}]}
/// ```
/// Unknown values are null. `not_tabled` has the types for jobs of which the tables do not know whether these regions offer them.
#[derive(Serialize)]
struct GpusOutput {
    at: Timestamp,
    source: String,
    regions: Vec<Region>,
    not_tabled: Vec<String>,
    types: Vec<TypeListing>,
}

impl Gpus {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let account = Account::connect(global, self.offline).await?;
        account.blame(self.list(&account).await)
    }

    async fn list(&self, account: &Account) -> Result<CommandStatus, CommandError> {
        account.check_regions("--regions", &self.regions).await?;
        // Before any call for them: a wrong name costs none.
        if account.context.is_none() {
            self.filter(&[])?;
        }
        let home = if self.regions.is_empty() && account.context.is_some() { account.home().await? } else { None };
        let deployed = account.deployed().await?;
        let regions: BTreeSet<Region> = if !self.regions.is_empty() {
            self.regions.iter().cloned().collect()
        } else if deployed.config.regions.is_empty() {
            home.map_or_else(table_regions_for_all, |home| BTreeSet::from([home.clone()]))
        } else {
            deployed.config.regions.iter().cloned().collect()
        };
        let regions: Vec<Region> = regions.into_iter().collect();
        let (offers, is_complete) = account.offers(&regions).await;
        let filter = self.filter(&offers)?;
        let kept: Vec<GpuOffer> =
            offers.iter().filter(|offer| filter.has(offer.instance_type.as_str(), &offer.gpu_name)).cloned().collect();
        let prices = match account.context {
            Some(_) => account.prices(&deployed, &kept, true).await,
            None => PriceBook::dated(),
        };
        let quotas = if account.context.is_some() { account.quotas(&regions).await } else { BTreeMap::new() };
        let offers = account.context.is_some().then_some(offers.as_slice());
        let types = list_types(&filter, &regions, ListingFacts { prices: &prices, offers, quotas: &quotas });
        let not_tabled = if offers.is_some() { Vec::new() } else { not_tabled(&filter, &regions) };
        let source = match account.context {
            Some(_) => "AWS".to_owned(),
            None => format!("table of {}; {}", table_date(), account.why_offline),
        };
        let is_offered = types.iter().any(|listing| !listing.places.is_empty());
        let output = GpusOutput { at: account.now, source, regions, not_tabled, types };
        if account.json {
            screen::json(&output)?;
        } else {
            output.show(self.name.is_some());
        }
        Ok(match (is_complete, is_offered) {
            (false, _) => CommandStatus::Error,
            (true, true) => CommandStatus::Success,
            (true, false) => CommandStatus::Findings,
        })
    }

    fn filter(&self, offers: &[GpuOffer]) -> Result<ListingFilter, CommandError> {
        ListingFilter::new(self.name.as_deref(), offers).map_err(CommandError::new)
    }
}

/// The types for jobs that the tables know in none of these regions.
fn not_tabled(filter: &ListingFilter, regions: &[Region]) -> Vec<String> {
    let unknown = untabled_types(regions);
    let types = tabled_types().into_iter();
    let kept = types.filter(|offer| filter.has(offer.instance_type.as_str(), &offer.gpu_name));
    kept.filter(|offer| unknown.contains(&offer.instance_type)).map(|offer| offer.instance_type.to_string()).collect()
}

impl GpusOutput {
    fn show(&self, is_named: bool) {
        let regions = match self.regions.as_slice() {
            [only] => only.to_string(),
            regions => format!("{} regions", regions.len()),
        };
        screen::print_line(format!("In {regions} ({}):", self.source));
        if is_named {
            self.types.iter().for_each(show_type);
        } else {
            self.show_all();
        }
        if !self.not_tabled.is_empty() {
            let names: Vec<&str> = self.not_tabled.iter().take(NAMED_MAX).map(String::as_str).collect();
            let more = self.not_tabled.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            screen::print_line(format!(
                "Without AWS it is unknown whether these regions offer {}{more}.",
                names.join(", ")
            ));
        }
        let sources: BTreeSet<&str> = self.places().filter_map(|place| place.price_source.as_deref()).collect();
        if !sources.is_empty() {
            let sources: Vec<&str> = sources.into_iter().collect();
            screen::print_line(format!("Prices on demand: {}.", sources.join(", ")));
        }
    }

    fn places(&self) -> impl Iterator<Item = &TypePlace> {
        self.types.iter().flat_map(|listing| &listing.places)
    }

    /// One row for each type, with both prices of the region that is the cheapest on demand.
    fn show_all(&self) {
        let right = ColumnAlignment::Right;
        let mut table = Table::new([
            ("type", ColumnAlignment::Whole),
            ("GPUs", ColumnAlignment::Left),
            ("GiB each", right),
            ("vCPUs", right),
            ("GiB", right),
            ("USD/h", right),
            ("Spot", right),
            ("where", ColumnAlignment::Whole),
        ])
        .sparing(1);
        for listing in self.types.iter().filter(|listing| !listing.places.is_empty()) {
            let more = listing.places.len().saturating_sub(1);
            let place = listing.places.first();
            let region = place.map(|place| place.region.to_string()).unwrap_or_default();
            table.row([
                listing.instance_type.to_string(),
                format!("{} {}", listing.accelerators, short(&listing.accelerator)),
                gib(listing.accelerator_memory_mib),
                optional(listing.vcpus),
                optional(listing.memory_gib),
                dollars(place.and_then(|place| place.usd_per_hour)),
                dollars(place.and_then(|place| place.spot_usd_per_hour)),
                if more > 0 { format!("{region} and {more} more") } else { region },
            ]);
        }
        if table.is_empty() {
            screen::print_line("No type is known to be offered there.");
        } else {
            table.print();
        }
    }
}

/// A heading, and a row for each region.
fn show_type(listing: &TypeListing) {
    let retired = if listing.is_retired { "; AWS retires its family" } else { "" };
    let network = listing.network_gbps.map(|gbps| format!(", {gbps} Gbit/s")).unwrap_or_default();
    screen::print_line(format!(
        "\n{}: {} {} with {} GiB each, {} vCPUs, {} GiB{network}{}{retired}",
        listing.instance_type,
        listing.accelerators,
        short(&listing.accelerator),
        gib(listing.accelerator_memory_mib),
        optional(listing.vcpus),
        optional(listing.memory_gib),
        if listing.is_for_jobs { "" } else { "; not for jobs" }
    ));
    if listing.places.is_empty() {
        return screen::print_line("  No region here is known to offer it.");
    }
    let right = ColumnAlignment::Right;
    let mut table = Table::new([
        ("region", ColumnAlignment::Whole),
        ("USD/h", right),
        ("Spot", right),
        ("zone", ColumnAlignment::Whole),
        ("quota", right),
        ("on Spot", right),
    ]);
    for place in &listing.places {
        table.row([
            place.region.to_string(),
            dollars(place.usd_per_hour),
            dollars(place.spot_usd_per_hour),
            place.spot_zone.clone().unwrap_or_else(|| "-".to_owned()),
            vcpus(place.quota_vcpus),
            vcpus(place.spot_quota_vcpus),
        ]);
    }
    table.print();
}

/// The name without its maker.
fn short(accelerator: &str) -> &str {
    accelerator.split_once(' ').map_or(accelerator, |(_, name)| name)
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn gib(mib: Option<u32>) -> String {
    mib.map_or_else(|| "-".to_owned(), |mib| (mib / 1_024).to_string())
}

fn vcpus(quota: Option<f64>) -> String {
    quota.map_or_else(|| "-".to_owned(), |vcpus| format!("{vcpus} vCPUs"))
}

fn dollars(rate: Option<Rate>) -> String {
    let amount = |rate| Amount::from_rate(rate, HOUR_SECONDS).to_string().trim_start_matches('$').to_owned();
    rate.map_or_else(|| "-".to_owned(), amount)
}
