//! `curfew cancel`: a person wants a job to end.

use clap::Args;
use domain::job::{Cancel as Wish, Job, Overview};
use jiff::Timestamp;
use serde::Serialize;

use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::meant::meant;
use crate::screen::{self, plain};
use crate::world;

/// End a job, whatever it is doing
#[derive(Debug, Args)]
#[command(
    after_help = "Its machine is terminated within a minute or two; its checkpoints and its log stay. What it wrote since its newest \
                  complete checkpoint is lost. A job that is cancelled does not come back: submit it again.\n\n\
                  Example:\n  curfew cancel llama\n  curfew cancel vision/llama-1a2b3c4d --yes"
)]
pub(crate) struct Cancel {
    /// <team>/<job>, or a part of that which no other job has
    #[arg(value_name = "JOB")]
    job: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    /// `cancelled`, or `unchanged` where it is over, or was cancelled, already; `declined` where the question was answered so.
    outcome: &'static str,
    cancel: Option<&'a Wish>,
    #[serde(flatten)]
    overview: &'a Overview,
}

impl Cancel {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let store = context.needs_deployed().await?.store;
        let job = meant(&store, &self.job).await?;
        let overview = Overview::of(&job, context.now);
        if overview.over {
            return said(context, &overview, "unchanged", None);
        }
        if let Some(before) = store.read_cancel(&job.job).await? {
            return said(context, &overview, "unchanged", Some(&before));
        }
        if !screen::confirm(question(&job, &overview), self.yes)? {
            return said(context, &overview, "declined", None);
        }
        let wish = Wish { at: whole_seconds(context.now), by: world::variable("USER") };
        store.cancel(&job.job, &wish).await?;
        said(context, &overview, "cancelled", Some(&wish))
    }
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn question(job: &Job, overview: &Overview) -> String {
    let machine = match &overview.machine {
        Some(machine) => format!(", and terminate {} ({})", machine.instance, machine.instance_type),
        None => String::new(),
    };
    let kept = match (job.terms.checkpoint.is_some(), overview.step) {
        (_, Some(step)) => format!(" Its checkpoint of step {step} stays."),
        (true, None) => " It has no complete checkpoint that anybody knows of.".to_owned(),
        (false, None) => String::new(),
    };
    plain(&format!("End {}, which is {}{machine}?{kept}", overview.job, overview.state))
}

fn said(
    context: &Context,
    overview: &Overview,
    outcome: &'static str,
    cancel: Option<&Wish>,
) -> Result<Ending, Failure> {
    if context.global.json {
        screen::json(&Document { schema: screen::SCHEMA, outcome, cancel, overview })?;
    } else {
        let job = plain(&overview.job.to_string());
        screen::say(match (outcome, cancel) {
            ("cancelled", _) => format!("{job}: is cancelled; what becomes of it:  curfew jobs {job}"),
            ("declined", _) => format!("{job}: not cancelled, it was not confirmed"),
            (_, Some(before)) => format!("{job}: was cancelled at {} (unchanged)", before.at),
            (_, None) => format!("{job}: is over, it has {} (unchanged)", past(overview.state)),
        });
    }
    Ok(if outcome == "declined" { Ending::Found } else { Ending::Fine })
}

fn past(state: &str) -> String {
    if state == "cancelled" { "been cancelled".to_owned() } else { state.to_owned() }
}
