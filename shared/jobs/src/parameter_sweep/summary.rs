//! The state of all members of a sweep, and the two messages about it.

use std::collections::BTreeMap;

use model::foreign_text::{describe_owner, harmless};
use model::id::{Region, ResourceId};
use model::money::Amount;
use model::notification_log::{
    Headline, HeadlineCost, HeadlineObject, Notification, NotificationFacts, NotificationKind, Paragraph, Severity,
};
use serde::Serialize;

use super::{Sweep, describe_parameters};
use crate::{JobId, JobOverview};

/// The most members that a message lists; the command shows all.
const LISTED_MAX: usize = 20;

/// The states, time and cost of all members together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepSummary {
    /// Number of members in each state.
    pub states: BTreeMap<&'static str, usize>,
    /// Running time of their machines, together.
    pub seconds: i64,
    /// Highest cost, together.
    pub cost_usd_max: Amount,
    /// Number of members of the sweep, if that is known and these are not all.
    #[serde(skip)]
    pub sweep_size: Option<usize>,
}

/// A row of the list of jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum JobListRow<'a> {
    Job(&'a JobOverview),
    /// The members of a sweep that are in the list, where the first of them was.
    Sweep(JobId, SweepSummary),
}

/// The rows of a list of jobs: one for each sweep. `sizes`: how many members each sweep has, as far as it is known.
#[must_use]
pub fn list_rows<'a>(jobs: &'a [JobOverview], sizes: &BTreeMap<JobId, u32>) -> Vec<JobListRow<'a>> {
    let mut sweeps: BTreeMap<JobId, Vec<&JobOverview>> = BTreeMap::new();
    for job in jobs {
        if let Some(sweep) = job.sweep_id() {
            sweeps.entry(sweep).or_default().push(job);
        }
    }
    let row = |job| match JobOverview::sweep_id(job) {
        None => Some(JobListRow::Job(job)),
        Some(sweep) => {
            let members = sweeps.remove(&sweep)?;
            let size = sizes.get(&sweep).and_then(|size| usize::try_from(*size).ok());
            let sweep_size = size.filter(|size| *size > members.len());
            Some(JobListRow::Sweep(sweep, SweepSummary { sweep_size, ..SweepSummary::from_members(members) }))
        }
    };
    jobs.iter().filter_map(row).collect()
}

impl SweepSummary {
    #[must_use]
    pub fn from_members<'a>(members: impl IntoIterator<Item = &'a JobOverview>) -> Self {
        let mut summary = Self { states: BTreeMap::new(), seconds: 0, cost_usd_max: Amount::ZERO, sweep_size: None };
        for member in members {
            *summary.states.entry(member.state).or_default() += 1;
            summary.seconds = summary.seconds.saturating_add(member.seconds);
            summary.cost_usd_max = summary.cost_usd_max + member.cost_usd_max;
        }
        summary
    }

    /// `8 succeeded, 2 failed`, or `1 waiting, 1 running of 10` if these are not all members.
    #[must_use]
    pub fn describe(&self) -> String {
        let suffix = self.sweep_size.map(|members| format!(" of {members}")).unwrap_or_default();
        let states =
            self.states.iter().rev().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ");
        states + &suffix
    }

    /// Returns the severity of the result, once all members are over.
    fn severity(&self) -> Severity {
        let has = |state: &str| self.states.contains_key(state);
        if has("failed") {
            Severity::Error
        } else if has("expired") {
            Severity::Warning
        } else {
            Severity::Info
        }
    }
}

impl Sweep {
    /// The notification that it was accepted. `home`: the region of the deployment.
    #[must_use]
    pub fn notify_accepted(&self, home: &Region) -> Notification {
        let members = self.plan.members();
        let at_once = self.plan.max_parallel.map(|most| format!(", at most {most} of them unfinished at once"));
        let cost = self.plan.max_usd.map(|usd| format!(" They cost at most {usd} together."));
        let text = format!(
            "{}: the sweep was accepted, and its {members} jobs begin{}: {} to {}.{} One message follows, when all are over.",
            self.named(),
            at_once.unwrap_or_default(),
            self.sweep.member(1),
            self.sweep.member(members).job,
            cost.unwrap_or_default(),
        );
        let sweep = self.sweep.to_shell_word();
        let text = Paragraph::new(&text)
            .with_command("Where they stand", &format!("curfew jobs {sweep}"))
            .with_command("To stop all", &format!("curfew cancel {sweep}"));
        self.notification("Curfew accepted {}", text, Severity::Info, HeadlineCost::Unsaid, home)
    }

    /// The notification that all members are over.
    #[must_use]
    pub fn notify_ended(&self, members: &[JobOverview], home: &Region) -> Notification {
        let summary = SweepSummary::from_members(members);
        let failed = |member: &&JobOverview| matches!(member.state, "failed" | "expired");
        let first = members.iter().filter(failed).min_by_key(|member| member.until);
        let first = first.map(|member| {
            format!(" The first failure was {}: {}.", describe(member), member.why.trim_end_matches('.'))
        });
        let mut listed: Vec<&JobOverview> = members.iter().collect();
        listed.sort_by_key(|member| member.state == "succeeded");
        let rows = listed.iter().take(LISTED_MAX);
        let rows = rows.map(|member| format!("{} {}, {}", describe(member), member.state, member.cost_usd_max));
        let more = members.len().saturating_sub(LISTED_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let text = format!(
            "{}: all {} jobs of the sweep are over: {}. They cost at most {} together.{} The results: {}{more}.",
            self.named(),
            members.len(),
            summary.describe(),
            summary.cost_usd_max,
            first.unwrap_or_default(),
            rows.collect::<Vec<_>>().join("; "),
        );
        let text =
            Paragraph::new(&text).with_command("All of them", &format!("curfew jobs {}", self.sweep.to_shell_word()));
        let cost = HeadlineCost::Total(format!("{} at most", summary.cost_usd_max));
        self.notification("All jobs of {} are over", text, summary.severity(), cost, home)
    }

    fn notification(
        &self,
        sentence: &'static str,
        text: Paragraph,
        severity: Severity,
        cost: HeadlineCost,
        home: &Region,
    ) -> Notification {
        let headline = Headline::new(sentence, HeadlineObject::Job, format!("sweep {}", self.sweep.job));
        Notification {
            team: self.sweep.team.as_str().to_owned(),
            severity,
            region: home.clone(),
            resource: Some(ResourceId::new(&self.sweep.job)),
            kind: NotificationKind::Event,
            text,
            happened: true,
            mode: None,
            loses: None,
            headline: Headline { cost, ..headline },
            facts: NotificationFacts {
                job: Some(self.sweep.to_string()),
                owner: self.owner.clone(),
                ..NotificationFacts::default()
            },
        }
    }

    fn named(&self) -> String {
        let (team, owner) = (harmless(self.sweep.team.as_str()), describe_owner(self.owner.as_deref()));
        format!("{team}/{} ({owner})", self.sweep.job)
    }
}

/// `member 3 (lr=1e-4, seed=3)`.
fn describe(member: &JobOverview) -> String {
    let Some(sweep) = &member.sweep else { return member.job.job.clone() };
    format!("member {} ({})", sweep.number, describe_parameters(&sweep.parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::*;
    use crate::{JobResult, SweepMember};

    #[test]
    fn a_list_has_one_row_for_a_sweep() {
        let member = |number: u32, given: JobInput| {
            let sweep = SweepMember { number, parameters: Vec::new(), max_parallel: None };
            given.job(|job| (job.job, job.sweep) = (sweep_id().member(number), Some(sweep)))
        };
        let listed = [member(1, running()), submitted(), member(2, submitted()), member(3, ended(JobResult::Failed))];
        let jobs = listed.map(|given| JobOverview::from_job(&given.job, noon_plus(HOUR)));
        let rows = list_rows(&jobs, &BTreeMap::from([(sweep_id(), 3)]));
        let [JobListRow::Sweep(sweep, summary), JobListRow::Job(job)] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((sweep, &job.job), (&sweep_id(), &submitted().job.job));
        assert_eq!(summary.describe(), "1 submitted, 1 running, 1 failed");
        let seconds: i64 = [0, 2, 3].iter().map(|index| jobs[*index].seconds).sum();
        assert_eq!((summary.seconds, summary.seconds > 0), (seconds, true));
        let rows = list_rows(&jobs[..3], &BTreeMap::from([(sweep_id(), 4)]));
        let [JobListRow::Sweep(_, summary), _] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(summary.describe(), "1 submitted, 1 running of 4");
    }

    fn sweep_id() -> JobId {
        JobId::read("vision/tune-1a2b3c4d").unwrap()
    }
}
