//! Possible savings of the account next month, by its use: for instances by their metrics, for jobs by the ledger.

use model::moment::before;
use std::collections::BTreeMap;

use billing::ledger::TimeSpan;
use model::id::ResourceId;
use recommend::usage::{InstanceUsage, JOBS_SEEN, UsageFinding, find_spot, on_demand_jobs, top_findings};
use serde::Serialize;

use crate::gpu_hours::with_paid_hours;
use crate::spend::team_label;
use crate::sums::KnownResource;
use crate::{GpuHours, MonthFacts, ResourceLabel, SeenInstances, gpu_hours};

/// Findings that are shown. `curfew recommend --from-usage` shows all.
pub const FINDINGS_SHOWN: usize = 5;

/// Findings that are kept, so that each team finds its own among them.
const FINDINGS_MAX: usize = 1_000;

/// Facts that were read about the use of instances.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageFacts {
    findings: Vec<UsageFinding>,
    /// Coverage by team.
    coverage: BTreeMap<String, UsageCoverage>,
    /// Measured GPU hours by team.
    gpu_hours: BTreeMap<String, GpuHours>,
    /// The instances as they are now.
    pub(crate) seen: SeenInstances,
    /// `true` if a query had no answer, which the gaps name.
    pub is_incomplete: bool,
}

/// Instances that run on demand now, except those of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct UsageCoverage {
    pub instances: usize,
    /// Number of these instances whose GPUs all reported in some hour of the last three weeks, as far as `CloudWatch` was queried.
    pub measured: usize,
}

impl UsageFacts {
    /// The facts before any instance is taken in.
    #[must_use]
    pub fn new(seen: SeenInstances) -> Self {
        Self { seen, ..Self::default() }
    }

    /// Takes one instance in, with what was found about it. A GPU below that utilisation, in percent, does nothing.
    pub fn add(
        &mut self,
        usage: &InstanceUsage,
        gpu_below_percent: f64,
        findings: impl IntoIterator<Item = UsageFinding>,
    ) {
        let hours = self.gpu_hours.entry(team_label(usage.team.as_ref())).or_default();
        hours.add_usage(usage, gpu_below_percent);
        let coverage = self.coverage.entry(team_label(usage.team.as_ref())).or_default();
        coverage.instances += 1;
        coverage.measured += usize::from(!usage.hours.is_empty());
        self.findings.extend(findings);
    }
}

/// Possible savings next month.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextMonth {
    /// Findings, the largest saving first.
    pub findings: Vec<UsageFinding>,
    /// Coverage by team: an instance without metrics has no finding.
    pub coverage: BTreeMap<String, UsageCoverage>,
    /// GPU hours of the last three weeks, by team.
    pub gpu_hours: BTreeMap<String, GpuHours>,
    /// `true` if a query had no answer, which the gaps name.
    pub is_incomplete: bool,
    /// Names and owners of the resources of the findings, as far as the ledger has them.
    pub labels: BTreeMap<String, ResourceLabel>,
}

impl NextMonth {
    /// `None` if usage was not asked for.
    pub(crate) fn from_facts(facts: &MonthFacts, known: &BTreeMap<ResourceId, ResourceLabel>) -> Option<Self> {
        let UsageFacts { findings, coverage, gpu_hours, is_incomplete, .. } = facts.usage.clone()?;
        let all_ledgers = facts.ledgers.iter().chain(&facts.previous_ledgers);
        let gpu_hours = with_paid_hours(gpu_hours, all_ledgers, facts.now);
        let span = TimeSpan { from: before(facts.now, JOBS_SEEN), to: facts.now };
        let steps: BTreeMap<String, Option<u64>> =
            facts.jobs.iter().map(|job| (job.job.to_string(), job.step)).collect();
        let jobs = on_demand_jobs(facts.ledgers.iter().chain(&facts.previous_ledgers), span);
        let on_spot = jobs.iter().filter_map(|runs| {
            let step = steps.get(&runs.job).copied().flatten();
            find_spot(runs, step, &facts.prices, span)
        });
        let findings = top_findings(findings.into_iter().chain(on_spot).collect(), FINDINGS_MAX);
        let label = |finding: &UsageFinding| {
            let label = known.get(&ResourceId::from(finding.resource.as_str()))?;
            Some((finding.resource.clone(), label.clone()))
        };
        let labels = findings.iter().filter_map(label).collect();
        Some(Self { findings, coverage, gpu_hours, is_incomplete, labels })
    }

    pub(crate) fn for_team(&self, team: &str) -> Self {
        let is_of_team = |finding: &&UsageFinding| team_label(finding.team.as_ref()) == team;
        let findings: Vec<UsageFinding> = self.findings.iter().filter(is_of_team).cloned().collect();
        let is_named = |resource: &String| findings.iter().any(|finding| finding.resource == *resource);
        Self {
            labels: self
                .labels
                .iter()
                .filter(|(resource, _)| is_named(resource))
                .map(|(r, l)| (r.clone(), l.clone()))
                .collect(),
            coverage: self.coverage.iter().filter(|(name, _)| *name == team).map(|(n, c)| (n.clone(), *c)).collect(),
            gpu_hours: self.gpu_hours.iter().filter(|(name, _)| *name == team).map(|(n, h)| (n.clone(), *h)).collect(),
            is_incomplete: self.is_incomplete,
            findings,
        }
    }

    pub(crate) fn describe(&self, finding: &UsageFinding) -> String {
        let label = self.labels.get(&finding.resource);
        KnownResource {
            id: &finding.resource,
            what: &finding.what,
            name: label.and_then(|label| label.name.as_deref()),
            owner: label.and_then(|label| label.owner.as_deref()),
            team: finding.team.as_ref(),
        }
        .describe()
    }

    /// The basis of the findings, with the conclusion if there are none.
    pub(crate) fn conclusion(&self) -> String {
        let has_basis = self.coverage.values().any(|one| one.measured > 0);
        match (self.findings.is_empty(), has_basis) {
            (true, true) => format!("{}, nothing was found that could cost less.", self.basis().trim_end_matches('.')),
            _ => self.basis(),
        }
    }

    /// The sentence about GPU hours; `None` where none is known.
    pub(crate) fn describe_gpu_hours(&self) -> Option<String> {
        gpu_hours::describe(self.gpu_hours.values())
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = &UsageFinding> {
        self.findings.iter().take(FINDINGS_SHOWN)
    }

    /// Describes in one sentence the data behind the findings, or why there can be none.
    pub(crate) fn basis(&self) -> String {
        let sum = |count: fn(&UsageCoverage) -> usize| self.coverage.values().map(count).sum::<usize>();
        match (sum(|one| one.measured), sum(|one| one.instances)) {
            (_, 0) if self.is_incomplete => "Which instances run on demand could not be read.".to_owned(),
            (0, all) if self.is_incomplete => {
                format!("The GPU metrics of {all} instances on demand could not be read.")
            }
            (_, 0) => "No instance runs on demand, except for jobs: there are no metrics to go by.".to_owned(),
            (0, all) => format!(
                "CloudWatch has no GPU metrics of the {all} instances on demand: whether they could cost less is unknown."
            ),
            (measured, all) => format!(
                "By the GPU metrics of {measured} of {all} instances on demand in three weeks, and by jobs on demand in 30 days."
            ),
        }
    }
}
