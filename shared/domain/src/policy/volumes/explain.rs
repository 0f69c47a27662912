//! What there is to say of one volume, or of one snapshot that Curfew made.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Case, LiveJobs, Tracked, View, decide};
use crate::duration;
use crate::id::ResourceId;
use crate::mark::whole_second;
use crate::mode::Mode;
use crate::news::why;
use crate::notices::Memory;
use crate::observed::Observed;
use crate::plan::{Because, SparedBecause};
use crate::policy::explain::{
    Coming, Decision, Explanation, Finds, InMode, Judged, RuleExplained, SparedAtSight, sparing_tag, state_of,
};
use crate::policy::follow::Followed;
use crate::policy::orphaned::{self, Subject};
use crate::policy::{Due, Policy, Verdict, effective_mode_and_its_source};
use crate::rule::{Ending, Rule};
use crate::vocabulary::{Unreadable, Vocabulary};
use crate::volume::{Snapshot, Storage, Volume, VolumeAsk, VolumeUse};

/// What there is to say of one volume, or of one snapshot that Curfew made, by what a run would be given; `None` where it was
/// not seen.
#[must_use]
pub fn explain(
    seen: &Storage,
    uses: &BTreeMap<ResourceId, VolumeUse>,
    live_jobs: &LiveJobs,
    memory: &Memory,
    policy: &Policy,
    now: Timestamp,
    id: &ResourceId,
) -> Option<Explanation> {
    let seen = &narrowed(seen, id);
    let decision = Decision::of(decide(seen, uses, live_jobs, memory, policy, now), id.as_str())?;
    let view = View::of(seen, live_jobs, memory, policy, now);
    if let Some(snapshot) = seen.snapshots.iter().find(|snapshot| snapshot.id == *id) {
        return Some(of_snapshot(snapshot, decision, policy));
    }
    let volume = seen.volumes.items.iter().find(|volume| volume.id == *id)?;
    Some(view.case(volume, uses.get(id).copied()).explained(decision))
}

/// What to ask `CloudWatch` about one volume, whether or not a run would ask now; `None` where no answer changes anything.
#[must_use]
pub fn ask(
    seen: &Storage,
    live_jobs: &LiveJobs,
    memory: &Memory,
    policy: &Policy,
    now: Timestamp,
    id: &ResourceId,
) -> Option<VolumeAsk> {
    let view = View::of(seen, live_jobs, memory, policy, now);
    let volume = seen.volumes.items.iter().find(|volume| volume.id == *id && volume.is_unattached())?;
    let Case { since, .. } = view.case(volume, None);
    let is_due = now.duration_since(since) >= policy.config.volumes.orphaned_after;
    is_due.then(|| VolumeAsk { region: volume.region.clone(), volume: id.clone(), since })
}

/// Of what was seen, all that bears upon one resource: a plan for it alone is held by no limit that counts others.
fn narrowed(seen: &Storage, id: &ResourceId) -> Storage {
    let of_it = |snapshot: &&Snapshot| snapshot.id == *id || snapshot.of_volume == *id;
    let snapshots: Vec<Snapshot> = seen.snapshots.iter().filter(of_it).cloned().collect();
    let named = |volume: &&Volume| volume.id == *id || snapshots.iter().any(|one| one.of_volume == volume.id);
    let volumes = seen.volumes.items.iter().filter(named).cloned().collect();
    Storage { volumes: Observed { items: volumes, gaps: Vec::new() }, snapshots, ..seen.clone() }
}

impl Case<'_> {
    fn explained(self, decision: Decision) -> Explanation {
        let says = Vocabulary::read_volume(&self.volume.tags);
        let spared = self.spared_at_sight().map(|spared| SparedAtSight {
            because: spared.because,
            words: sparing_tag(spared.because, &self.volume.tags, says.as_ref().err())
                .unwrap_or_else(|| sparing(spared.because).to_owned()),
        });
        let row = self.row(&says);
        let says = says.unwrap_or_default();
        Explanation {
            target: self.target(),
            state: state_of(&self.volume.state),
            since: self.volume.created_at,
            price: self.view.policy.prices.of_volume(self.volume),
            mode: self.in_mode(&says),
            rules: vec![if spared.is_some() { row.while_spared() } else { row }],
            spared,
            decision,
        }
    }

    fn in_mode(self, says: &Vocabulary) -> InMode {
        let policy = self.view.policy;
        let (wanted, from) = effective_mode_and_its_source(says, &self.tags_of_owner(), &policy.config);
        InMode { mode: wanted.min(policy.ceiling), wanted, from }
    }

    fn row(self, says: &Result<Vocabulary, Vec<Unreadable>>) -> RuleExplained {
        let nothing = Vocabulary::default();
        let legible = says.as_ref().unwrap_or(&nothing);
        let (rule, mode) = (Rule::Orphaned, self.in_mode(legible));
        let not_judged =
            |evidence: String, when: &str| RuleExplained::not_judged(rule, mode.clone(), evidence, when.to_owned());
        if says.is_err() {
            return not_judged("one of its tags cannot be read".to_owned(), "not before its tags can be read");
        }
        if !self.volume.is_attached() && !self.volume.is_unattached() {
            return not_judged(format!("it is {}", state_of(&self.volume.state)), "not before it is available");
        }
        let subject = self.subject();
        let verdict = if self.volume.is_attached() { Verdict::Kept } else { orphaned::judge(subject) };
        let tracked = Tracked { case: self, says: legible, mode: mode.mode };
        let verdicts = [(rule, verdict)];
        let track = tracked.track(&verdicts, mode.mode);
        let [(_, verdict)] = &verdicts;
        let (evidence, coming) = (self.evidence(verdict), self.coming(verdict));
        Judged { rule, verdict, mode, track: &track, evidence, coming, now: self.view.now }.explained()
    }

    fn evidence(self, verdict: &Verdict) -> String {
        let Self { since, volume, view, .. } = self;
        let after = duration::show(view.policy.config.volumes.orphaned_after);
        match (verdict, self.used) {
            (Verdict::Broken(broken), _) => why(&broken.because, view.now),
            (Verdict::Kept, _) if volume.is_attached() => {
                let hosts: Vec<&str> = volume.attached_to.iter().map(ResourceId::as_str).collect();
                format!("it is attached to {}", hosts.join(", "))
            }
            (Verdict::Kept, Some(VolumeUse::UsedAt(at))) => format!("it was in use at {at}"),
            (Verdict::Kept, _) if since == whole_second(view.now) => {
                format!("it is seen attached to nothing for the first time; after {after} it is orphaned")
            }
            (Verdict::Kept, _) => format!("attached to nothing since {since}; after {after} it is orphaned"),
            (Verdict::Unknown, _) => {
                format!("attached to nothing since {since}, and nobody could say whether it was used since then")
            }
        }
    }

    fn coming(self, verdict: &Verdict) -> Option<Coming> {
        let config = &self.view.policy.config.volumes;
        if *verdict != Verdict::Kept || self.volume.is_attached() {
            return None;
        }
        // What was in use begins anew with the next run that finds it unattached.
        let since = match self.used {
            Some(VolumeUse::UsedAt(_)) => self.view.now,
            Some(VolumeUse::None) | None => self.since,
        };
        let at = since + config.orphaned_after;
        let then = Subject { unattached_since: since, used: Some(VolumeUse::None), now: at, ..self.subject() };
        let due = match orphaned::judge(then) {
            Verdict::Broken(broken) => Some(broken.due),
            Verdict::Kept | Verdict::Unknown => None,
        };
        Some(Coming { at, due })
    }
}

const fn sparing(because: SparedBecause) -> &'static str {
    match because {
        SparedBecause::Kubernetes => {
            "it was made for a claim of a Kubernetes cluster, which may be scaled to zero: delete the claim"
        }
        SparedBecause::ForeignOwned => "a stack or another controller keeps it: mend it there",
        SparedBecause::MultiAttach => "several instances may share it",
        SparedBecause::LiveJob => "the job that it was created for is not finished",
        _ => "it is being created or deleted, or has failed",
    }
}

/// A snapshot ends by the one rule that its owner hears of when its volume is deleted.
fn of_snapshot(snapshot: &Snapshot, decision: Decision, policy: &Policy) -> Explanation {
    let says = Vocabulary::read_snapshot(&snapshot.tags);
    let nothing = Vocabulary::default();
    let legible = says.as_ref().unwrap_or(&nothing);
    let (wanted, from) = effective_mode_and_its_source(legible, &snapshot.tags, &policy.config);
    let mode = InMode { mode: wanted.min(policy.ceiling), wanted, from };
    let keep = policy.config.volumes.keep_snapshots;
    let kept = |evidence: String, at: Option<Timestamp>| RuleExplained {
        finds: Finds::Kept,
        when: at.map_or("not while that is so".to_owned(), |at| {
            let due = Some(Due::Now(Ending::Delete, at));
            Coming { at, due }.words(mode.mode)
        }),
        ..RuleExplained::not_judged(Rule::Expired, mode.clone(), evidence, String::new())
    };
    let mut spared = None;
    let row = match &decision {
        Decision::Step(step) => match (&step.because, step.deadline) {
            (Because::Outlived { expires_at, .. }, Some(deadline)) => RuleExplained {
                finds: Finds::Broken,
                action: Some(Ending::Delete.as_str()),
                deadline: Some(deadline),
                announced: true,
                when: match mode.mode {
                    Mode::Observe => format!("never in observe mode; it would be deleted from {expires_at} on"),
                    Mode::Enforce => "deleted by the next run".to_owned(),
                },
                ..kept(why(&step.because, snapshot.started_at), None)
            },
            (Because::Outlived { expires_at, volume, .. }, None) => {
                kept(format!("{volume} is gone, and the next run writes down since when"), Some(*expires_at))
            }
            _ => kept(String::new(), None),
        },
        Decision::Spared(one) => match (one.because, legible.deleted_at) {
            (SparedBecause::VolumeExists, _) => kept(format!("{} exists", snapshot.of_volume), None),
            (SparedBecause::Restorable, Some(at)) => {
                let evidence = format!("{} was deleted at {at}, and can be restored from it", snapshot.of_volume);
                kept(evidence, Some(at + keep))
            }
            (because, _) => {
                let words = sparing_tag(because, &snapshot.tags, says.as_ref().err());
                let words = words.unwrap_or_else(|| "it is a copy, or nobody says that Curfew made it".to_owned());
                spared = Some(SparedAtSight { because, words });
                let (evidence, when) = ("it is spared".to_owned(), "not while it is spared".to_owned());
                RuleExplained::not_judged(Rule::Expired, mode.clone(), evidence, when)
            }
        },
    };
    Explanation {
        target: decision.target().clone(),
        state: state_of(&snapshot.state),
        since: snapshot.started_at,
        price: None,
        mode,
        spared,
        rules: vec![row],
        decision,
    }
}

#[cfg(test)]
mod tests;
