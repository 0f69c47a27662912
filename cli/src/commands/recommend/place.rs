//! The places where a model fits, and their prices.

use std::collections::BTreeSet;
use std::path::PathBuf;

use billing::price::table_regions;
use clap::{Args, ValueEnum};
use jobs::Lifecycle;
use model::fault::InvalidValue;
use model::id::{Region, TypeName};
use model::partition::Partition;
use recommend::{
    AccountQuotas, DataPlace, GpuFeature, GpuOffer, JobDraft, PlacementFacts, PlacementRequest, RankBy, RankedPlace,
    RunDuration, interruption_history, rank_places, untabled_types,
};
use store::InputError;

use super::account::{Account, Deployed, REGIONS_MAX};
use super::numbers::{number, whole_number, words};
use super::workload::{GpuFit, Sized};
use crate::command_error::CommandError;
use crate::commands::scan::region;

/// A hundred years.
const HOURS_MAX: f64 = 876_600.0;

/// More than anybody has trained on.
const TOKENS_MAX: f64 = 1e18;

/// An exabyte.
const GB_MAX: u64 = 1_000_000_000;

const BYTES_PER_GB: u64 = 1_000_000_000;

#[derive(Debug, Args)]
#[command(next_help_heading = "Place")]
pub(super) struct PlaceArguments {
    /// Compare these regions, comma-separated [default: those of the configuration, else that of --region or the environment; without a
    /// region the commercial ones that the table has prices of]
    #[arg(long, value_name = "REGIONS", value_delimiter = ',', value_parser = region)]
    regions: Vec<Region>,
    /// Rank by what a run of so many hours costs
    #[arg(long, value_name = "HOURS", value_parser = hours, allow_negative_numbers = true, conflicts_with = "tokens")]
    hours: Option<f64>,
    /// Rank by what a run over so many tokens costs, such as 2b or 15t
    #[arg(long, value_name = "COUNT", value_parser = tokens, allow_hyphen_values = true)]
    tokens: Option<f64>,
    /// Rank by the price, by the time that --tokens takes, or by the carbon at full power; what is unknown comes last
    #[arg(long, value_name = "FIGURE", value_enum, default_value_t = RankArgument::Price)]
    rank: RankArgument,
    /// Count what it costs to read the data under this address once
    #[arg(long, value_name = "S3-URL", value_parser = s3_address)]
    data: Option<S3Address>,
    /// The size of the data in GB, instead of listing it
    #[arg(long, value_name = "GB", value_parser = whole_number::<u64>(1, GB_MAX), allow_negative_numbers = true, requires = "data_region")]
    data_gb: Option<u64>,
    /// The region of the data, instead of asking S3
    #[arg(long, value_name = "REGION", value_parser = region, requires = "data_gb")]
    data_region: Option<Region>,
    /// Only on Spot
    #[arg(long, conflicts_with = "on_demand")]
    spot: bool,
    /// Only on demand
    #[arg(long)]
    on_demand: bool,
    /// The CPU that the program runs on
    #[arg(long, value_name = "NAME", default_value = "x86_64", value_parser = ["x86_64", "arm64"])]
    architecture: String,
    /// Write a job for the best places to this file, which curfew submit takes; - for standard output
    #[arg(long, value_name = "FILE", requires = "command")]
    job: Option<PathBuf>,
    /// The command of that job
    #[arg(long, value_name = "COMMAND", value_parser = words, requires = "job")]
    command: Option<String>,
    /// The owner of that job
    #[arg(long, value_name = "NAME", value_parser = words, requires = "job")]
    owner: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RankArgument {
    /// The cost of a run at least, or of an hour
    Price,
    /// The time of a run at least
    Time,
    /// The operational carbon of a run at full power, or of an hour
    Carbon,
}

/// A bucket, and a prefix that may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct S3Address {
    pub(super) bucket: String,
    pub(super) prefix: String,
}

/// The ranking, and what it was made from.
pub(super) struct Ranking {
    pub(super) regions: Vec<Region>,
    pub(super) offers: Vec<GpuOffer>,
    pub(super) places: Vec<RankedPlace<GpuFit>>,
    pub(super) data: Option<DataPlace>,
    pub(super) duration: RunDuration,
    pub(super) rank_by: RankBy,
    /// The types of which the tables do not know whether these regions offer them; empty with AWS.
    pub(super) not_tabled: Vec<TypeName>,
    /// `true` if every region answered.
    pub(super) is_complete: bool,
}

impl PlaceArguments {
    pub(super) async fn rank(&self, account: &Account, sized: &Sized) -> Result<Ranking, CommandError> {
        if self.rank == RankArgument::Time && self.tokens.is_none() {
            return Err(CommandError::with(
                "--rank time needs --tokens: without it every place takes as long",
                "pass --tokens, such as --tokens 2b",
            ));
        }
        account.check_regions("--regions", &self.regions).await?;
        account.check_regions("--data-region", self.data_region.as_slice()).await?;
        // Before the deployment is looked for there.
        let home = if self.regions.is_empty() { account.home().await? } else { None };
        let deployed = account.deployed().await?;
        let regions = self.regions(home, &deployed)?;
        let data = self.data(account).await?;
        let (mut offers, is_complete) = account.offers(&regions).await;
        offers.retain(|offer| offer.architecture == self.architecture);
        let fits = |offer: &&GpuOffer| sized.fit(offer.shape()).is_some();
        let fitting: Vec<GpuOffer> = offers.iter().filter(fits).cloned().collect();
        let lifecycles = self.lifecycles(account);
        let prices = account.prices(&deployed, &fitting, lifecycles.contains(&Lifecycle::Spot)).await;
        let ledgers = account.ledgers(&deployed, Some(&regions), 1).await;
        let quotas = AccountQuotas::new(account.quotas(&regions).await, &ledgers);
        let interruptions = interruption_history(&ledgers);
        let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
        let duration = self.duration(sized);
        let architecture = self.architecture.clone();
        let features = GpuFeature::needed_by(&sized.workload);
        let rank_by = match self.rank {
            RankArgument::Price => RankBy::Price,
            RankArgument::Time => RankBy::Time,
            RankArgument::Carbon => RankBy::Carbon,
        };
        let not_tabled = if account.context.is_none() { untabled_types(&regions) } else { Vec::new() };
        let request = PlacementRequest { architecture, lifecycles, duration, data: data.clone(), features, rank_by };
        let places = rank_places(&request, &offers, facts, |shape| sized.fit(shape));
        Ok(Ranking { regions, offers, places, data, duration, rank_by, not_tabled, is_complete })
    }

    /// Returns the named regions, or else those of the configuration or the home region, or else those of the dated table.
    fn regions(&self, home: Option<&Region>, deployed: &Deployed) -> Result<Vec<Region>, CommandError> {
        let configured = &deployed.config.regions;
        let regions: BTreeSet<Region> = if !self.regions.is_empty() {
            self.regions.iter().cloned().collect()
        } else if !configured.is_empty() {
            configured.iter().cloned().collect()
        } else {
            home.map_or_else(table_regions_for_all, |home| BTreeSet::from([home.clone()]))
        };
        if regions.len() > REGIONS_MAX {
            return Err(CommandError::new(format!(
                "--regions: {} are more than AWS has; name at most {REGIONS_MAX}",
                regions.len()
            )));
        }
        Ok(regions.into_iter().collect())
    }

    /// Returns the ways to buy. Spot prices are unknown without AWS: then it is on demand only, unless Spot is requested.
    fn lifecycles(&self, account: &Account) -> Vec<Lifecycle> {
        match (self.spot, self.on_demand) {
            (true, _) => vec![Lifecycle::Spot],
            (_, true) => vec![Lifecycle::OnDemand],
            _ if account.context.is_none() => vec![Lifecycle::OnDemand],
            _ => vec![Lifecycle::Spot, Lifecycle::OnDemand],
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "hours lie between 0 and a hundred years"
    )]
    fn duration(&self, sized: &Sized) -> RunDuration {
        match (self.hours, self.tokens) {
            (Some(hours), _) => RunDuration::Seconds((hours * 3_600.0).ceil() as u64),
            (None, Some(tokens)) => sized.work(tokens),
            (None, None) => RunDuration::Unknown,
        }
    }

    async fn data(&self, account: &Account) -> Result<Option<DataPlace>, CommandError> {
        if let (Some(gb), Some(region)) = (self.data_gb, &self.data_region) {
            return Ok(Some(DataPlace { region: region.clone(), bytes: gb.saturating_mul(BYTES_PER_GB) }));
        }
        let Some(address) = &self.data else { return Ok(None) };
        let context = account.context.as_ref().ok_or_else(|| {
            CommandError::with(
                format!("s3://{}/{} cannot be listed: {}", address.bucket, address.prefix, account.why_offline),
                "say where the data is and how large: --data-region us-east-1 --data-gb 500",
            )
        })?;
        let measured = store::measure_data(context.aws.sdk_config(), &address.bucket, &address.prefix).await;
        let measured = measured.map_err(|error| match error {
            InputError::Store(error) => error.into(),
            error => CommandError::new(error.to_string()),
        })?;
        Ok(Some(DataPlace { region: measured.region, bytes: measured.bytes }))
    }

    /// Writes the job; `None` if none was requested.
    pub(super) fn write_job(&self, sized: &Sized, ranking: &Ranking) -> Result<Option<String>, CommandError> {
        let (Some(file), Some(command)) = (&self.job, &self.command) else { return Ok(None) };
        let best = ranking.places.iter().find(|place| place.usd_per_hour.is_some() && !place.quota.is_refused());
        let draft = JobDraft {
            purpose: &format!("curfew recommend {} --task {}", sized.name, sized.workload.task),
            command,
            owner: self.owner.as_deref(),
            gpus: best.map_or(1, |place| place.used_gpus),
            on_spot: !self.on_demand,
        };
        let text = draft.to_document(&ranking.places).ok_or_else(|| {
            CommandError::new("no job was written: no place that fits has a known price and a quota that allows it")
        })?;
        if file.as_os_str() == "-" {
            return Ok(Some(text));
        }
        std::fs::write(file, &text)
            .map_err(|error| CommandError::new(format!("{} could not be written: {error}", file.display())))?;
        Ok(Some(file.display().to_string()))
    }

    /// Returns `true` if the job goes to standard output, instead of the table.
    pub(super) fn prints_job(&self) -> bool {
        self.job.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }
}

/// The regions of the dated table that any account may have.
pub(in crate::commands) fn table_regions_for_all() -> BTreeSet<Region> {
    let is_commercial =
        |region: &Region| Partition::find(region.as_str()).is_some_and(|partition| partition.name == "aws");
    table_regions().into_iter().filter(is_commercial).collect()
}

fn hours(text: &str) -> Result<f64, InvalidValue> {
    number(text, HOURS_MAX, |hours| hours > 0.0, "a number of hours above 0 without a unit, such as 8 or 0.5")
}

/// `2b`, `1.5t`: thousands, millions, billions, trillions.
fn tokens(text: &str) -> Result<f64, InvalidValue> {
    let text = text.to_ascii_lowercase();
    let units = [('k', 1e3), ('m', 1e6), ('b', 1e9), ('t', 1e12)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit))).unwrap_or((text.as_str(), 1.0));
    let tokens = digits.parse::<f64>().ok().map(|digits| digits * unit);
    tokens
        .filter(|tokens| *tokens >= 1.0 && *tokens <= TOKENS_MAX)
        .ok_or_else(|| InvalidValue::new("write a number of tokens such as 500m, 2b or 15t, 1000000t at most"))
}

fn s3_address(text: &str) -> Result<S3Address, InvalidValue> {
    let (bucket, prefix) =
        text.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, ""))).unwrap_or_default();
    let is_legal = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b".-".contains(&letter);
    // Amazon S3 user guide, "General purpose bucket naming rules".
    if (3..=63).contains(&bucket.len()) && bucket.bytes().all(is_legal) {
        Ok(S3Address { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    } else {
        Err(InvalidValue::new("write it as s3://bucket/prefix"))
    }
}
