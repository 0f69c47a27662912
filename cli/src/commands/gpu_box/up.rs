//! `curfew box up`: from one line to `ssh my-box`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use jobs::BoxJob;
use jobs::box_job::{BoxGpu, BoxInput, BoxPlace, NO_KEY, read_home_gib, read_until};
use jobs::boxes::{BoxLimits, GpuBox, HOME_GIB};
use model::config::Config;
use model::money::format_monthly_rate;
use recommend::GpuRequest;
use store::{Documents as _, ReconcilerDocuments as _, Store};
use tokio::signal::ctrl_c;

use super::extend::read_duration;
use super::find::{BoxId, find_holder, find_newest, find_report, jobs_of_box};
use super::follow::{follow, say_if_up};
use super::ssh_files::SshFolder;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::run::{cancel_or_detach, read_input, read_usd, read_variable};
use crate::commands::submit::{COMMAND_LINE, JobDocument, SubmitOptions, submit, wait_for_job};
use crate::context::CommandContext;
use crate::{screen, world};

/// Bring up a box, and wait until `ssh` opens it
#[derive(Debug, Args)]
#[command(
    after_help = "Without --gpu a box comes up as the last time. It ends at its end, once it is idle, or by `curfew box down`; its home, a disk of its \
                  own, stays. The key is made by ssh-keygen and lies in ~/.ssh/curfew. Exit codes: 0 it is up, or with --dry-run legal; 1 it has mistakes, \
                  was rejected, or got no machine; 2 error or incomplete result; 130 cancelled by Ctrl-C.\n\nExample:\n  \
                  curfew box up --gpu a10g --until 19:00 --home 200gb my-box\n  curfew box up my-box"
)]
pub(crate) struct Up {
    /// Name of the box: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    name: String,
    /// This GPU, and at least so many: a10g, h100:8, a100-80gb, 24gb, or an instance type [default: as the last time]
    #[arg(long, value_name = "GPU[:COUNT]")]
    gpu: Option<GpuRequest>,
    /// End it once it was idle for so long, by default 15m to 4h [default: 1h]
    #[arg(long, value_name = "DURATION")]
    idle: Option<String>,
    /// End it at this time of the day, such as 19:00, or at a moment (RFC 3339) [default: in 10 hours]
    #[arg(long, value_name = "TIME", conflicts_with = "lasts")]
    until: Option<String>,
    /// End it after so long, such as 10h
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<String>,
    /// Size of a new home, such as 200gb [default: 100gb]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| read_home_gib(text).map_err(|error| error.to_string()))]
    home: Option<u32>,
    /// Run it on Spot, which AWS may take back
    #[arg(long)]
    spot: bool,
    /// Bring this directory along into the home, except what git ignores
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    /// Run this line of shell each time that it comes up, before people can log in
    #[arg(long, value_name = "LINE")]
    setup: Option<String>,
    /// Put the objects of a folder of S3 into a directory; may be repeated
    #[arg(long, value_name = "s3://BUCKET/PREFIX/=DIRECTORY", value_parser = read_input)]
    input: Vec<(String, String)>,
    /// Set this variable to the value of a secret, or of a parameter of Systems Manager
    #[arg(long, value_name = "NAME=ARN", value_parser = read_variable)]
    secret: Vec<(String, String)>,
    /// Set this variable
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_variable)]
    env: Vec<(String, String)>,
    /// End its machine after this long, which nothing extends [default: the longest, 24h]
    #[arg(long, value_name = "DURATION")]
    max_runtime: Option<String>,
    /// Take no machine that costs more by the hour
    #[arg(long, value_name = "USD", value_parser = read_usd)]
    max_usd_per_hour: Option<f64>,
    /// Notify this person
    #[arg(long, value_name = "NAME", env = "CURFEW_OWNER", hide_env_values = true)]
    owner: Option<String>,
    #[command(flatten)]
    options: SubmitOptions,
    /// Cancel it if it has no machine after so long
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = read_duration)]
    wait: SignedDuration,
    /// Submit it and leave it starting
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

impl Up {
    pub(super) async fn run(mut self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        if context.global.json && !self.detach && !self.options.dry_run {
            return Err(CommandError::with("--json cannot print the steps of a box", "add --detach or --dry-run"));
        }
        let (team, name) = BoxId::read(&self.name)?;
        self.options.team.team = team.or(self.options.team.team);
        let store = context.needs_deployed().await?.store;
        let config = store.read_config().await?;
        let id = BoxId { team: self.options.team(&config)?, name };
        if !config.jobs.ssh {
            let advice = "submit a job with a command:  curfew run";
            return Err(CommandError::with("nobody could log in to a box ([jobs] ssh = false)", advice));
        }
        let gpu_box = store.read_box(&id.team, id.name.as_str()).await?.value;
        let wait = Duration::try_from(self.wait).map_err(CommandError::new)?;
        // One that another command has begun is followed like one's own.
        let is_followed = !self.detach && !self.options.dry_run && !context.global.json;
        if let Some(gpu_box) = gpu_box.as_ref().filter(|_| is_followed)
            && let Some(job) = find_holder(&store, gpu_box).await?.filter(|job| !job.is_removal())
            && find_report(&store, &job).await?.is_none()
        {
            return follow(context, &store, &id, &job.job, wait).await;
        }
        if let Some(gpu_box) = &gpu_box
            && say_if_up(context, &store, &id, gpu_box).await?
        {
            return Ok(CommandStatus::Success);
        }
        let home_gib_max = BoxLimits::from_config(&config, Some(&id.team)).home_gib_max();
        let job = self.to_job(context, &store, &id, gpu_box.as_ref(), home_gib_max).await?;
        if !context.global.json {
            self.print_home(context, &store, &config, gpu_box.as_ref(), &job).await;
        }
        let document = JobDocument {
            source: COMMAND_LINE.to_owned(),
            file_name: id.name.as_str().to_owned(),
            bytes: job.to_document().into_bytes(),
        };
        self.options.team.team = Some(id.team.clone());
        let submitted =
            Box::pin(submit(context, document, &self.options, self.workdir.as_deref(), self.detach)).await?;
        let (Some(job), Some(object)) = (submitted.job, submitted.object) else { return Ok(submitted.ending) };
        let keeps_starting = format!(
            "{} keeps starting. See it:  curfew box ls   End it:  curfew box down {}",
            id.full(),
            id.to_shell_word()
        );
        let come_up = async {
            let Some(job) = wait_for_job(&store, &object, COMMAND_LINE).await? else {
                return Ok(CommandStatus::Findings);
            };
            follow(context, &store, &id, &job, wait).await
        };
        tokio::select! {
            // First, so that it is caught from here on.
            biased;
            _ = ctrl_c() => cancel_or_detach(&store, &job, keeps_starting).await,
            ended = come_up => ended.map_err(|failure| CommandError {
                advice: failure.advice.or_else(|| Some(keeps_starting.clone())),
                ..failure
            }),
        }
    }

    /// The terms of the options; without a GPU those of the last time, with these options in place of its own.
    async fn to_job(
        &self,
        context: &CommandContext,
        store: &Store,
        id: &BoxId,
        gpu_box: Option<&GpuBox>,
        home_gib_max: u32,
    ) -> Result<BoxJob, CommandError> {
        let mut job = match &self.gpu {
            Some(gpu) => BoxJob { gpu: to_keys(gpu), ..BoxJob::default() },
            None => read_last(store, id).await?,
        };
        let zone = world::time_zone();
        let until = self.until.as_deref().map(|until| read_until(until, context.now, zone.as_ref()));
        let until = until.transpose().map_err(|why| CommandError::new(format!("--until {why}")))?;
        id.name.as_str().clone_into(&mut job.name);
        job.gpu_box.until = until.as_ref().map(Timestamp::to_string);
        job.gpu_box.lasts = self.lasts.clone().or(job.gpu_box.lasts).filter(|_| until.is_none());
        job.gpu_box.idle = self.idle.clone().or(job.gpu_box.idle);
        // The size is that of a new home: one that is there may be larger than what is allowed by now.
        let size_gib = gpu_box.map(|gpu_box| gpu_box.home.size_gib.min(home_gib_max));
        let default_gib = Some(HOME_GIB.min(home_gib_max));
        job.gpu_box.home_gib = size_gib.or(self.home).or(job.gpu_box.home_gib).or(default_gib);
        job.gpu_box.public_key =
            if self.options.dry_run { NO_KEY.to_owned() } else { SshFolder::open()?.make_key(id)? };
        job.owner = self.owner.clone().or(job.owner);
        job.setup = self.setup.clone().or(job.setup);
        job.workdir = job.workdir.filter(|_| self.workdir.is_none());
        job.spot.enabled |= self.spot;
        job.limits.max_runtime = self.max_runtime.clone().or(job.limits.max_runtime);
        job.limits.max_usd_per_hour = self.max_usd_per_hour.or(job.limits.max_usd_per_hour);
        // The home is in one region.
        let elsewhere = gpu_box.map(|gpu_box| &gpu_box.region).filter(|region| *region != context.aws.home());
        job.machine = BoxPlace { regions: elsewhere.iter().map(ToString::to_string).collect() };
        job.env.extend(self.env.iter().cloned());
        job.secrets.extend(self.secret.iter().cloned());
        if !self.input.is_empty() {
            job.inputs = self.input.iter().cloned().map(|(from, to)| BoxInput { from, to }).collect();
        }
        Ok(job)
    }

    /// Shows the size and the price of the home: it costs as long as it exists.
    async fn print_home(
        &self,
        context: &CommandContext,
        store: &Store,
        config: &Config,
        gpu_box: Option<&GpuBox>,
        job: &BoxJob,
    ) {
        let of_document = job.gpu_box.home_gib.unwrap_or(HOME_GIB);
        let size_gib = gpu_box.map_or(of_document, |gpu_box| gpu_box.home.size_gib);
        if let Some(other) = self.home.filter(|home| gpu_box.is_some() && *home != size_gib) {
            screen::warn(format!("its home has {size_gib} GB already; --home {other}gb is for a new one"));
        }
        let region = gpu_box.map_or_else(|| context.aws.home(), |gpu_box| &gpu_box.region);
        let quote = context.prices(Some(store), config).await.gp3_cost(region, u64::from(size_gib));
        let price = format_monthly_rate(quote.map(|quote| quote.rate));
        let place = match gpu_box.and_then(|gpu_box| gpu_box.home.volume.as_ref()) {
            Some(volume) => format!("{size_gib} GB in {}", volume.zone),
            None => format!("new, {size_gib} GB"),
        };
        screen::print_line(format!("Home: {place}, {price} while it exists"));
    }
}

fn to_keys(gpu: &GpuRequest) -> BoxGpu {
    BoxGpu {
        count: gpu.gpus,
        name: gpu.name.clone(),
        memory_gib_min: gpu.memory_gib_min,
        types: gpu.types.iter().map(ToString::to_string).collect(),
    }
}

/// The document of the newest job of a box.
async fn read_last(store: &Store, id: &BoxId) -> Result<BoxJob, CommandError> {
    let names = jobs_of_box(id, &store.jobs(Some(&id.team)).await?);
    let advice = format!("name its GPU:  curfew box up --gpu a10g {}", id.to_shell_word());
    let Some(last) = find_newest(store, names).await else {
        return Err(CommandError::with(format!("{} was never up", id.full()), advice));
    };
    let text = store.read_spec(&last.job).await?;
    let text = text.ok_or_else(|| CommandError::with(format!("{} has no document any more", last.job), &advice))?;
    BoxJob::from_document(&text).map_err(|why| {
        CommandError::with(format!("the document of {} was not written by `curfew box up`: {why}", last.job), advice)
    })
}
