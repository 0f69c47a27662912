//! A notification in a few words: the event, the resource and its team, the time, and the money.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::{Timestamp, Zoned};

use super::NO_TEAM;
use crate::fault::{one_line, shortened};
use crate::foreign_text::{describe_name, quoted_unless_word, without_links};
use crate::id::ResourceId;
use crate::known_sum::KnownSum;
use crate::money::{Rate, format_monthly_rate_shortly};
use crate::rule::ResourceAction;
use crate::time_zone::format_moment;

/// Names and teams are tags, so they can be long. An id of EC2 and the name of a call with its region fit.
const NAME_CHARACTERS_MAX: usize = 45;
const TEAM_CHARACTERS_MAX: usize = 30;
/// The type, and the `Name` tag behind it.
const DETAIL_CHARACTERS_MAX: usize = 25;

/// The sentence of one notification, in parts, so that several alike are counted in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// Sentence with `{}` for the object: `Curfew will stop {}`. `{is}`, `{was}` and `{s}` agree with the count of the objects.
    pub sentence: Cow<'static, str>,
    pub object: HeadlineObject,
    /// The object, if it is the only one: `i-0abc`.
    pub name: String,
    /// Type and `Name` tag of a resource, if it is the only one: `g5.xlarge "bench"`; empty for anything else.
    pub details: String,
    /// `None`: at the time of the run.
    pub at: Option<Timestamp>,
    pub cost: HeadlineCost,
    /// Data that the action loses for good, in few words: `30 TB NVMe scratch`.
    pub loss: Option<String>,
    /// The action that is announced.
    pub announces: Option<ResourceAction>,
}

/// Subject of a headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadlineObject {
    Instance,
    Volume,
    Snapshot,
    Reservation,
    SageMaker,
    Job,
    /// A budget of a team or of the account.
    Budget,
    /// A folder of the inbox, or of unfinished jobs.
    Folder,
    /// A document that submits a job for what arrives in a bucket.
    Trigger,
    /// A document that submits a job at the moments of a cron expression.
    Schedule,
    /// A call to AWS that failed.
    Call,
    Configuration,
}

/// The money of a headline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadlineCost {
    /// No money, or the sentence says it.
    Unsaid,
    /// `None`: the price is unknown.
    Hourly(Option<Rate>),
    /// Cost by the month, of an object that costs too little by the hour. `None`: the price is unknown.
    Monthly(Option<Rate>),
    /// An amount: `$1.17 at most`.
    Total(String),
}

impl HeadlineObject {
    /// Returns the kind of resource that an id of EC2 names (Amazon EC2 user guide, "Resource IDs"); ids of `SageMaker` are parts of ARNs.
    #[must_use]
    pub fn from_id(id: &ResourceId) -> Self {
        if id.as_str().contains('/') {
            return Self::SageMaker;
        }
        match id.as_str().split('-').next() {
            Some("vol") => Self::Volume,
            Some("snap") => Self::Snapshot,
            Some("cr") => Self::Reservation,
            _ => Self::Instance,
        }
    }

    /// The name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Reservation => "capacity reservation",
            Self::SageMaker => "SageMaker resource",
            Self::Job => "job",
            Self::Budget => "budget",
            Self::Folder => "folder",
            Self::Trigger => "trigger",
            Self::Schedule => "schedule",
            Self::Call => "call",
            Self::Configuration => "configuration",
        }
    }

    /// `3 instances`.
    #[must_use]
    pub fn format_count(self, count: usize) -> String {
        format!("{count} {}s", self.as_str())
    }

    /// `true` if the object's name does not show its team.
    #[must_use]
    pub const fn needs_team(self) -> bool {
        !matches!(self, Self::Budget | Self::Folder | Self::Trigger | Self::Schedule | Self::Call | Self::Configuration)
    }
}

impl Headline {
    /// Makes a headline without a time of its own, and without money.
    #[must_use]
    pub fn new(sentence: impl Into<Cow<'static, str>>, object: HeadlineObject, name: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            object,
            name: name.into(),
            details: String::new(),
            at: None,
            cost: HeadlineCost::Unsaid,
            loss: None,
            announces: None,
        }
    }

    /// The headline with the type and the `Name` tag of its resource.
    #[must_use]
    pub fn with_details(self, what: &str, name: Option<&str>) -> Self {
        let name = describe_name(name.map(|name| shortened(name, DETAIL_CHARACTERS_MAX)).as_deref());
        let details = format!("{}{name}", one_line(what, DETAIL_CHARACTERS_MAX));
        Self { details: details.trim_start().to_owned(), ..self }
    }

    /// `true` if one sentence can count both.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        (&self.sentence, self.object) == (&other.sentence, other.object)
    }

    /// `Curfew will stop 3 instances of team vision from 2026-09-01 18:00 UTC: $12.40/h`, about headlines that are alike, of
    /// a run at `now`. Without a full stop.
    #[must_use]
    pub fn describe(alike: &[&Self], teams: &BTreeSet<&str>, now: &Zoned) -> String {
        let Some(first) = alike.first() else { return String::new() };
        let whose = match teams.first() {
            _ if !first.object.needs_team() => String::new(),
            _ if teams.len() > 1 => " of several teams".to_owned(),
            None | Some(&NO_TEAM) => " without a team".to_owned(),
            Some(team) => format!(" of team {}", quoted_unless_word(&shortened(team, TEAM_CHARACTERS_MAX))),
        };
        let object = match alike {
            [one] if !one.details.is_empty() => format!("{} ({}){whose}", one.short_name(), one.details),
            [one] => one.short_name() + &whose,
            several => format!("{}{whose}", first.object.format_count(several.len())),
        };
        let moments = || alike.iter().map(|one| one.at.unwrap_or(now.timestamp()));
        let (earliest, latest) = (moments().min().unwrap_or_default(), moments().max().unwrap_or_default());
        let when = if earliest == latest { "at" } else { "from" };
        let cost = HeadlineCost::describe(alike.iter().map(|one| &one.cost), Rate::to_string);
        let cost = cost.map(|cost| format!(": {cost}")).unwrap_or_default();
        let moment = format_moment(earliest, now.time_zone());
        format!("{} {when} {moment}{cost}", first.format_sentence(&object, alike.len()))
    }

    /// The sentence about so many objects.
    #[must_use]
    pub fn format_sentence(&self, object: &str, count: usize) -> String {
        let [is, was, s] = if count == 1 { ["is", "was", ""] } else { ["are", "were", "s"] };
        self.sentence.replace("{is}", is).replace("{was}", was).replace("{s}", s).replace("{}", object)
    }

    /// The name of the object, on one line and without links.
    #[must_use]
    pub fn short_name(&self) -> String {
        without_links(&one_line(&self.name, NAME_CHARACTERS_MAX))
    }
}

impl HeadlineCost {
    /// Describes the costs together; `None` where they are not said. `format_hourly`: the notation of a rate by the hour.
    pub fn describe<'a>(
        costs: impl Iterator<Item = &'a Self> + Clone,
        format_hourly: impl Fn(&Rate) -> String,
    ) -> Option<String> {
        let has_rate = |cost: &&Self| matches!(cost, Self::Hourly(_) | Self::Monthly(_));
        let sum = KnownSum::from_parts(costs.clone().filter(has_rate).map(Self::rate));
        let at_least = if sum.is_complete() { "" } else { " at least" };
        let mut costs = costs;
        match (costs.next(), costs.next(), sum.known()) {
            (Some(Self::Total(amount)), None, _) => Some(amount.clone()),
            (Some(Self::Hourly(_)), _, Some(sum)) => Some(format!("{}{at_least}", format_hourly(&sum))),
            (Some(Self::Monthly(_)), _, Some(sum)) => Some(format!("{}{at_least}", format_monthly_rate_shortly(sum))),
            (Some(Self::Hourly(_) | Self::Monthly(_)), _, None) => Some("price unknown".to_owned()),
            _ => None,
        }
    }

    /// The rate, if the cost is one and known.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        match self {
            Self::Hourly(rate) | Self::Monthly(rate) => *rate,
            Self::Unsaid | Self::Total(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const NOW: &str = "2026-09-01T12:00:00Z";

    fn stop(name: &str, at: Option<&str>, cost: HeadlineCost) -> Headline {
        let headline = Headline::new("Curfew will stop {}", HeadlineObject::Instance, name);
        Headline { at: at.map(|at| at.parse().unwrap()), cost, ..headline }
    }

    fn describe_in(zone: &str, headlines: &[Headline], team: &str) -> String {
        let now = NOW.parse::<Timestamp>().unwrap().in_tz(zone).unwrap();
        Headline::describe(&headlines.iter().collect::<Vec<_>>(), &BTreeSet::from([team]), &now)
    }

    fn describe(headlines: &[Headline], team: &str) -> String {
        describe_in("UTC", headlines, team)
    }

    fn hourly(usd_micros: u64) -> HeadlineCost {
        HeadlineCost::Hourly(Some(Rate::from_usd_micros_per_hour(usd_micros)))
    }

    #[test]
    fn one_is_named_and_several_are_counted() {
        let one = stop("i-0abc", Some("2026-09-01T18:00:00Z"), hourly(1_006_000));
        assert_snapshot!(describe(std::slice::from_ref(&one), "vision"), @"Curfew will stop i-0abc of team vision at 2026-09-01 18:00 UTC: $1.01/h");
        let later = stop("i-0def", Some("2026-09-01T19:00:00Z"), hourly(2_000_000));
        assert_snapshot!(describe(&[later, one.clone()], "vision"), @"Curfew will stop 2 instances of team vision from 2026-09-01 18:00 UTC: $3.01/h");
        assert_snapshot!(describe(&[one.clone(), one], NO_TEAM), @"Curfew will stop 2 instances without a team at 2026-09-01 18:00 UTC: $2.01/h");
    }

    #[test]
    fn headlines_of_several_teams_name_none() {
        let one = stop("i-0abc", Some("2026-09-01T18:00:00Z"), hourly(1_006_000));
        let now = NOW.parse::<Timestamp>().unwrap().in_tz("UTC").unwrap();
        let described = Headline::describe(&[&one, &one], &BTreeSet::from(["nlp", NO_TEAM]), &now);
        assert_snapshot!(described, @"Curfew will stop 2 instances of several teams at 2026-09-01 18:00 UTC: $2.01/h");
    }

    #[test]
    fn a_resource_has_its_type_and_name_and_a_time_also_that_of_the_account() {
        let one =
            stop("i-0abc", Some("2026-09-01T22:30:00Z"), hourly(1_006_000)).with_details("g5.xlarge", Some("a b"));
        assert_snapshot!(describe_in("Europe/Berlin", std::slice::from_ref(&one), "vision"), @r#"Curfew will stop i-0abc (g5.xlarge "a b") of team vision at 2026-09-01 22:30 UTC (2026-09-02 00:30 CEST): $1.01/h"#);
        let unnamed = stop("i-0abc", None, HeadlineCost::Unsaid).with_details("g5.xlarge", None);
        assert_snapshot!(describe_in("Europe/Berlin", std::slice::from_ref(&unnamed), "vision"), @"Curfew will stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC (14:00 CEST)");
        assert_snapshot!(describe_in("Europe/Berlin", &[unnamed, one], "vision"), @"Curfew will stop 2 instances of team vision from 2026-09-01 12:00 UTC (14:00 CEST)");
    }

    #[test]
    fn the_verb_agrees_with_the_count() {
        let unknown = Headline::new("Curfew cannot judge whether {} {is} idle", HeadlineObject::Instance, "i-0abc");
        assert_snapshot!(describe(std::slice::from_ref(&unknown), "nlp"), @"Curfew cannot judge whether i-0abc of team nlp is idle at 2026-09-01 12:00 UTC");
        let lost = Headline::new("The machine{s} of {} {was} lost", HeadlineObject::Job, "job a");
        assert_snapshot!(describe(std::slice::from_ref(&lost), "nlp"), @"The machine of job a of team nlp was lost at 2026-09-01 12:00 UTC");
        assert_snapshot!(describe(&[lost.clone(), lost], "nlp"), @"The machines of 2 jobs of team nlp were lost at 2026-09-01 12:00 UTC");
        assert_snapshot!(describe(&[unknown.clone(), unknown], "a b\"c"), @r#"Curfew cannot judge whether 2 instances of team "a b'c" are idle at 2026-09-01 12:00 UTC"#);
    }

    #[test]
    fn an_unknown_price_is_said_and_never_counted_as_nothing() {
        let unknown = stop("i-0def", None, HeadlineCost::Hourly(None));
        assert_snapshot!(describe(std::slice::from_ref(&unknown), "nlp"), @"Curfew will stop i-0def of team nlp at 2026-09-01 12:00 UTC: price unknown");
        let known = stop("i-0abc", None, hourly(1_006_000));
        assert_snapshot!(describe(&[unknown, known], "nlp"), @"Curfew will stop 2 instances of team nlp at 2026-09-01 12:00 UTC: $1.01/h at least");
    }

    #[test]
    fn money_has_the_unit_that_fits_it() {
        let volume = Headline::new("Curfew deleted {}", HeadlineObject::Volume, "vol-0abc");
        let rate = Some(Rate::from_usd_micros_per_month(40_000_000));
        let volume = Headline { cost: HeadlineCost::Monthly(rate), ..volume };
        assert_snapshot!(describe(&[volume], "nlp"), @"Curfew deleted vol-0abc of team nlp at 2026-09-01 12:00 UTC: $40.00/mo");
        let job = Headline::new("Curfew closed {} as failed", HeadlineObject::Job, "job llama");
        let job = Headline { cost: HeadlineCost::Total("$1.17 at most".to_owned()), ..job };
        assert_snapshot!(describe(std::slice::from_ref(&job), "nlp"), @"Curfew closed job llama of team nlp as failed at 2026-09-01 12:00 UTC: $1.17 at most");
        assert_snapshot!(describe(&[job.clone(), job], "nlp"), @"Curfew closed 2 jobs of team nlp as failed at 2026-09-01 12:00 UTC");
    }

    #[test]
    fn account_notifications_have_no_team() {
        let call =
            Headline::new("Curfew could not complete {}", HeadlineObject::Call, "ec2:DescribeInstances in eu-west-1");
        assert_snapshot!(describe(&[call], NO_TEAM), @"Curfew could not complete ec2:DescribeInstances in eu-west-1 at 2026-09-01 12:00 UTC");
    }

    #[test]
    fn a_long_name_leaves_room_for_the_rest() {
        let long = stop(&"n".repeat(300), None, hourly(1_006_000));
        let sentence = describe(&[long], &"t\n".repeat(300));
        assert!(
            sentence.chars().count() < 160 && sentence.ends_with(": $1.01/h") && !sentence.contains('\n'),
            "{sentence}"
        );
    }
}
