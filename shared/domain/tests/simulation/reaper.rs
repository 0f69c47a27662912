//! One run of a reaper, in the order of the product: look, decide, record ahead, act, tell, mark, record, remember. Each
//! part is a function, so that two runs can be under way at once; a run may be cut off before any effect. What it looks at,
//! and how it writes, is each reaper's own.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use domain::id::Region;
use domain::mode::Mode;
use domain::news::{self, News};
use domain::notices::Memory;
use domain::observed::{Gap, GapKind};
use domain::plan::{Action, Plan, Step};
use domain::report::{Outcome, OutcomeKind, Report};

use crate::account::Account;
use crate::chance::{region, stamp};
use crate::ec2;
use crate::fault::Fault;
use crate::look::FUNCTION;
use crate::settings::Settings;

/// The run is over, wherever it was.
pub(crate) struct Cut;

/// What a run goes by: never changed while it runs.
pub(crate) struct Facts {
    pub(crate) id: u64,
    pub(crate) now: i64,
    pub(crate) settings: Rc<Settings>,
    /// `CURFEW_MODE`, and observe where nobody listens.
    pub(crate) ceiling: Mode,
    /// How many instances it saw.
    pub(crate) fleet: usize,
}

/// How far a run still gets.
pub(crate) struct Pulse {
    /// Effects before it is cut off.
    pub(crate) effects_left: Option<u32>,
    /// Steps that it has time for.
    steps_left: Option<u32>,
}

impl Pulse {
    /// Before each effect.
    pub(crate) fn beat(&mut self) -> Result<(), Cut> {
        match &mut self.effects_left {
            Some(0) => Err(Cut),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

pub(crate) struct Run {
    pub(crate) facts: Facts,
    pulse: Pulse,
    memory: Memory,
    versions: BTreeMap<Region, u64>,
    home: Region,
    may_end: bool,
    pub(crate) report: Report,
    news: Vec<News>,
    delivered: BTreeSet<String>,
}

/// What a run knows before it looks.
pub(crate) struct Start {
    pub(crate) pulse: Pulse,
    pub(crate) memory: Memory,
    /// Where notices could not be read.
    pub(crate) gaps: Vec<Gap>,
    /// `CURFEW_MODE`, and observe where nobody listens.
    pub(crate) ceiling: Mode,
    regions: Vec<Region>,
    versions: BTreeMap<Region, u64>,
    home: Region,
    may_end: bool,
    audience_gap: Option<Gap>,
}

/// Reads what earlier runs told, and asks who listens.
pub(crate) fn start(account: &mut Account, now: i64) -> Start {
    let cut = account.faults.strikes(Fault::RunCut, now);
    let effects_left = cut.then(|| account.faults.effects_before_cut());
    let steps_left = account.faults.strikes(Fault::RunOutOfTime, now).then(|| u32::try_from(now % 3).unwrap_or(0));
    let pulse = Pulse { effects_left, steps_left };
    let regions: Vec<Region> = (0..account.regions).map(region).collect();
    let Recalled { memory, versions, gaps } = recall(account, &regions, now);
    let home = memory
        .keys()
        .next()
        .filter(|_| !memory.contains_key(&regions[0]))
        .cloned()
        .unwrap_or_else(|| regions[0].clone());
    let (mut ceiling, mut may_end) = (account.ceiling, true);
    let mut audience_gap = None;
    if ceiling == Mode::Enforce {
        if account.faults.strikes(Fault::NobodyListens, now) {
            ceiling = Mode::Observe;
            audience_gap = Some(gap(&regions[0], "sns:ListSubscriptionsByTopic"));
        } else if account.faults.strikes(Fault::AudienceUnknown, now) {
            may_end = false;
            audience_gap = Some(gap(&regions[0], "sns:ListSubscriptionsByTopic"));
        }
    }
    Start { pulse, memory, gaps, ceiling, regions, versions, home, may_end, audience_gap }
}

impl Start {
    /// A run that has looked and planned.
    pub(crate) fn run(self, account: &Account, plan: Plan, facts: Facts) -> Run {
        let Self { pulse, memory, regions, versions, home, may_end, audience_gap, .. } = self;
        let (id, at) = (format!("run-{}", facts.id), stamp(facts.now));
        // The run's mode is `CURFEW_MODE`; what nobody would hear is planned to be observed.
        let mut report = Report::of(plan, FUNCTION, id.as_str().into(), at, account.ceiling, regions);
        if !may_end {
            not_ended(&mut report, "nobody could say whether somebody listens");
        }
        report.gaps.extend(audience_gap);
        Run { facts, pulse, memory, versions, home, may_end, report, news: Vec::new(), delivered: BTreeSet::new() }
    }
}

struct Recalled {
    memory: Memory,
    versions: BTreeMap<Region, u64>,
    gaps: Vec<Gap>,
}

fn recall(account: &mut Account, regions: &[Region], now: i64) -> Recalled {
    let mut recalled = Recalled { memory: Memory::new(), versions: BTreeMap::new(), gaps: Vec::new() };
    for region in regions {
        if account.faults.strikes(Fault::NoticesUnreadable, now) {
            recalled.gaps.push(Gap { kind: GapKind::Region, ..gap(region, "s3:GetObject") });
            continue;
        }
        let document = account.notices.entry(region.clone()).or_default();
        recalled.versions.insert(region.clone(), document.0);
        recalled.memory.insert(region.clone(), document.1.clone());
    }
    recalled
}

/// Writes the plan down where it ends anything, then acts, all but marks.
pub(crate) fn act(account: &mut Account, run: &mut Run) -> Result<(), Cut> {
    if run.report.steps.iter().any(|(step, _)| is_reached_end(step)) {
        run.pulse.beat()?;
        if account.faults.strikes(Fault::AuditUnwritten, run.facts.now) {
            not_ended(&mut run.report, "the audit record could not be written");
            run.report.gaps.push(gap(&run.home, "s3:PutObject"));
            run.may_end = false;
        }
    }
    let may_end = run.may_end;
    carry_out(account, run, |step| !matches!(step.action, Action::Mark(_)) && (may_end || !step.action.is_end()))
}

fn carry_out(account: &mut Account, run: &mut Run, wanted: impl Fn(&Step) -> bool) -> Result<(), Cut> {
    for (step, outcome) in run.report.steps.iter_mut().filter(|(step, _)| wanted(step)) {
        *outcome = match (&step.held, &mut run.pulse.steps_left) {
            (Some(held), _) => Outcome::with(OutcomeKind::NotReached, held.to_string()),
            (None, Some(0)) => Outcome::with(OutcomeKind::NotReached, "the run's time was over"),
            (None, left) => {
                if let Some(left) = left {
                    *left -= 1;
                }
                ec2::carry_out(account, &run.facts, &mut run.pulse, step)?
            }
        };
        account.log_step(step, outcome);
    }
    Ok(())
}

/// Tells each team.
pub(crate) fn tell(account: &mut Account, run: &mut Run) -> Result<(), Cut> {
    let now = stamp(run.facts.now);
    run.news = news::news(&run.report, &run.memory, &run.home, now);
    run.delivered = publish(account, run, None)?;
    Ok(())
}

/// Sends the run's news, or other; the teams that were told everything.
fn publish(account: &mut Account, run: &mut Run, other: Option<&[News]>) -> Result<BTreeSet<String>, Cut> {
    let nothing_owed = Memory::new();
    let memory = if other.is_some() { &nothing_owed } else { &run.memory };
    let messages = news::messages(&run.report, other.unwrap_or(&run.news), memory);
    let mut delivered: BTreeSet<String> = messages.iter().map(|message| message.team.clone()).collect();
    for message in messages {
        run.pulse.beat()?;
        let refused = account.faults.strikes(Fault::MessageRefused, run.facts.now);
        if !refused {
            account.hear(&message, &run.facts);
        }
        if refused || account.faults.strikes(Fault::MessageUnheard, run.facts.now) {
            delivered.remove(&message.team);
            run.report.gaps.push(gap(&region(0), "sns:Publish"));
        }
    }
    Ok(delivered)
}

/// Marks what was announced, and records it all.
pub(crate) fn mark(account: &mut Account, run: &mut Run) -> Result<(), Cut> {
    let delivered = std::mem::take(&mut run.delivered);
    let heard = |step: &Step| step.told_before || delivered.contains(&news::team_attribute(&step.target));
    carry_out(account, run, |step| matches!(step.action, Action::Mark(_)) && heard(step))?;
    run.delivered = delivered;
    run.pulse.beat()?;
    if account.faults.strikes(Fault::AuditUnwritten, run.facts.now) {
        run.report.gaps.push(gap(&run.home, "s3:PutObject"));
    }
    Ok(())
}

/// Writes down what was told, over the version that was read and no other.
pub(crate) fn remember(account: &mut Account, mut run: Run) -> Result<(), Cut> {
    let now = stamp(run.facts.now);
    let late = news::late_news(&run.report, &run.news, &run.memory, &run.home, now);
    let after = news::remember(&run.memory, &run.report, &run.news, &late, &run.delivered, now);
    let mut unwritten = Vec::new();
    for (region, notices) in after {
        if run.memory.get(&region) == Some(&notices) {
            continue;
        }
        run.pulse.beat()?;
        let read = run.versions.get(&region).copied().unwrap_or_default();
        let document = account.notices.entry(region.clone()).or_default();
        if document.0 != read {
            continue;
        }
        if account.faults.strikes(Fault::NoticesUnwritten, run.facts.now) {
            unwritten.push(gap(&region, "s3:PutObject"));
        } else {
            *document = (read + 1, notices);
        }
    }
    if !unwritten.is_empty() {
        let told: Vec<News> = unwritten.iter().map(|gap| news::of_gap(gap, &run.home)).collect();
        publish(account, &mut run, Some(&told))?;
    }
    account.ran(&run.facts);
    Ok(())
}

/// A configuration that is refused is told once a day, and nothing else is done.
pub(crate) fn refuse(account: &mut Account, now: i64) {
    let home = [region(0)];
    let Recalled { memory, versions, .. } = recall(account, &home, now);
    let facts =
        Facts { id: account.runs, now, settings: Rc::clone(&account.settings), ceiling: account.ceiling, fleet: 0 };
    let news = news::of_refused_configuration(&home[0], "line 3, key `idle.windw`: unknown", &memory, stamp(now));
    let nothing = Plan { seen: 0, steps: Vec::new(), spared: Vec::new(), gaps: Vec::new() };
    let report = Report::of(nothing, FUNCTION, "run-0".into(), stamp(now), account.ceiling, Vec::new());
    let [home] = home;
    let news: Vec<News> = news.into_iter().collect();
    let pulse = Pulse { effects_left: None, steps_left: None };
    let delivered = BTreeSet::new();
    let mut run = Run { facts, pulse, memory, versions, home, may_end: false, report, news, delivered };
    if let Ok(delivered) = publish(account, &mut run, None) {
        run.delivered = delivered;
        let _ = remember(account, run);
    }
}

fn is_reached_end(step: &Step) -> bool {
    step.action.is_end() && step.mode == Mode::Enforce && step.held.is_none()
}

fn not_ended(report: &mut Report, why: &str) {
    for (_, outcome) in report.steps.iter_mut().filter(|(step, _)| is_reached_end(step)) {
        outcome.error = Some(format!("not ended, because {why}"));
    }
}

pub(crate) fn gap(region: &Region, call: &str) -> Gap {
    let error = format!("{call} failed: the simulation refuses it");
    Gap { region: region.clone(), call: call.to_owned(), error, kind: GapKind::Part }
}
