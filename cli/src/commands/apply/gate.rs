//! The conditions under which nothing may be stopped or deleted, whatever the plan says.

use jiff::{SignedDuration, Timestamp};
use model::ceiling::Ceiling;
use model::channels::NotificationChannels;
use model::config::Config;
use model::duration;
use model::mode::Mode;
use model::moment::CLOCK_SKEW_MAX;
use operator::doctor::runs::FUNCTIONS;
use plan::report::RunRecord;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::context::{CommandContext, DeployedResources, FunctionCeiling, own_ceiling};
use crate::world;

/// Age up to which a plan may be applied. An older review says too little about the resources as they are now, and every run makes a new
/// plan.
const APPLY_WITHIN: SignedDuration = SignedDuration::from_hours(24);

/// The functions whose plans leave something to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReapFunction {
    Instances,
    Volumes,
    SageMaker,
}

impl ReapFunction {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Instances => "reap-instances",
            Self::Volumes => "reap-volumes",
            Self::SageMaker => "reap-sagemaker",
        }
    }

    const ALL: [Self; 3] = [Self::Instances, Self::Volumes, Self::SageMaker];

    fn from_record(record: &RunRecord) -> Result<Self, CommandError> {
        Self::ALL.into_iter().find(|function| function.as_str() == record.function).ok_or_else(|| {
            CommandError::new(format!(
                "this version of the command does not know what {} does; update it",
                record.function
            ))
        })
    }
}

/// The permission to carry out a plan, with its terms.
pub(super) struct ApplyGate {
    pub(super) function: ReapFunction,
    pub(super) config: Config,
    pub(super) channels: NotificationChannels,
    pub(super) ceiling: Ceiling,
}

impl ApplyGate {
    /// Passes where the plan is young, the function is alive and enforces, its configuration can be read, and somebody hears
    /// what is done. Asked again before anything is ended, where a person took their time.
    pub(super) async fn pass(
        context: &CommandContext,
        deployed: &DeployedResources,
        record: &RunRecord,
        now: Timestamp,
    ) -> Result<Self, CommandError> {
        let function = ReapFunction::from_record(record)?;
        refuse_what_is_to_come(record, now)?;
        refuse_the_old(record, now)?;
        refuse_observe_mode(deployed, function, now).await?;
        let config = deployed.store.read_config().await?;
        let topics = deployed.topics.clone().ok_or_else(|| {
            let advice = "pass --topic-arn, or set CURFEW_TOPIC_ARN to the stack's output";
            CommandError::with("nobody would be notified: no topic is named", advice)
        })?;
        let subscriptions = cloud::sns::subscriptions(&context.aws, &topics).await?;
        if !subscriptions.has_confirmed() {
            let problem = format!("the topic {} has no confirmed subscription", topics.teams);
            return Err(CommandError::with(
                problem,
                "subscribe somebody and confirm the e-mail; nothing is stopped without a notification",
            ));
        }
        let chat_topic_arn = deployed.chat_topic_arn.clone();
        // Only functions write links: the bucket's policy lets nobody else.
        let (event_bus, reply_url) = (world::variable("CURFEW_EVENT_BUS"), None);
        let channels = NotificationChannels { topics, chat_topic_arn, event_bus, reply_url };
        let ceiling = Ceiling::with_readers(Mode::Enforce, function.as_str(), subscriptions);
        Ok(Self { function, config, channels, ceiling })
    }
}

/// A moment that is yet to come is never too old.
fn refuse_what_is_to_come(record: &RunRecord, now: Timestamp) -> Result<(), CommandError> {
    if record.at.duration_since(now) <= CLOCK_SKEW_MAX {
        return Ok(());
    }
    let problem = format!("run {} of {} is of {}, which is in the future", record.run, record.function, record.at);
    Err(CommandError::with(problem, "set this machine's clock; if it is right, no run wrote that: look at who did"))
}

fn refuse_the_old(record: &RunRecord, now: Timestamp) -> Result<(), CommandError> {
    let age = now.duration_since(record.at);
    if age <= APPLY_WITHIN {
        return Ok(());
    }
    let (age, within) = (duration::format_duration(age), duration::format_duration(APPLY_WITHIN));
    let problem = format!("run {} is {age} old, and a plan is carried out within {within} only", record.run);
    Err(CommandError::with(problem, "every run makes a new one: review the newest that `curfew plans` lists"))
}

async fn refuse_observe_mode(
    deployed: &DeployedResources,
    function: ReapFunction,
    now: Timestamp,
) -> Result<(), CommandError> {
    let name = function.as_str();
    if own_ceiling()? == Some(Mode::Observe) {
        let advice = "it stops every action; unset it, or set it to enforce, if you want to act";
        return Err(CommandError::with("CURFEW_MODE=observe is set here, so nothing is stopped", advice));
    }
    let Some(ceiling) = FunctionCeiling::read(&deployed.store, name, now).await? else {
        let problem = format!("{name} has left no record since yesterday: it is paused, or dead");
        return Err(CommandError::with(problem, "nothing is applied while it is: see `curfew doctor`"));
    };
    refuse_what_is_to_come(&ceiling.newest, now)?;
    let last = ceiling.newest.at;
    let silent = now.duration_since(last);
    let known = FUNCTIONS.into_iter().find(|known| known.function == name);
    if known.is_none_or(|known| silent > known.alive_within()) {
        let problem =
            format!("{name} has left no record for {}: it is paused, or dead", duration::format_duration(silent));
        return Err(CommandError::with(problem, "nothing is applied while it is: see `curfew doctor`"));
    }
    let mut observing = (ceiling.mode == Mode::Observe).then_some(ceiling.newest);
    // CURFEW_MODE is the account's, and whichever function ran last has it as it is now.
    for other in ReapFunction::ALL.into_iter().filter(|other| *other != function) {
        let newest = deployed.store.newest_plan(other.as_str(), now).await?;
        observing = observing.or(newest.filter(|other| other.mode == Mode::Observe && other.at >= last));
    }
    let Some(observing) = observing else { return Ok(()) };
    let problem = format!("{} ran in observe mode at {}, so nothing is stopped", observing.function, observing.at);
    let advice = "CURFEW_MODE=observe is what stops everything; once it is enforce again, review the newest plan";
    Err(CommandError::with(problem, advice))
}
