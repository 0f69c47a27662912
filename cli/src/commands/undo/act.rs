//! Doing it, and looking until it is done.

use std::time::Duration;

use billing::restoration::Restoration;
use cloud::CallError;
use cloud::operator::{LocateResult, ResourceKind, create_volume, locate, start};
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::observation::ObservedResource;
use model::sagemaker::{EndpointOrigin, SageMakerResource, SageMakerStatus};
use model::volume::VolumeState;
use tokio::time::{Instant, sleep};

use crate::command_error::describe_call_error;
use crate::context::CommandContext;
use crate::screen;

/// An instance runs within seconds, bare metal within minutes; a volume is available within seconds.
const TIMEOUT: Duration = Duration::from_mins(3);
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Time in which EC2 may show the previous state, or not know a new resource (EC2 API reference, "Eventual consistency").
const NOT_YET: Duration = Duration::from_secs(30);

/// The reason why it was not done, and whether the result is unknown.
pub(super) struct UndoFailure {
    pub(super) why: String,
    pub(super) unanswered: bool,
}

fn not_done(why: impl Into<String>) -> UndoFailure {
    UndoFailure { why: why.into(), unanswered: false }
}

impl From<CallError> for UndoFailure {
    fn from(error: CallError) -> Self {
        let more = match error.code.as_deref() {
            _ if error.kind.is_unanswered() => "; its result is unknown: run undo again, which does it only once",
            Some("IdempotentParameterMismatch") => {
                "; within the last day it was made again with other tags: --again makes another"
            }
            _ => "",
        };
        Self { why: format!("{}{more}", describe_call_error(&error)), unanswered: true }
    }
}

/// Starts an instance, and looks until it runs: a start may be accepted and come to nothing.
pub(super) async fn start_instance(context: &CommandContext, before: &Instance) -> Result<(), UndoFailure> {
    let Instance { id, region, .. } = before;
    let asked = start(&context.aws, region, id).await;
    let unanswered = match asked {
        Ok(()) => None,
        Err(error) if error.kind.is_unanswered() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let began = Instant::now();
    let mut shown = None;
    while began.elapsed() < TIMEOUT {
        if let LocateResult::Here(seen) = locate_resource(context, region, ResourceKind::Instance, id).await
            && let Some(now) = seen.instance()
        {
            match now.state {
                InstanceState::Running => return Ok(()),
                InstanceState::Pending => print_if_new(&mut shown, &format!("{id} is starting")),
                // A new life that is over already; or the old one, which EC2 still shows.
                _ if now.launched_at != before.launched_at || began.elapsed() > NOT_YET => {
                    return Err(match unanswered {
                        Some(error) => error.into(),
                        None => not_done(came_to_nothing(now)),
                    });
                }
                _ => {}
            }
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(not_done(format!("EC2 took the start, but {id} does not run after {} s: look at it again", TIMEOUT.as_secs())))
}

/// Starts a notebook instance, and looks until `SageMaker` starts it: until it is in service takes minutes.
pub(super) async fn start_notebook(context: &CommandContext, before: &SageMakerResource) -> Result<(), UndoFailure> {
    let asked = cloud::operator::start_notebook(&context.aws, before).await;
    wait_until_begun(context, &before.region, &before.id, asked).await
}

/// Gives an inference component its copies back, and looks until `SageMaker` makes them, which takes minutes.
pub(super) async fn scale_up(
    context: &CommandContext,
    before: &SageMakerResource,
    copies: u32,
) -> Result<(), UndoFailure> {
    let asked = cloud::operator::set_copies(&context.aws, before, copies).await;
    wait_until_begun(context, &before.region, &before.id, asked).await
}

/// Makes an endpoint again, and looks until `SageMaker` makes it: until it is in service takes minutes.
pub(super) async fn create_endpoint(
    context: &CommandContext,
    region: &Region,
    id: &ResourceId,
    origin: &EndpointOrigin,
) -> Result<(), UndoFailure> {
    let asked = cloud::operator::create_endpoint(&context.aws, region, origin).await;
    wait_until_begun(context, region, id, asked).await
}

/// Looks until the resource begins to run. A call that was not answered is not repeated: the look shows what it did.
async fn wait_until_begun(
    context: &CommandContext,
    region: &Region,
    id: &ResourceId,
    asked: Result<(), CallError>,
) -> Result<(), UndoFailure> {
    if let Some(error) = asked.err().filter(|error| !error.kind.is_unanswered()) {
        return Err(error.into());
    }
    let began = Instant::now();
    while began.elapsed() < NOT_YET {
        if let LocateResult::Here(seen) = locate_resource(context, region, ResourceKind::SageMaker, id).await
            && let ObservedResource::SageMaker(now) = *seen
            && matches!(now.status, SageMakerStatus::Changing | SageMakerStatus::Running)
        {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(not_done(format!("SageMaker does not show {id} as running after {} s: look at it again", NOT_YET.as_secs())))
}

/// AWS re:Post, knowledge center, `kms-iam-ec2-permission`: with volumes under a customer's key, the caller that starts it must be allowed to make EC2 a grant for the key.
fn came_to_nothing(instance: &Instance) -> String {
    let code = instance.state_reason.as_deref().unwrap_or("no reason");
    let advice = match instance.last_start_failed() {
        Some(code) if code.contains("InternalError") => {
            "; as a rule the KMS key of an encrypted volume: grant kms:CreateGrant on it to the caller"
        }
        Some(_) => "; AWS has no capacity for its type there now: try again later",
        None => "",
    };
    format!("EC2 took the start and gave it up ({code}){advice}")
}

/// Makes a volume again, and looks until it is available. Answers its id.
pub(super) async fn restore_volume(
    context: &CommandContext,
    restoration: &Restoration,
    again: bool,
) -> Result<ResourceId, UndoFailure> {
    let token = token(restoration, again.then_some(context.now));
    let made = create_volume(&context.aws, restoration, &token).await?;
    let Restoration { region, snapshot, .. } = restoration;
    let began = Instant::now();
    let mut shown = None;
    while began.elapsed() < TIMEOUT {
        match locate_resource(context, region, ResourceKind::Volume, &made).await {
            LocateResult::Here(seen) => match *seen {
                ObservedResource::Volume(volume)
                    if matches!(volume.state, VolumeState::Available | VolumeState::InUse) =>
                {
                    return Ok(made);
                }
                ObservedResource::Volume(volume) if volume.state == VolumeState::Creating => {
                    print_if_new(&mut shown, &format!("{made} is being made"));
                }
                _ => return Err(not_done(given_up(&made, snapshot))),
            },
            LocateResult::Nowhere if began.elapsed() > NOT_YET => return Err(not_done(given_up(&made, snapshot))),
            LocateResult::Nowhere | LocateResult::Unknown(_) => {}
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(not_done(format!("{made} is not available after {} s: look at it again", TIMEOUT.as_secs())))
}

/// EC2 API reference, `CreateVolume`: the KMS key is checked asynchronously, so that the call can succeed and the volume fail.
fn given_up(made: &ResourceId, snapshot: &ResourceId) -> String {
    format!(
        "EC2 began {made} and gave it up: where {snapshot} is encrypted, grant kms:CreateGrant and kms:Decrypt on its key to \
         whoever restores it; where {made} was restored before and deleted, --again makes another"
    )
}

/// Returns a client token of at most 64 characters (EC2 API reference, "Ensuring idempotency"): the longest ids make 55.
fn token(restoration: &Restoration, again_at: Option<Timestamp>) -> String {
    let Restoration { volume, snapshot, .. } = restoration;
    let again = again_at.map(|at| format!("-{}", at.as_second())).unwrap_or_default();
    format!("{volume}-{snapshot}{again}")
}

async fn locate_resource(
    context: &CommandContext,
    region: &Region,
    kind: ResourceKind,
    id: &ResourceId,
) -> LocateResult {
    locate(&context.aws, std::slice::from_ref(region), kind, id).await
}

/// Says what is new.
fn print_if_new(shown: &mut Option<String>, line: &str) {
    if shown.as_deref() != Some(line) {
        screen::progress(line);
        *shown = Some(line.to_owned());
    }
}
