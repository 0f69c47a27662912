//! The audit trail of one resource: which run ended it, when, by which rule, for whom.

use std::cell::Cell;
use std::fmt;

use billing::price::PriceBook;
use cloud::operator::ResourceKind;
use futures::stream::{self, StreamExt as _};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};
use model::config::Config;
use model::id::{Region, ResourceId, RunId};
use model::moment::{after, before};
use model::notification_log::CarriedOut;
use model::rule::{ResourceAction, Rule};
use model::sagemaker::EndpointOrigin;
use plan::report::{OutcomeKind, RecordedStep, RunRecord};
use serde::Serialize;
use serde_json::Value;
use store::{Documents as _, Store, StoreError};

use crate::command_error::describe_store_error;
use crate::context::CommandContext;
use crate::screen;

/// A record is written last at the end of its run, which takes half an hour at most, where a person applies a plan; Lambda ends
/// those of functions after 15 minutes (Lambda developer guide, "Lambda quotas").
const RUN_MAX: SignedDuration = SignedDuration::from_mins(40);
/// The most by which the clock of S3 may be behind that of the run.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

/// Records that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// Number of days that are read back if nothing says when it was: a run every five minutes, and one every hour, make records by the
/// thousand.
const INSTANCE_DAYS: i32 = 7;
const VOLUME_DAYS: i32 = 30;
const SAGEMAKER_DAYS: i32 = 30;

/// The step that ended something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RecordedAction {
    function: String,
    run: RunId,
    at: Timestamp,
    action: String,
    rule: String,
    team: Option<String>,
    /// The instance that a volume was last attached to.
    pub(super) last_attached_to: Option<String>,
    #[serde(skip)]
    pub(super) region: Region,
    /// The origin from which an endpoint can be created again.
    #[serde(skip)]
    pub(super) restore: Option<Box<EndpointOrigin>>,
    #[serde(skip)]
    copies: Option<u32>,
}

impl fmt::Display for RecordedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, run, at, rule, team, .. } = self;
        let team = team.as_ref().map(|team| format!(", of team {team}")).unwrap_or_default();
        write!(f, "the run {run} of {function} at {at}, for the rule {rule}{team}")
    }
}

impl RecordedAction {
    /// Returns the time when an inference component was scaled to zero, and its number of copies before.
    pub(super) fn scaled_to_zero(&self) -> Option<(Timestamp, u32)> {
        Some((self.at, self.copies?))
    }
}

/// The trail, where there is a deployment and somebody may read it.
pub(super) struct AuditTrail {
    store: Option<Store>,
    now: Timestamp,
    /// No second message is needed.
    gave_up: Cell<bool>,
}

/// The last stop of a resource by Curfew's own records. A tag on it proves nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordedStop {
    pub(super) stop: Option<CarriedOut>,
    /// `true` if a record could not be read.
    pub(super) is_unread: bool,
}

/// The result of a search in the trail.
pub(super) enum TrailResult {
    Ended(RecordedAction),
    /// The trail was read back to that day, and has no record of the action.
    Silent {
        since: Date,
    },
    Unread,
}

impl TrailResult {
    /// Returns the action that ended the resource, if the trail has it.
    pub(super) fn ended(self) -> Option<RecordedAction> {
        match self {
            Self::Ended(ended) => Some(ended),
            Self::Silent { .. } | Self::Unread => None,
        }
    }
}

impl AuditTrail {
    /// Opens the trail. If it cannot be read, one warning says so.
    pub(super) async fn open(context: &CommandContext) -> Self {
        let store = match context.deployed().await {
            Ok(Some(deployed)) => Some(deployed.store),
            Ok(None) => {
                let CommandContext { global, aws, .. } = context;
                let stack = format!("there is no stack {} in {}", global.stack, aws.home());
                screen::warn(format!("the audit trail is not read: {stack}; name it by --stack, --region or --bucket"));
                None
            }
            Err(failure) => {
                screen::warn(format!("the audit trail is not read: {}", failure.problem));
                None
            }
        };
        Self { store, now: context.now, gave_up: Cell::new(false) }
    }

    /// Returns the prices by the same deployment; if its configuration cannot be read, without its discounts.
    pub(super) async fn prices(&self, context: &CommandContext) -> PriceBook {
        let config = match &self.store {
            Some(store) => store.read_config().await.unwrap_or_default(),
            None => Config::default(),
        };
        context.prices(self.store.as_ref(), &config).await
    }

    /// The last stop of a resource: by the log of the function, or, where that does not know it any more, by the audit trail.
    pub(super) async fn recorded_stop(&self, function: &str, region: &Region, resource: &ResourceId) -> RecordedStop {
        let is_stop = |done: &CarriedOut| done.action == ResourceAction::Stop;
        let log = match &self.store {
            Some(store) => store.read_notices(function, region).await,
            None => return RecordedStop { stop: None, is_unread: true },
        };
        let logged = log.as_ref().ok().and_then(|log| log.value.record(resource)?.carried_out.filter(is_stop));
        if logged.is_some() {
            return RecordedStop { stop: logged, is_unread: false };
        }
        let days = if function == "reap-instances" { INSTANCE_DAYS } else { SAGEMAKER_DAYS };
        let found = self.search(resource, function, "stop", self.last(days)).await;
        let is_unread = log.is_err() && !matches!(found, TrailResult::Ended(_)) || matches!(found, TrailResult::Unread);
        let stop = found.ended().filter(|ended| ended.region == *region).and_then(|ended| {
            Some(CarriedOut { rule: Rule::read(&ended.rule)?, action: ResourceAction::Stop, at: ended.at })
        });
        RecordedStop { stop, is_unread }
    }

    /// Finds the run that stopped an instance at that time.
    pub(super) async fn find_stop(&self, instance: &ResourceId, at: Timestamp) -> TrailResult {
        self.search(instance, "reap-instances", "stop", around(at)).await
    }

    /// Finds the run that terminated an instance.
    pub(super) async fn find_termination(&self, instance: &ResourceId) -> TrailResult {
        self.search(instance, "reap-instances", "terminate", self.last(INSTANCE_DAYS)).await
    }

    /// Finds the run that deleted a volume. The volume's snapshot may say when.
    pub(super) async fn find_deletion(&self, volume: &ResourceId, at: Option<Timestamp>) -> TrailResult {
        let span = at.map_or_else(|| self.last(VOLUME_DAYS), around);
        self.search(volume, "reap-volumes", "delete", span).await
    }

    /// Finds the run that stopped a notebook instance at that time.
    pub(super) async fn find_sagemaker_stop(&self, id: &ResourceId, at: Timestamp) -> TrailResult {
        self.search(id, "reap-sagemaker", "stop", around(at)).await
    }

    /// Finds the run that scaled an inference component to zero.
    pub(super) async fn find_scaling(&self, id: &ResourceId) -> TrailResult {
        self.search(id, "reap-sagemaker", "stop", self.last(SAGEMAKER_DAYS)).await
    }

    /// Finds the run that deleted an app or an endpoint.
    pub(super) async fn find_sagemaker_deletion(&self, id: &ResourceId) -> TrailResult {
        self.search(id, "reap-sagemaker", "delete", self.last(SAGEMAKER_DAYS)).await
    }

    fn last(&self, days: i32) -> (Timestamp, Timestamp) {
        (before(self.now, SignedDuration::from_hours(24).saturating_mul(days)), after(self.now, RUN_MAX))
    }

    async fn search(
        &self,
        resource: &ResourceId,
        function: &str,
        action: &str,
        span: (Timestamp, Timestamp),
    ) -> TrailResult {
        let Some(store) = self.store.as_ref().filter(|_| !self.gave_up.get()) else { return TrailResult::Unread };
        let days = day_of(span.1).since(day_of(span.0)).map_or(0, |days| days.get_days());
        if days > 1 {
            screen::progress(format!("looking for {resource} in the audit trail of {days} days"));
        }
        match newest(store, function, span, |record| ended(record, resource, action)).await {
            Ok(Some(ended)) => TrailResult::Ended(ended),
            Ok(None) => TrailResult::Silent { since: day_of(span.0) },
            Err(error) => {
                screen::warn(format!("the audit trail is not read: {}", describe_store_error(&error)));
                self.gave_up.set(true);
                TrailResult::Unread
            }
        }
    }
}

/// Reads a function's records that were written in that time, the newest first, to the one in which `is_same_resource` sees something.
async fn newest<T>(
    store: &Store,
    function: &str,
    span: (Timestamp, Timestamp),
    is_it: impl Fn(&RunRecord) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    for day in days(span).into_iter().rev() {
        let mut keys = store.list_plans(day, Some(function)).await?;
        keys.retain(|key| (span.0..=span.1).contains(&key.written_at));
        let mut records = stream::iter(&keys).map(|key| store.read_plan(&key.key)).buffered(READS_AT_ONCE);
        while let Some(record) = records.next().await {
            if let Some(found) = record?.as_ref().and_then(&is_it) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn around(at: Timestamp) -> (Timestamp, Timestamp) {
    (before(at, CLOCKS_APART), after(at, RUN_MAX))
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// A moment of each day of the span.
fn days((from, to): (Timestamp, Timestamp)) -> Vec<Timestamp> {
    let (first, last) = (day_of(from), day_of(to));
    let days = first.series(Span::new().days(1)).take_while(|day| *day <= last);
    days.filter_map(|day| TimeZone::UTC.to_timestamp(day.into()).ok()).collect()
}

/// The step of a record by which this was ended.
fn ended(record: &RunRecord, resource: &ResourceId, action: &str) -> Option<RecordedAction> {
    let is_it =
        |step: &&RecordedStep| step.resource == *resource && step.action == action && step.outcome == OutcomeKind::Done;
    let step = record.steps.iter().find(is_it)?;
    // It ends up in a command, and no command is made of words that somebody else wrote.
    let is_instance = |host: &&str| ResourceKind::from_id(&ResourceId::from(*host)) == Some(ResourceKind::Instance);
    let host = step.evidence.details.get("last_attached_to").and_then(Value::as_str).filter(is_instance);
    Some(RecordedAction {
        function: record.function.clone(),
        run: record.run.clone(),
        at: record.at,
        action: step.action.clone(),
        rule: step.evidence.rule.clone(),
        team: step.team.clone(),
        last_attached_to: host.map(str::to_owned),
        region: step.region.clone(),
        restore: step.restore.clone().map(Box::new),
        copies: step.copies,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOST: &str = "i-0123456789abcdef0";

    fn record(outcome: &str, host: &str) -> RunRecord {
        let step = |resource: &str, outcome: &str| {
            json!({
                "region": "us-east-1", "resource": resource, "team": "vision", "action": "delete", "outcome": outcome,
                "evidence": { "rule": "orphaned", "last_attached_to": host },
            })
        };
        let record = json!({
            "function": "reap-volumes", "run": "r-1", "at": "2026-09-01T12:00:00Z", "mode": "enforce",
            "steps": [step("vol-2", "done"), step("vol-1", outcome)],
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn the_step_that_ended_it_is_found() {
        let found = ended(&record("done", HOST), &"vol-1".into(), "delete").unwrap();
        assert_eq!(
            found.to_string(),
            "the run r-1 of reap-volumes at 2026-09-01T12:00:00Z, for the rule orphaned, of team vision"
        );
        assert_eq!(found.last_attached_to.as_deref(), Some(HOST));
    }

    #[test]
    fn no_words_of_somebody_else_are_where_it_was() {
        let found = ended(&record("done", "i-1; reboot"), &"vol-1".into(), "delete").unwrap();
        assert_eq!(found.last_attached_to, None);
    }

    #[test]
    fn what_was_not_done_or_is_of_another_is_not_it() {
        assert_eq!(ended(&record("failed", HOST), &"vol-1".into(), "delete"), None);
        assert_eq!(ended(&record("done", HOST), &"vol-3".into(), "delete"), None);
        assert_eq!(ended(&record("done", HOST), &"vol-1".into(), "stop"), None);
    }

    #[test]
    fn the_days_of_a_span_are_in_utc() {
        let span = ("2026-08-31T23:50:00Z".parse().unwrap(), "2026-09-01T00:10:00Z".parse().unwrap());
        let expect = ["2026-08-31T00:00:00Z", "2026-09-01T00:00:00Z"];
        assert_eq!(days(span).iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }
}
