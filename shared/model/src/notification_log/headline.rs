//! A notification in a few words: the event, the resource and its team, the time, and the money.

use std::borrow::Cow;

use jiff::Timestamp;

use super::NO_TEAM;
use crate::fault::{one_line, shortened};
use crate::foreign_text::{quoted_unless_word, without_links};
use crate::id::ResourceId;
use crate::money::{Rate, format_monthly_rate_shortly};

/// Names and teams are tags, so they can be long. An id of EC2 and the name of a call with its region fit.
const NAME_CHARACTERS_MAX: usize = 45;
const TEAM_CHARACTERS_MAX: usize = 30;

/// The sentence of one notification, in parts, so that several alike are counted in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// Sentence with `{}` for the object, `Curfew will stop {}`, and `{is}` for the verb behind it.
    pub sentence: Cow<'static, str>,
    pub object: HeadlineObject,
    /// The object, if it is the only one: `i-0abc`.
    pub name: String,
    /// `None`: at the time of the run.
    pub at: Option<Timestamp>,
    pub cost: HeadlineCost,
}

/// Subject of a headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadlineObject {
    Instance,
    Volume,
    Snapshot,
    SageMaker,
    Job,
    /// A budget of a team or of the account.
    Budget,
    /// A folder of the inbox, or of unfinished jobs.
    Folder,
    /// A call to AWS that failed.
    Call,
    Configuration,
    /// Notifications of earlier runs, which SNS did not accept.
    Notification,
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
            Self::SageMaker => "SageMaker resource",
            Self::Job => "job",
            Self::Budget => "budget",
            Self::Folder => "folder",
            Self::Call => "call",
            Self::Configuration => "configuration",
            Self::Notification => "notification",
        }
    }

    /// `true` if the object's name does not show its team.
    const fn needs_team(self) -> bool {
        matches!(
            self,
            Self::Instance | Self::Volume | Self::Snapshot | Self::SageMaker | Self::Job | Self::Notification
        )
    }
}

impl Headline {
    /// Makes a headline without a time of its own, and without money.
    #[must_use]
    pub fn new(sentence: impl Into<Cow<'static, str>>, object: HeadlineObject, name: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), object, name: name.into(), at: None, cost: HeadlineCost::Unsaid }
    }

    /// `true` if one sentence can count both.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        (&self.sentence, self.object) == (&other.sentence, other.object)
    }

    /// `Curfew will stop 3 instances of team vision from 2026-09-01 18:00 UTC: $12.40/h`, about headlines that are alike, of
    /// a run at `now`. Without a full stop.
    #[must_use]
    pub fn describe(alike: &[&Self], team: &str, now: Timestamp) -> String {
        let Some(first) = alike.first() else { return String::new() };
        let object = match alike {
            [one] => without_links(&one_line(&one.name, NAME_CHARACTERS_MAX)),
            several => format!("{} {}s", several.len(), first.object.as_str()),
        };
        let whose = match team {
            _ if !first.object.needs_team() => String::new(),
            NO_TEAM => " without a team".to_owned(),
            team => format!(" of team {}", quoted_unless_word(&shortened(team, TEAM_CHARACTERS_MAX))),
        };
        let object = format!("{object}{whose}");
        let moments = || alike.iter().map(|one| one.at.unwrap_or(now));
        let (earliest, latest) = (moments().min().unwrap_or(now), moments().max().unwrap_or(now));
        let when = if earliest == latest { "at" } else { "from" };
        let cost = HeadlineCost::describe(alike.iter().map(|one| &one.cost));
        let sentence =
            first.sentence.replace("{is}", if alike.len() == 1 { "is" } else { "are" }).replace("{}", &object);
        format!("{sentence} {when} {}{cost}", earliest.strftime("%Y-%m-%d %H:%M UTC"))
    }
}

impl HeadlineCost {
    /// Describes the costs together, with the punctuation before them.
    fn describe<'a>(costs: impl Iterator<Item = &'a Self> + Clone) -> String {
        let rates = costs.clone().filter_map(|cost| match cost {
            Self::Hourly(rate) | Self::Monthly(rate) => *rate,
            Self::Unsaid | Self::Total(_) => None,
        });
        let is_unknown = |cost: &&Self| matches!(cost, Self::Hourly(None) | Self::Monthly(None));
        let at_least = if costs.clone().any(|cost| is_unknown(&cost)) { " at least" } else { "" };
        let sum = rates.clone().next().map(|_| rates.sum::<Rate>());
        let mut costs = costs;
        match (costs.next(), costs.next(), sum) {
            (Some(Self::Total(amount)), None, _) => format!(": {amount}"),
            (Some(Self::Hourly(_)), _, Some(sum)) => format!(": {sum}{at_least}"),
            (Some(Self::Monthly(_)), _, Some(sum)) => format!(": {}{at_least}", format_monthly_rate_shortly(sum)),
            (Some(Self::Hourly(_) | Self::Monthly(_)), _, None) => ": price unknown".to_owned(),
            _ => String::new(),
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

    fn describe(headlines: &[Headline], team: &str) -> String {
        Headline::describe(&headlines.iter().collect::<Vec<_>>(), team, NOW.parse().unwrap())
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
    fn the_verb_agrees_with_the_count() {
        let unknown = Headline::new("Curfew cannot judge whether {} {is} idle", HeadlineObject::Instance, "i-0abc");
        assert_snapshot!(describe(std::slice::from_ref(&unknown), "nlp"), @"Curfew cannot judge whether i-0abc of team nlp is idle at 2026-09-01 12:00 UTC");
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
