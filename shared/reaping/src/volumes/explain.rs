//! The explanation of one volume, or of one snapshot that Curfew made.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::duration;
use model::id::ResourceId;
use model::mark::whole_second;
use model::mode::Mode;
use model::moment::after;
use model::notification_log::{NotificationLogs, ResourceRecord};
use model::observation::Observation;
use model::rule::{ResourceAction, Rule};
use model::volume::{ObservedStorage, Snapshot, Volume, VolumeUse, VolumeUseQuery};
use plan::{Facts, SkipReason};

use super::snapshots::snapshot_mode;
use super::{LiveJobs, StorageView, TrackedVolume, VolumeCase, decide};
use crate::engine::ResourceCase;
use crate::engine::announcements::AnnouncedResource;
use crate::explain::{
    EffectiveMode, Explanation, ImmediateSkip, JudgedRule, PlanDecision, RuleExplanation, RuleVerdict,
    UpcomingViolation, WHILE_COMPLIANT, describe_refusal, skipping_tag, state_name,
};
use crate::policy::{DueAction, Policy, Verdict, configured_mode_and_its_source};
use crate::rules::orphaned;
use crate::rules::orphaned::VolumeSubject;

/// Explains one volume, or one snapshot that Curfew made, by the input of a run; `None` if it was not observed.
#[must_use]
pub fn explain(
    seen: &ObservedStorage,
    uses: &BTreeMap<ResourceId, VolumeUse>,
    live_jobs: &LiveJobs,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
    id: &ResourceId,
) -> Option<Explanation> {
    let seen = &narrowed(seen, id);
    let decision = PlanDecision::from_plan(decide(seen, uses, live_jobs, memory, policy, now), id.as_str())?;
    let view = StorageView::new(seen, live_jobs, memory, policy, now);
    if let Some(snapshot) = seen.snapshots.iter().find(|snapshot| snapshot.id == *id) {
        let ceiling = view.ceiling_of(snapshot, decision.memory().record.announced.get(&Rule::Expired));
        return Some(explain_snapshot(snapshot, decision, policy, ceiling));
    }
    let volume = seen.volumes.items.iter().find(|volume| volume.id == *id)?;
    Some(view.case(volume, uses.get(id).copied()).explanation(decision))
}

/// The `CloudWatch` query about one volume, whether or not a run would query now; `None` if no answer changes anything.
#[must_use]
pub fn full_use_query(
    seen: &ObservedStorage,
    live_jobs: &LiveJobs,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
    id: &ResourceId,
) -> Option<VolumeUseQuery> {
    let view = StorageView::new(seen, live_jobs, memory, policy, now);
    let volume = seen.volumes.items.iter().find(|volume| volume.id == *id && volume.is_unattached())?;
    let VolumeCase { since, .. } = view.case(volume, None);
    let is_due = now.duration_since(since) >= policy.config.volumes.orphaned_after;
    is_due.then(|| VolumeUseQuery { region: volume.region.clone(), volume: id.clone(), since })
}

/// The part of the observation that concerns one resource, whose plan no limit holds because of others.
fn narrowed(seen: &ObservedStorage, id: &ResourceId) -> ObservedStorage {
    let volume_id =
        seen.snapshots.iter().find(|snapshot| snapshot.id == *id).map_or(id, |snapshot| &snapshot.of_volume);
    let is_related = |snapshot: &&Snapshot| snapshot.id == *id || snapshot.of_volume == *volume_id;
    let snapshots: Vec<Snapshot> = seen.snapshots.iter().filter(is_related).cloned().collect();
    let named = |volume: &&Volume| volume.id == *id || snapshots.iter().any(|one| one.of_volume == volume.id);
    let volumes = seen.volumes.items.iter().filter(named).cloned().collect();
    ObservedStorage { volumes: Observation { items: volumes, gaps: Vec::new() }, snapshots, ..seen.clone() }
}

impl VolumeCase<'_> {
    fn explanation(self, decision: PlanDecision) -> Explanation {
        let curfew_tags = self.curfew_tags();
        let skipped = ImmediateSkip::explain(self, |reason| describe_skip_reason(reason).to_owned());
        let row = self.row(&curfew_tags);
        let curfew_tags = curfew_tags.unwrap_or_default();
        Explanation {
            target: self.target(),
            state: state_name(&self.volume.state),
            since: self.volume.created_at,
            price: self.view.policy.prices.volume_cost(self.volume),
            mode: self.effective_mode(&curfew_tags),
            rules: vec![if skipped.is_some() { row.while_skipped() } else { row }],
            skipped,
            decision,
        }
    }

    fn effective_mode(self, curfew_tags: &CurfewTags) -> EffectiveMode {
        let owner_tags = self.tags_of_owner();
        let wanted = configured_mode_and_its_source(curfew_tags, &owner_tags, &self.view.policy.config);
        EffectiveMode::under(self.facts().ceiling(&owner_tags, Rule::Orphaned), wanted)
    }

    fn row(self, curfew_tags: &Result<CurfewTags, Vec<UnreadableTag>>) -> RuleExplanation {
        let no_tags = CurfewTags::default();
        let readable_tags = curfew_tags.as_ref().unwrap_or(&no_tags);
        let (rule, mode) = (Rule::Orphaned, self.effective_mode(readable_tags));
        let not_judged =
            |evidence: String, when: &str| RuleExplanation::not_judged(rule, mode.clone(), evidence, when.to_owned());
        if curfew_tags.is_err() {
            return not_judged("one of its tags cannot be read".to_owned(), "not while a tag cannot be read");
        }
        if !self.volume.is_attached() && !self.volume.is_unattached() {
            return not_judged(format!("it is {}", state_name(&self.volume.state)), "not before it is available");
        }
        let subject = self.subject();
        let verdict = if self.volume.is_attached() { Verdict::Compliant } else { orphaned::judge(subject) };
        let tracked = TrackedVolume { case: self, curfew_tags: readable_tags, mode: mode.mode };
        let verdicts = tracked.within_labels(vec![(rule, verdict)]);
        let track = tracked.track(&verdicts, mode.mode);
        let verdict = verdicts.first().map_or(&Verdict::Compliant, |(_, verdict)| verdict);
        let (evidence, coming) = (self.evidence(verdict), self.coming(verdict));
        JudgedRule { rule, verdict, mode, track: &track, evidence, coming, now: self.view.now }.into_explanation()
    }

    fn evidence(self, verdict: &Verdict) -> String {
        let Self { since, volume, view, .. } = self;
        let after = duration::format_duration(view.policy.config.volumes.orphaned_after);
        match (verdict, self.used) {
            (Verdict::Violated(violation), _) => violation.evidence.explain(),
            (Verdict::Compliant, _) if volume.is_attached() => {
                let hosts: Vec<&str> = volume.attached_to.iter().map(ResourceId::as_str).collect();
                format!("it is attached to {}", hosts.join(", "))
            }
            (Verdict::Compliant, Some(VolumeUse::UsedAt(at))) => format!("it was in use at {at}"),
            (Verdict::Compliant, _) if since == whole_second(view.now) => {
                format!("first seen unattached now; orphaned after {after}")
            }
            (Verdict::Compliant, _) => format!("unattached since {since}; orphaned after {after}"),
            (Verdict::Unknown, _) => {
                format!("unattached since {since}; its usage since then is unknown")
            }
        }
    }

    fn coming(self, verdict: &Verdict) -> Option<UpcomingViolation> {
        let config = &self.view.policy.config.volumes;
        if *verdict != Verdict::Compliant || self.volume.is_attached() {
            return None;
        }
        // What was in use begins anew with the next run that finds it unattached.
        let since = match self.used {
            Some(VolumeUse::UsedAt(_)) => self.view.now,
            Some(VolumeUse::None) | None => self.since,
        };
        let at = after(since, config.orphaned_after);
        let then = VolumeSubject { unattached_since: since, used: Some(VolumeUse::None), now: at, ..self.subject() };
        let due = match orphaned::judge(then) {
            Verdict::Violated(violation) => Some(violation.due),
            Verdict::Compliant | Verdict::Unknown => None,
        };
        Some(UpcomingViolation { at, due })
    }
}

const fn describe_skip_reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Kubernetes => "it belongs to a Kubernetes claim, which may be scaled to zero; delete the claim",
        SkipReason::ForeignOwned => "managed by a stack or another controller; change it there",
        SkipReason::MultiAttach => "several instances may share it",
        SkipReason::LiveJob => "the job that it was created for is not finished",
        _ => "it is being created or deleted, or has failed",
    }
}

fn deletion_time(record: &ResourceRecord) -> Option<Timestamp> {
    record.safety.as_ref()?.deleted_at
}

fn describe_last_refusal(record: &ResourceRecord) -> String {
    let refusal = record.refused.get(&ResourceAction::Delete).or(record.label_refused.as_ref());
    refusal.map(|refusal| describe_refusal(*refusal)).unwrap_or_default()
}

/// The deletion of a snapshot that is due. `when`: its time in enforce mode.
fn describe_deletion(mode: Mode, when: &str) -> String {
    match mode {
        Mode::Observe => format!("never in observe mode; in enforce mode deleted {when}"),
        Mode::Enforce => "deleted by the next run".to_owned(),
    }
}

/// Explains a snapshot. Only one rule ends it, and the message about the deletion of its volume announces that.
fn explain_snapshot(snapshot: &Snapshot, decision: PlanDecision, policy: &Policy, ceiling: Mode) -> Explanation {
    let curfew_tags = CurfewTags::read_volume(&snapshot.tags);
    let no_tags = CurfewTags::default();
    let readable_tags = curfew_tags.as_ref().unwrap_or(&no_tags);
    let mode = EffectiveMode::under(ceiling, snapshot_mode(readable_tags, &snapshot.tags, &policy.config));
    let kept = |evidence: String, at: Option<Timestamp>| RuleExplanation {
        verdict: RuleVerdict::Compliant,
        when: at.map_or(WHILE_COMPLIANT.to_owned(), |at| {
            let due = Some(DueAction::AtOnce(ResourceAction::Delete, at));
            UpcomingViolation { at, due }.describe(mode.mode)
        }),
        ..RuleExplanation::not_judged(Rule::Expired, mode.clone(), evidence, String::new())
    };
    let mut skipped = None;
    let row = match &decision {
        PlanDecision::Step(step) => match (&step.evidence.facts, step.deadline) {
            (Facts::SnapshotExpired { expires_at, .. }, Some(deadline)) => RuleExplanation {
                verdict: RuleVerdict::Violated,
                action: Some(ResourceAction::Delete.as_str()),
                deadline: Some(deadline),
                announced: true,
                when: describe_deletion(mode.mode, &format!("from {expires_at} on")),
                ..kept(step.evidence.explain(), None)
            },
            (Facts::SnapshotExpired { expires_at, volume, .. }, None) => {
                kept(format!("{volume} is gone; the next run announces that"), Some(*expires_at))
            }
            _ if step.evidence.rule() == Rule::Orphaned => RuleExplanation {
                verdict: RuleVerdict::Violated,
                action: Some(ResourceAction::Delete.as_str()),
                when: describe_deletion(mode.mode, "by the next run"),
                ..kept(step.evidence.explain(), None)
            },
            _ => kept(String::new(), None),
        },
        PlanDecision::Skipped(one) => match (one.reason, deletion_time(&one.memory.record)) {
            (SkipReason::VolumeExists, _) => kept(format!("{} exists", snapshot.of_volume), None),
            (SkipReason::Restorable, Some(at)) => {
                let evidence = format!("{} was deleted at {at}, and can be restored from it", snapshot.of_volume);
                let announced = one.memory.record.announced.get(&Rule::Expired).map(|announced| announced.deadline);
                kept(evidence, announced.max(Some(policy.snapshots_kept_until(at))))
            }
            (SkipReason::Refused, _) => RuleExplanation {
                verdict: RuleVerdict::Violated,
                when: describe_last_refusal(&one.memory.record),
                ..kept(format!("{} is gone", snapshot.of_volume), None)
            },
            (because, _) => {
                let words = skipping_tag(because, &snapshot.tags, curfew_tags.as_ref().err());
                let words = words.unwrap_or_else(|| "it is a copy, or Curfew did not make it".to_owned());
                skipped = Some(ImmediateSkip { reason: because, words });
                let (evidence, when) = ("it is skipped".to_owned(), "not while it is skipped".to_owned());
                RuleExplanation::not_judged(Rule::Expired, mode.clone(), evidence, when)
            }
        },
    };
    Explanation {
        target: decision.target().clone(),
        state: state_name(&snapshot.state),
        since: snapshot.started_at,
        price: None,
        mode,
        skipped,
        rules: vec![row],
        decision,
    }
}

#[cfg(test)]
mod tests;
