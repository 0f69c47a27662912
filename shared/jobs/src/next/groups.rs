//! The groups of a gang: they are made before its machines, and deleted after them. A job on one machine has none.

use super::JobDecision;
use crate::job_group::GROUPS_MAX;
use crate::{Effect, EffectResult, Job, JobFacts, JobGroup, Phase};

/// Returns `true` for the answer to an effect on a group. It decides nothing else.
pub(super) const fn is_answer(answer: Option<&EffectResult>) -> bool {
    matches!(answer, Some(EffectResult::GroupMade(_) | EffectResult::GroupDeleted(_) | EffectResult::GroupUnchanged))
}

/// Takes in what became of a group.
pub(super) fn confirm(mut job: Job, answer: Option<&EffectResult>) -> Job {
    match answer {
        Some(EffectResult::GroupMade(made)) => {
            for group in job.groups.iter_mut().filter(|group| *group == made) {
                if let JobGroup::Placement { is_made, .. } = group {
                    *is_made = true;
                }
            }
        }
        Some(EffectResult::GroupDeleted(deleted)) => job.groups.retain(|group| group != deleted),
        _ => {}
    }
    job
}

/// Names the security groups that were made for the candidates.
pub(super) fn learn_security_groups(job: &mut Job) {
    let networks =
        job.ranking.iter().flat_map(|ranking| &ranking.candidates).filter_map(|one| Some((one, one.network.as_ref()?)));
    let groups = networks.filter_map(|(one, network)| {
        let (vpc, id) = (network.vpc.clone()?, network.group.clone()?);
        Some(JobGroup::Security { region: one.region.clone(), vpc, id })
    });
    for group in groups.collect::<Vec<_>>() {
        add(job, group);
    }
}

/// Names the placement group of the next launch, before it is made.
pub(super) fn name_placement_group(job: &mut Job, candidate: u8) {
    let candidate = job.ranking.as_ref().and_then(|ranking| ranking.candidates.get(usize::from(candidate)));
    let clustered =
        candidate.filter(|candidate| candidate.network.as_ref().is_some_and(|network| network.is_clustered));
    if let Some(region) = clustered.map(|candidate| candidate.region.clone())
        && !job.groups.iter().any(|group| group.is_placement_of(&region, job.attempt))
    {
        let attempt = job.attempt;
        add(job, JobGroup::Placement { region, attempt, is_made: false });
    }
}

fn add(job: &mut Job, group: JobGroup) {
    if job.groups.len() < GROUPS_MAX && !job.groups.contains(&group) {
        job.groups.push(group);
    }
}

/// Deletes a group that is not needed any more, or makes that of the next attempt, where there is nothing else to do: after a warning there is no time
/// for it.
pub(super) fn tend((mut job, mut effects): JobDecision, facts: &JobFacts) -> JobDecision {
    let may_go_on = matches!(facts.answer, None | Some(EffectResult::GroupMade(_) | EffectResult::GroupDeleted(_)));
    let has_time = effects.is_empty() && facts.may_act && facts.warned.is_none();
    if job.terms.is_gang() && has_time && may_go_on {
        let left = job.groups.iter().find(|group| is_left(&job, group)).cloned();
        effects.extend(left.map(Effect::DeleteGroup).or_else(|| make_ahead(&mut job)));
    }
    (job, effects)
}

/// Returns `true` if all machines that used it are gone, or may be: EC2 deletes none that is in use.
fn is_left(job: &Job, group: &JobGroup) -> bool {
    let machines = || job.machine().into_iter().chain(&job.previous_attempt);
    if matches!(job.phase, Phase::Ended(_)) && machines().next().is_none() {
        return true;
    }
    match group {
        JobGroup::Security { .. } => false,
        JobGroup::Placement { attempt, .. } => {
            *attempt < job.attempt && machines().all(|machine| machine.attempt != *attempt)
        }
    }
}

fn make_ahead(job: &mut Job) -> Option<Effect> {
    let Phase::Running(placed) = &job.phase else { return None };
    let region = placed.region.clone();
    if !job.groups.iter().any(|group| group.is_placement_of(&region, placed.attempt)) {
        return None;
    }
    let attempt = job.attempt.saturating_add(1);
    if !job.groups.iter().any(|group| group.is_placement_of(&region, attempt)) {
        add(job, JobGroup::Placement { region: region.clone(), attempt, is_made: false });
    }
    let unmade = JobGroup::Placement { region, attempt, is_made: false };
    job.groups.contains(&unmade).then_some(Effect::MakeGroup(unmade))
}
