//! The legal values of each tag.

use jiff::{SignedDuration, Timestamp};

use super::{IdleAfter, TagCarrier};
use crate::config::RuleAction;
use crate::fault::InvalidValue;
use crate::{duration, moment};

const DAY: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn read_idle_after(value: &str) -> Result<IdleAfter, InvalidValue> {
    if value == "off" {
        return Ok(IdleAfter::Off);
    }
    let window = duration::parse(value).map_err(|error| InvalidValue::new(format!("{error}, or `off`")))?;
    if window > crate::usage::WINDOW_MAX {
        return Err(InvalidValue::new(format!(
            "longer than {}, the most that metrics can answer; write `off` for never",
            duration::format_duration(crate::usage::WINDOW_MAX)
        )));
    }
    Ok(IdleAfter::Window(window))
}

pub(super) fn read_action(value: &str) -> Result<RuleAction, InvalidValue> {
    match value {
        "stop" => Ok(RuleAction::Stop),
        "terminate" => Ok(RuleAction::Terminate),
        "notify" => Ok(RuleAction::Notify),
        _ => Err(InvalidValue::new("write `stop`, `terminate` or `notify`")),
    }
}

pub(super) fn read_expiry(value: &str, on: TagCarrier) -> Result<Timestamp, InvalidValue> {
    let at = moment::read(value).ok_or_else(|| {
        InvalidValue::new("write a moment of the years 2000 to 9000 as RFC 3339, such as `2026-09-30T18:00:00Z`")
    })?;
    if let TagCarrier::Instance(launched_at) | TagCarrier::SageMaker(launched_at) = on
        && at < launched_at
    {
        return Err(InvalidValue::new(format!(
            "earlier than this {} at {launched_at}, so it was copied from another one or an earlier launch; write a new one or remove it",
            if matches!(on, TagCarrier::SageMaker(_)) { "resource's own creation" } else { "instance's own launch" }
        )));
    }
    Ok(at)
}

/// The legal values of `curfew:keep-until`.
pub const KEEP_UNTIL_FORMS: &str = "a date such as `2026-09-30` (to its end, UTC) or a moment as RFC 3339";

/// `curfew:keep-until`. A date means its end, in UTC; the calendar's last one, by which people write "for ever", the last moment
/// there is.
///
/// # Errors
/// What to write instead.
pub fn read_keep_until(value: &str) -> Result<Timestamp, InvalidValue> {
    let end_of_date = || moment::read_until(&format!("{value}T00:00:00Z")).map(|begin| moment::after(begin, DAY));
    let until = moment::read_until(value).or_else(end_of_date);
    until.ok_or_else(|| InvalidValue::new(format!("write {KEEP_UNTIL_FORMS}, from the year 2000 on")))
}

/// A job is looked up for its volumes alone; on an instance the tag speaks by being there.
pub(super) fn read_job(value: &str, on: TagCarrier) -> Result<String, InvalidValue> {
    let named = value.split_once('/').is_some_and(|(team, job)| !team.is_empty() && !job.is_empty());
    if matches!(on, TagCarrier::Instance(_) | TagCarrier::SageMaker(_))
        || named && value.chars().all(|c| c.is_ascii_graphic())
    {
        return Ok(value.to_owned());
    }
    Err(InvalidValue::new("not what Curfew writes there (`<team>/<job>`); remove the tag"))
}
