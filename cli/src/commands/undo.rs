//! `curfew undo`.

mod act;
mod find;
mod trail;

use billing::price;
use billing::price::Quote;
use billing::restoration::Restoration;
use clap::Args;
use model::id::{Region, ResourceId};
use model::known_sum::KnownSum;
use model::money;
use model::money::Rate;
use operator::undo;
use serde::Serialize;

use self::act::UndoFailure;
use self::find::{UndoCase, UndoMethod, UndoSearch};
use self::trail::{AuditTrail, RecordedAction};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::named_resource::{EnabledRegions, ResourceArgument};
use crate::screen;

/// Start what Curfew stopped, and restore what it deleted
#[derive(Debug, Args)]
#[command(
    after_help = "It starts an instance and watches until it runs. It restores a volume from its safety snapshot, with \
                        its zone, type, size and tags, under a new id. It starts a notebook instance of SageMaker, gives an \
                        inference component its copies back, and makes an endpoint again from its configuration and tags.\n\nExample:\n  curfew undo vol-0123456789abcdef0"
)]
pub(crate) struct Undo {
    /// Ids, such as i-0123456789abcdef0 or vol-0123456789abcdef0; or the Name of a GPU instance
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<ResourceArgument>,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
    /// Restore a volume again that was restored already
    #[arg(long)]
    again: bool,
}

#[derive(Debug, Serialize)]
struct UndoResult<'a> {
    region: Option<&'a Region>,
    resource: &'a ResourceId,
    outcome: UndoOutcome,
    restored_as: Option<ResourceId>,
    snapshot: Option<&'a ResourceId>,
    usd_per_hour: Option<Rate>,
    #[serde(serialize_with = "money::as_usd_per_month")]
    usd_per_month: Option<Rate>,
    ended_by: Option<&'a RecordedAction>,
    next: Option<String>,
    error: Option<String>,
    #[serde(skip)]
    unanswered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum UndoOutcome {
    Started,
    Restored,
    Unchanged,
    Failed,
}

#[derive(Debug, Serialize)]
struct UndoOutput<'a> {
    resources: &'a [UndoResult<'a>],
}

impl Undo {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let everywhere = EnabledRegions::load(context).await;
        let trail = AuditTrail::open(context).await;
        let prices = trail.prices(context).await;
        let search = UndoSearch { context, everywhere: &everywhere, trail: &trail, again: self.again, prices: &prices };
        let mut cases = Vec::new();
        for named in &everywhere.resolve(context, &self.resources).await? {
            let case = search.case(named).await;
            describe(&case);
            cases.push(case);
        }
        let any = cases.iter().any(|case| !matches!(case.way, UndoMethod::None { .. }));
        let confirmed = any && screen::confirm(question(&cases), self.yes)?;
        let mut undone = Vec::new();
        for case in &cases {
            let one = if confirmed { self.undo(context, case).await } else { unchanged(case, "it was not confirmed") };
            if !context.global.json {
                show(&one, case);
            }
            undone.push(one);
        }
        if context.global.json {
            screen::json(&UndoOutput { resources: &undone })?;
        }
        let is_done = |one: &UndoResult<'_>| matches!(one.outcome, UndoOutcome::Started | UndoOutcome::Restored);
        if undone.iter().any(|one| one.unanswered) {
            screen::progress(format!("({})", context.whereabouts()));
        }
        Ok(match (undone.iter().all(is_done), undone.iter().all(|one| one.unanswered)) {
            (true, _) => CommandStatus::Success,
            (false, true) => CommandStatus::Error,
            (false, false) => CommandStatus::Findings,
        })
    }

    async fn undo<'a>(&self, context: &CommandContext, case: &'a UndoCase) -> UndoResult<'a> {
        let failed = |UndoFailure { why, unanswered }| UndoResult {
            outcome: UndoOutcome::Failed,
            unanswered,
            ..unchanged(case, &why)
        };
        match &case.way {
            UndoMethod::Start { instance, stopped } => match act::start_instance(context, instance).await {
                Ok(()) => {
                    let next = Some(undo::describe_next_action(instance, *stopped, context.now));
                    UndoResult { outcome: UndoOutcome::Started, next, error: None, ..unchanged(case, "") }
                }
                Err(error) => failed(error),
            },
            UndoMethod::Restore { restoration } => match act::restore_volume(context, restoration, self.again).await {
                Ok(made) => {
                    let next = Some(attach(restoration, &made, case.ended.as_ref()));
                    UndoResult {
                        outcome: UndoOutcome::Restored,
                        restored_as: Some(made),
                        next,
                        error: None,
                        ..unchanged(case, "")
                    }
                }
                Err(error) => failed(error),
            },
            UndoMethod::StartNotebook { notebook } => match act::start_notebook(context, notebook).await {
                Ok(()) => UndoResult { outcome: UndoOutcome::Started, error: None, ..unchanged(case, "") },
                Err(error) => failed(error),
            },
            UndoMethod::ScaleUp { component, copies } => match act::scale_up(context, component, *copies).await {
                Ok(()) => UndoResult { outcome: UndoOutcome::Started, error: None, ..unchanged(case, "") },
                Err(error) => failed(error),
            },
            UndoMethod::CreateEndpoint { region, origin } => {
                match act::create_endpoint(context, region, &case.resource, origin).await {
                    Ok(()) => UndoResult {
                        outcome: UndoOutcome::Restored,
                        restored_as: Some(case.resource.clone()),
                        error: None,
                        ..unchanged(case, "")
                    },
                    Err(error) => failed(error),
                }
            }
            UndoMethod::None { .. } => unchanged(case, ""),
        }
    }
}

/// One that is not touched; `why`, unless that stands in the case.
fn unchanged<'a>(case: &'a UndoCase, why: &str) -> UndoResult<'a> {
    let (why, unanswered) = match &case.way {
        UndoMethod::None { why, unanswered } => (why.as_str(), *unanswered),
        _ => (why, false),
    };
    let snapshot = match &case.way {
        UndoMethod::Restore { restoration } => Some(&restoration.snapshot),
        _ => None,
    };
    UndoResult {
        region: case.region.as_ref(),
        resource: &case.resource,
        outcome: if unanswered { UndoOutcome::Failed } else { UndoOutcome::Unchanged },
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

/// Describes the proposed action, before anybody is asked.
fn describe(case: &UndoCase) {
    let by = case.ended.as_ref().map(|ended| format!(" by {ended}")).unwrap_or_default();
    match &case.way {
        UndoMethod::Start { instance, stopped } => {
            let by =
                if by.is_empty() { format!(" by Curfew at {}, for the rule {}", stopped.at, stopped.rule) } else { by };
            let costs = price::format_quote(case.costs);
            let what = format!("{} ({}, {})", instance.id, instance.instance_type, instance.region);
            screen::propose(format!("{what}: stopped{by}; running it costs again: {costs}"));
        }
        UndoMethod::Restore { restoration } => {
            let Restoration { volume, snapshot, origin, .. } = &**restoration;
            let what = format!("{volume} ({} GiB {}, {})", origin.size_gib, origin.volume_type, origin.zone);
            let costs = price::format_monthly_quote(case.costs);
            screen::propose(format!("{what}: deleted{by}; made again from {snapshot} it costs: {costs}"));
        }
        UndoMethod::StartNotebook { notebook } => {
            let what = format!("{} ({})", notebook.id, notebook.region);
            screen::propose(format!("{what}: stopped{by}; running it costs again, at a price that is not known"));
        }
        UndoMethod::ScaleUp { component, copies } => {
            let what = format!("{} ({})", component.id, component.region);
            screen::propose(format!(
                "{what}: scaled to zero{by}; with {copies} copies it costs again, at a price that is not known"
            ));
        }
        UndoMethod::CreateEndpoint { region, origin } => {
            let what = format!("{} ({region})", case.resource);
            let config = &origin.config;
            screen::propose(format!(
                "{what}: deleted{by}; made again from {config} it costs again, at a price that is not known"
            ));
        }
        UndoMethod::None { .. } => {}
    }
}

fn question(cases: &[UndoCase]) -> String {
    let starts =
        part(cases, "start", "instance", |way| matches!(way, UndoMethod::Start { .. }), |rate| rate.to_string());
    let restores = part(
        cases,
        "restore",
        "volume",
        |way| matches!(way, UndoMethod::Restore { .. }),
        // Too small to be told by the hour.
        |rate| money::format_monthly_rate(Some(rate)),
    );
    let is_notebook = |way: &UndoMethod| matches!(way, UndoMethod::StartNotebook { .. });
    let is_endpoint = |way: &UndoMethod| matches!(way, UndoMethod::CreateEndpoint { .. });
    let notebooks = part(cases, "start", "notebook instance", is_notebook, |rate| rate.to_string());
    let is_component = |way: &UndoMethod| matches!(way, UndoMethod::ScaleUp { .. });
    let components = part(cases, "scale up", "inference component", is_component, |rate| rate.to_string());
    let endpoints = part(cases, "make again", "endpoint", is_endpoint, |rate| rate.to_string());
    let parts: Vec<String> = [starts, restores, notebooks, components, endpoints].into_iter().flatten().collect();
    format!("This will {}. Go on?", parts.join(", and "))
}

/// Describes the actions on all resources of one kind, and their total cost; `None` if there are none.
fn part(
    cases: &[UndoCase],
    verb: &str,
    what: &str,
    is_it: fn(&UndoMethod) -> bool,
    show: fn(Rate) -> String,
) -> Option<String> {
    let costs: Vec<Option<Quote>> = cases.iter().filter(|case| is_it(&case.way)).map(|case| case.costs).collect();
    let many = match costs.len() {
        0 => return None,
        1 => "",
        _ => "s",
    };
    let sum = KnownSum::from_parts(costs.iter().copied().map(price::rate));
    let costs_them = match sum.known() {
        None => "at a price that is not known".to_owned(),
        Some(_) => format!("for {}", price::with_caveats(sum.describe(show), costs.iter().copied().flatten())),
    };
    Some(format!("{verb} {} {what}{many}, {costs_them}", costs.len()))
}

/// AWS CLI command reference, "ec2 attach-volume". EC2 does not say what its device was called: `/dev/sdf` is the first of
/// those that the EC2 user guide recommends for data volumes ("Device names for volumes").
fn attach(Restoration { region, .. }: &Restoration, made: &ResourceId, ended: Option<&RecordedAction>) -> String {
    let host = ended.and_then(|ended| ended.last_attached_to.as_deref());
    let known = host.map(|host| format!(", where it was last attached to {host}")).unwrap_or_default();
    format!(
        "attach it again{known}: aws ec2 attach-volume --region {region} --volume-id {made} --instance-id {} \
         --device /dev/sdf",
        host.unwrap_or("INSTANCE")
    )
}

fn show(one: &UndoResult<'_>, case: &UndoCase) {
    let UndoResult { region, resource, outcome, restored_as, next, error, .. } = one;
    let place = region.map(|region| format!(" ({region})")).unwrap_or_default();
    let is = match (outcome, restored_as, &case.way) {
        (UndoOutcome::Started, ..) => "it runs".to_owned(),
        (UndoOutcome::Restored, Some(made), UndoMethod::Restore { restoration }) => {
            format!("restored as {made} in {}", restoration.origin.zone)
        }
        (UndoOutcome::Restored, ..) => "it is made again, and in service once SageMaker has its instances".to_owned(),
        _ => {
            let why = error.as_deref().unwrap_or_default();
            return screen::complain(&CommandError::new(format!("{resource}{place}: {why}")));
        }
    };
    screen::print_line(format!("{resource}{place}: {is}"));
    if let Some(next) = next {
        screen::print_line(format!("  {next}"));
    }
}
