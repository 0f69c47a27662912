//! `curfew recommend`: which GPU, where, and how to pay for it.

pub(super) mod account;
mod commitment;
mod from_usage;
mod numbers;
pub(super) mod place;
mod purchase;
mod show;
mod workload;

use clap::{ArgGroup, Args, Subcommand};
use model::foreign_text::shell_word;
use model::id::{Region, TeamName, TypeName};
use recommend::{DataPlace, RankBy, RankedPlace, suit_remedies, table_date};
use serde::Serialize;
use sizing::{MemoryEstimate, Remedy, Workload};

use self::account::Account;
use self::place::{PlaceArguments, Ranking};
use self::workload::{GpuFit, ModelArguments, Sized, Spread};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::global_options::GlobalOptions;
use crate::screen;

/// Recommend GPU types, regions and ways to pay for a model
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    group = ArgGroup::new("what").required(true),
    after_help = "Without credentials it goes by the tables that come with Curfew, and says so. What has no known price comes last. Exit \
        codes: 0 something fits; 1 nothing fits, or nothing that fits has a price and a quota that allows it, or with --from-usage \
        something could cost less; 2 error, or a region could \
        not be read.\n\nExample:\n  \
        curfew recommend --params 7b --task qlora --batch 4 --gradient-checkpointing\n  \
        curfew recommend --params 70b --precision int4 --context 8k --regions us-east-1,us-west-2 --hours 24\n  \
        curfew recommend --hf-config config.json --task full --tokens 2b --job job.toml --command ./train.sh\n  \
        curfew recommend --params 7b --task lora --tokens 1b --rank carbon\n  \
        curfew recommend --from-usage vision"
)]
pub(crate) struct Recommend {
    #[command(subcommand)]
    payment: Option<Payment>,
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    place: PlaceArguments,
    /// Find what could cost less by what was used, of all teams or of this one
    #[arg(long, value_name = "TEAM", num_args = 0..=1, default_missing_value = "", group = "what", conflicts_with_all = NOT_OF_USAGE)]
    from_usage: Option<String>,
    /// Show every part of the memory with its formula and source, and how it spreads over several GPUs
    #[arg(long)]
    explain: bool,
    /// Show every place, instead of the first 10
    #[arg(long)]
    all: bool,
    /// Ask AWS nothing: go by the tables that come with Curfew
    #[arg(long)]
    offline: bool,
}

/// Options that a recommendation by usage refuses: it has neither a model nor a place to choose.
const NOT_OF_USAGE: [&str; 32] = [
    "offline",
    "explain",
    "all",
    "task",
    "precision",
    "context",
    "batch",
    "optimizer",
    "gradient_checkpointing",
    "lora_rank",
    "lora_targets",
    "prefill_chunk",
    "pure_bf16",
    "fused_loss",
    "offload",
    "gpus",
    "active",
    "regions",
    "hours",
    "tokens",
    "rank",
    "data",
    "data_gb",
    "data_region",
    "spot",
    "on_demand",
    "architecture",
    "job",
    "command",
    "owner",
    "params",
    "hf_config",
];

/// The ways to pay.
#[derive(Debug, Subcommand)]
enum Payment {
    Commitment(commitment::CommitmentArguments),
    Purchase(purchase::Purchase),
}

/// ```json
/// {"schema": 1, "at": "…", "model": "7b", "parameters": 7000000000, "active_parameters": 7000000000,
///  "workload": {"task": "inference", "precision": "bf16", "as_published": false, "batch": 1, "tokens": 4096, …},
///  "estimate": {"strategy": "data", "gpus": 1, …, "weights_gib": 13.039, …, "total_gib": 14.929, "host_gib": 0.0, "assumptions": ["…"]},
///  "explanation": "…", "spreads": [{"strategy": "data", "gib_by_gpus": [[1, 14.93], [2, 14.93], [4, 14.93], [8, 14.93]]}, …],
///  "source": "table of 2026-11-24; --offline", "regions": ["us-east-1"], "rank": "price", "not_tabled": ["p5e.48xlarge"],
///  "data": {"region": "us-east-1", "bytes": 1000000000},
///  "places": [{"type": "g6.xlarge", "region": "us-east-1", "lifecycle": "on-demand", "zone": null, "gpus": 1, "used_gpus": 1, "gpu_name": "L4",
///              "gpu_memory_mib": 22888, "vcpus": 4, "lacks": [], "fit": {"strategy": "data", "gpus": 1, "needed_bytes": 16030171136, "usable_bytes": 21599826660},
///              "usd_per_hour": 0.8048, "price_source": "table of 2026-09-24", "run": {"least_hours": 8.0, "most_hours": 8.0},
///              "cost": {"least_usd": 6.438624, "most_usd": null}, "footprint_per_hour": {"energy_kwh": {"low": 0.014, "high": 0.13}, …},
///              "quota": {"verdict": "unknown"}, "interruptions": null, "data": {"egress_usd": 0.0, "load_seconds_least": 1}}, …],
///  "too_small": [{"gpu_name": "T4", "gpu_memory_mib": 16384, "remedies": [{"change": {"precision": "int8"}, …}]}, …],
///  "job": null}
/// ```
/// `places` are in the order of `rank`, best first; `not_tabled` has the types of which the tables do not know whether these regions offer them; `lacks` is what a GPU has not in hardware of `bf16`, `tf32`, `fp8` and `flash-attention`, as far as
/// the workload asks for it; unknown values are null: nothing says how long loading `data` takes at most, so then `most_usd` is. With AWS a
/// `quota` also has `code`, `granted_vcpus` and `used_vcpus`, and `interruptions` are `runs`, `interrupted`, `unknown` and `seconds`.
/// `explanation` and `spreads` are there with `--explain`. `too_small` has the GPUs that cannot hold the workload alone, with each single
/// change that makes it fit. `source` is `AWS`, or the tables.
#[derive(Serialize)]
struct RecommendOutput<'a> {
    at: jiff::Timestamp,
    model: &'a str,
    parameters: u64,
    active_parameters: u64,
    workload: Workload,
    estimate: &'a MemoryEstimate,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spreads: Vec<Spread>,
    source: String,
    regions: Vec<Region>,
    rank: RankBy,
    not_tabled: &'a [TypeName],
    data: Option<DataPlace>,
    places: &'a [RankedPlace<GpuFit>],
    too_small: Vec<TooSmall>,
    job: Option<String>,
}

/// A GPU that does not hold the workload alone.
#[derive(Debug, Serialize)]
struct TooSmall {
    gpu_name: String,
    gpu_memory_mib: u32,
    remedies: Vec<Remedy>,
}

impl Recommend {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        match self.payment {
            Some(Payment::Commitment(commitment)) => {
                let account = Account::connect(global, false).await?;
                account.blame(commitment.run(&account).await)
            }
            Some(Payment::Purchase(purchase)) => {
                let account = Account::connect(global, purchase.is_offline()).await?;
                account.blame(purchase.run(&account).await)
            }
            None if self.from_usage.is_some() => {
                let account = Account::connect(global, false).await?;
                let team = self.from_usage.as_deref().filter(|team| !team.is_empty()).map(TeamName::from);
                account.blame(from_usage::run(&account, team.as_ref()).await)
            }
            None => {
                let sized = self.model.size()?;
                let account = Account::connect(global, self.offline).await?;
                account.blame(self.recommend(&account, &sized).await)
            }
        }
    }

    async fn recommend(&self, account: &Account, sized: &Sized) -> Result<CommandStatus, CommandError> {
        let ranking = self.place.rank(account, sized).await?;
        let too_small = too_small(sized, &ranking);
        let job = self.place.write_job(sized, &ranking)?;
        let source = source(account);
        if account.json {
            let explain = |wanted: bool| wanted.then(|| sized.on_one_gpu.explain());
            screen::json(&RecommendOutput {
                at: account.now,
                model: &sized.architecture.name,
                parameters: sized.on_one_gpu.parameters.total,
                active_parameters: sized.on_one_gpu.parameters.active,
                workload: sized.workload,
                estimate: &sized.on_one_gpu,
                explanation: explain(self.explain),
                spreads: if self.explain { sized.spreads() } else { Vec::new() },
                source,
                regions: ranking.regions.clone(),
                rank: ranking.rank_by,
                not_tabled: &ranking.not_tabled,
                data: ranking.data.clone(),
                places: &ranking.places,
                too_small,
                job,
            })?;
        } else if self.place.prints_job() {
            screen::print_document(job.unwrap_or_default().trim_end());
        } else {
            show::estimate(sized, self.explain);
            show::places(&ranking, &source, self.all);
            if account.context.is_none() {
                show::without_offers(&ranking);
            }
            show::too_small(&too_small, ranking.places.is_empty() && !ranking.offers.is_empty());
            if let Some(file) = job {
                let word = shell_word(&file);
                screen::progress(format!("the job is {file}; submit it:  curfew submit {word} --dry-run"));
            }
        }
        let is_launchable = |place: &RankedPlace<GpuFit>| place.usd_per_hour.is_some() && !place.quota.is_refused();
        Ok(match () {
            () if !ranking.is_complete => CommandStatus::Error,
            () if ranking.places.iter().any(is_launchable) => CommandStatus::Success,
            () => CommandStatus::Findings,
        })
    }
}

/// The source of the types.
fn source(account: &Account) -> String {
    match account.context {
        Some(_) => "AWS".to_owned(),
        None => format!("table of {}; {}", table_date(), account.why_offline),
    }
}

/// Each kind of GPU once, the smallest first.
fn too_small(sized: &Sized, ranking: &Ranking) -> Vec<TooSmall> {
    let mut kinds: Vec<(u32, &str)> =
        ranking.offers.iter().map(|offer| (offer.gpu_memory_mib, offer.gpu_name.as_str())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mib = |mib: u32| u64::from(mib) << 20;
    let alone = kinds.into_iter().filter(|(memory, _)| !sized.fits_one(mib(*memory)));
    alone
        .map(|(gpu_memory_mib, gpu_name)| TooSmall {
            gpu_name: gpu_name.to_owned(),
            gpu_memory_mib,
            remedies: suit_remedies(sized.remedies(mib(gpu_memory_mib)), gpu_name),
        })
        .collect()
}
