//! `curfew undo`.

mod act;
mod find;
mod trail;

use clap::Args;
use domain::id::{Region, ResourceId};
use domain::money::{self, Rate};
use domain::price::{self, Quote};
use domain::restoration::Restoration;
use domain::undo;
use serde::Serialize;

use self::act::NotDone;
use self::find::{Case, Search, Way};
use self::trail::{Ended, Trail};
use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::named::{Everywhere, Named};
use crate::screen;

/// Start what Curfew stopped, and restore what it deleted
#[derive(Debug, Args)]
#[command(
    after_help = "An instance is started and watched until it runs. A volume is made again from its safety snapshot, with \
                        its zone, type, size and tags, under a new id.\n\nExample:\n  curfew undo vol-0123456789abcdef0"
)]
pub(crate) struct Undo {
    /// Ids, such as i-0123456789abcdef0 or vol-0123456789abcdef0
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<Named>,
    /// Do it without being asked
    #[arg(long, short)]
    yes: bool,
    /// Make a volume once more that was made again already
    #[arg(long)]
    again: bool,
}

/// What became of one resource, for programs.
#[derive(Debug, Serialize)]
struct Undone<'a> {
    region: Option<&'a Region>,
    resource: &'a ResourceId,
    outcome: Outcome,
    restored_as: Option<ResourceId>,
    snapshot: Option<&'a ResourceId>,
    usd_per_hour: Option<Rate>,
    #[serde(serialize_with = "money::as_usd_per_month")]
    usd_per_month: Option<Rate>,
    ended_by: Option<&'a Ended>,
    next: Option<String>,
    error: Option<String>,
    #[serde(skip)]
    unanswered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Started,
    Restored,
    Unchanged,
    Failed,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    resources: &'a [Undone<'a>],
}

impl Undo {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let everywhere = Everywhere::of(context).await;
        let trail = Trail::of(context).await;
        let prices = trail.prices(context).await;
        let search = Search { context, everywhere: &everywhere, trail: &trail, again: self.again, prices: &prices };
        let mut cases = Vec::new();
        for named in &self.resources {
            let case = search.case(named).await;
            describe(&case);
            cases.push(case);
        }
        let any = cases.iter().any(|case| !matches!(case.way, Way::None { .. }));
        let confirmed = any && screen::confirm(question(&cases), self.yes)?;
        let mut undone = Vec::new();
        for case in &cases {
            let one = if confirmed { self.undo(context, case).await } else { left(case, "it was not confirmed") };
            if !context.global.json {
                show(&one, case);
            }
            undone.push(one);
        }
        if context.global.json {
            screen::json(&Document { schema: screen::SCHEMA, resources: &undone })?;
        }
        let is_done = |one: &Undone<'_>| matches!(one.outcome, Outcome::Started | Outcome::Restored);
        if undone.iter().any(|one| one.unanswered) {
            screen::progress(format!("({})", context.whereabouts()));
        }
        Ok(match (undone.iter().all(is_done), undone.iter().all(|one| one.unanswered)) {
            (true, _) => Ending::Fine,
            (false, true) => Ending::Trouble,
            (false, false) => Ending::Found,
        })
    }

    async fn undo<'a>(&self, context: &Context, case: &'a Case) -> Undone<'a> {
        let failed = |NotDone { why, unanswered }| Undone { outcome: Outcome::Failed, unanswered, ..left(case, &why) };
        match &case.way {
            Way::Start { instance, stopped } => match act::start_instance(context, instance).await {
                Ok(()) => {
                    let next = Some(undo::next(instance, stopped, context.now));
                    Undone { outcome: Outcome::Started, next, error: None, ..left(case, "") }
                }
                Err(error) => failed(error),
            },
            Way::Restore { restoration } => match act::restore_volume(context, restoration, self.again).await {
                Ok(made) => {
                    let next = Some(attach(restoration, &made, case.ended.as_ref()));
                    Undone { outcome: Outcome::Restored, restored_as: Some(made), next, error: None, ..left(case, "") }
                }
                Err(error) => failed(error),
            },
            Way::None { .. } => left(case, ""),
        }
    }
}

/// One that is not touched; `why`, unless that stands in the case.
fn left<'a>(case: &'a Case, why: &str) -> Undone<'a> {
    let (why, unanswered) = match &case.way {
        Way::None { why, unanswered } => (why.as_str(), *unanswered),
        Way::Start { .. } | Way::Restore { .. } => (why, false),
    };
    let snapshot = match &case.way {
        Way::Restore { restoration } => Some(&restoration.snapshot),
        Way::Start { .. } | Way::None { .. } => None,
    };
    Undone {
        region: case.region.as_ref(),
        resource: &case.resource,
        outcome: if unanswered { Outcome::Failed } else { Outcome::Unchanged },
        restored_as: None,
        snapshot,
        usd_per_hour: price::rate(case.costs),
        usd_per_month: price::rate(case.costs),
        ended_by: case.ended.as_ref(),
        next: None,
        error: Some(why.to_owned()),
        unanswered,
    }
}

/// What is proposed, before anybody is asked.
fn describe(case: &Case) {
    let by = case.ended.as_ref().map(|ended| format!(" by {ended}")).unwrap_or_default();
    match &case.way {
        Way::Start { instance, stopped } => {
            let by =
                if by.is_empty() { format!(" by Curfew at {}, for the rule {}", stopped.at, stopped.rule) } else { by };
            let costs = price::show(case.costs);
            let what = format!("{} ({}, {})", instance.id, instance.instance_type, instance.region);
            screen::propose(format!("{what}: stopped{by}; running it costs again: {costs}"));
        }
        Way::Restore { restoration } => {
            let Restoration { volume, snapshot, origin, .. } = &**restoration;
            let what = format!("{volume} ({} GiB {}, {})", origin.size_gib, origin.volume_type, origin.zone);
            let costs = price::show_monthly(case.costs);
            screen::propose(format!("{what}: deleted{by}; made again from {snapshot} it costs: {costs}"));
        }
        Way::None { .. } => {}
    }
}

fn question(cases: &[Case]) -> String {
    let starts = part(cases, "start", "instance", |way| matches!(way, Way::Start { .. }), |rate| rate.to_string());
    let restores = part(
        cases,
        "restore",
        "volume",
        |way| matches!(way, Way::Restore { .. }),
        // Too small to be told by the hour.
        |rate| money::show_monthly(Some(rate)),
    );
    let parts: Vec<String> = [starts, restores].into_iter().flatten().collect();
    format!("This will {}. Go on?", parts.join(", and "))
}

/// What is done to all of one kind, and what they cost together; `None` where there are none.
fn part(cases: &[Case], verb: &str, what: &str, is_it: fn(&Way) -> bool, show: fn(Rate) -> String) -> Option<String> {
    let costs: Vec<Option<Quote>> = cases.iter().filter(|case| is_it(&case.way)).map(|case| case.costs).collect();
    let many = match costs.len() {
        0 => return None,
        1 => "",
        _ => "s",
    };
    let known: Vec<Quote> = costs.iter().copied().flatten().collect();
    let sum = price::with_caveats(show(known.iter().map(|quote| quote.rate).sum()), known.iter().copied());
    let costs_them = match known.len() {
        0 => "at a price that is not known".to_owned(),
        all if all == costs.len() => format!("for {sum}"),
        _ => format!("for {sum} and what has no known price"),
    };
    Some(format!("{verb} {} {what}{many}, {costs_them}", costs.len()))
}

/// AWS CLI command reference, "ec2 attach-volume". EC2 does not say what its device was called: `/dev/sdf` is the first of
/// those that the EC2 user guide recommends for data volumes ("Device names for volumes").
fn attach(Restoration { region, .. }: &Restoration, made: &ResourceId, ended: Option<&Ended>) -> String {
    let host = ended.and_then(|ended| ended.last_attached_to.as_deref());
    let known = host.map(|host| format!(", where it was last seen on {host}")).unwrap_or_default();
    format!(
        "attach it again{known}: aws ec2 attach-volume --region {region} --volume-id {made} --instance-id {} \
         --device /dev/sdf",
        host.unwrap_or("INSTANCE")
    )
}

fn show(one: &Undone<'_>, case: &Case) {
    let Undone { region, resource, outcome, restored_as, next, error, .. } = one;
    let place = region.map(|region| format!(" ({region})")).unwrap_or_default();
    let is = match (outcome, restored_as, &case.way) {
        (Outcome::Started, ..) => "it runs".to_owned(),
        (Outcome::Restored, Some(made), Way::Restore { restoration }) => {
            format!("restored as {made} in {}", restoration.origin.zone)
        }
        _ => {
            let why = error.as_deref().unwrap_or_default();
            return screen::complain(&Failure::of(format!("{resource}{place}: {why}")));
        }
    };
    screen::say(format!("{resource}{place}: {is}"));
    if let Some(next) = next {
        screen::say(format!("  {next}"));
    }
}
