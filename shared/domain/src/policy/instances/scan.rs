//! What is found of running instances, without announcing anything: see [`crate::scan`].

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::spare::{why_unknown, why_unknown_in_short};
use super::{Case, NOT_ASKED};
use crate::foreign::controller;
use crate::id::ResourceId;
use crate::instance::{Instance, State};
use crate::news::why;
use crate::notices::Notices;
use crate::plan::{Because, OnlyTold, SparedBecause, Target};
use crate::policy::claim::Stranger;
use crate::policy::{Policy, Verdict, idle, untagged};
use crate::scan::{Finding, Kind};
use crate::usage::{Quiet, Unknown, Usage};
use crate::vocabulary::{Vocabulary, explained, named};

/// Everything that is found of these instances, each of which is in one finding at most.
#[must_use]
pub fn scan(seen: &[Instance], usages: &BTreeMap<ResourceId, Usage>, policy: &Policy, now: Timestamp) -> Vec<Finding> {
    let notices = &Notices::default();
    let case = |instance| Case { instance, usage: usage(usages, instance), notices, policy, now };
    seen.iter().map(case).filter_map(Case::found).collect()
}

/// How many of these instances would be judged for idleness, but nobody answered whether they work. They are in no finding
/// for it.
#[must_use]
pub fn unjudged(seen: &[Instance], usages: &BTreeMap<ResourceId, Usage>, policy: &Policy, now: Timestamp) -> usize {
    let notices = &Notices::default();
    let case = |instance| Case { instance, usage: usage(usages, instance), notices, policy, now };
    seen.iter().map(case).filter(|case| case.is_unanswered()).count()
}

fn usage<'a>(usages: &'a BTreeMap<ResourceId, Usage>, of: &Instance) -> &'a Usage {
    usages.get(&of.id).unwrap_or(&NOT_ASKED)
}

/// One thing that is found, its evidence, and the same in a few words.
struct One {
    kind: Kind,
    because: String,
    in_short: String,
}

impl Case<'_> {
    fn is_unanswered(self) -> bool {
        let spared = self.spared_at_sight().map(|spared| spared.because);
        self.instance.state == State::Running
            && matches!(spared, None | Some(SparedBecause::ForeignOwned))
            && matches!(self.usage, Usage::Unknown(Unknown::NotAsked))
            && self.is_judged_for_idleness()
    }

    /// Of a running one that is neither protected nor kept. Tags that cannot be read hide nothing here: nothing is
    /// done.
    fn found(self) -> Option<Finding> {
        let spared = self.spared_at_sight().map(|spared| spared.because);
        if self.instance.state != State::Running
            || matches!(spared, Some(SparedBecause::Protected | SparedBecause::Kept))
        {
            return None;
        }
        let unreadable = Vocabulary::read(self.instance);
        let mut found = self.found_by_rules();
        found.extend(self.cannot_be_judged().map(|unknown| One {
            kind: Kind::Uninstrumented,
            because: format!("nobody can say whether it works: {}", why_unknown(unknown)),
            in_short: why_unknown_in_short(unknown),
        }));
        found.sort_by_key(|one| one.kind);
        let kinds: Vec<Kind> = found.iter().map(|one| one.kind).collect();
        if kinds.is_empty() {
            return None;
        }
        let besides = self
            .instance
            .prepaid
            .map(|_| (OnlyTold::SavesNothing.explained().to_owned(), "paid for anyway (reserved)".to_owned()));
        let unreadable = unreadable.err().map(|unreadable| (explained(&unreadable), named(&unreadable)));
        let found = found.into_iter().map(|One { because, in_short, .. }| (because, in_short));
        let (because, in_short): (Vec<String>, Vec<String>) = found.chain(besides).chain(unreadable).unzip();
        let Target { region, resource, team, owner, name, what } = self.target();
        Some(Finding {
            region,
            resource,
            kinds,
            team,
            owner,
            name,
            what,
            price: self.policy.prices.saved_by_ending(self.instance),
            accelerators: self.instance.machine.accelerators,
            size_gib: 0,
            because: because.join("; "),
            in_short: in_short.join("; "),
            created_at: None,
            controller: controller(self.instance, &self.policy.config.managed),
        })
    }

    /// That it is idle, and that it lacks tags. The latter also where nobody could be asked whether it works: nothing
    /// is to be announced for it.
    fn found_by_rules(self) -> Vec<One> {
        // Of a job's machine, and of what may be one, only its expiry counts, which its launch wrote down.
        if self.claim().knows_only_its_expiry() {
            return Vec::new();
        }
        let says = Vocabulary::read(self.instance).unwrap_or_default();
        let subject = self.subject(&says);
        let mut found = Vec::new();
        if let Verdict::Broken(broken) = idle::judge(subject)
            && let Because::Idle(quiet) = &broken.because
        {
            let kind = if quiet.reserved { Kind::Reserved } else { Kind::Idle };
            found.push(One { kind, because: why(&broken.because, self.now), in_short: in_short(quiet) });
        }
        found.extend(untagged::lacks(subject).map(|because| {
            let missing = subject.missing_tags();
            let lacks = (!missing.is_empty()).then(|| format!("lacks {}", missing.join(", ")));
            let names = untagged::disowned_by(subject).map(|Stranger { job, .. }| format!("not of {job}"));
            let in_short = lacks.into_iter().chain(names).collect::<Vec<_>>().join(", ");
            One { kind: Kind::Untagged, because: why(&because, self.now), in_short }
        }));
        found
    }
}

/// `8 GPUs at 0 %`.
fn in_short(Quiet { devices, gpu_max_percent, gpu_memory_held_mib, reserved, .. }: &Quiet) -> String {
    let plural = if *devices == 1 { "" } else { "s" };
    let held = gpu_memory_held_mib.filter(|_| *reserved).map(|mib| format!(", {mib:.0} MiB held")).unwrap_or_default();
    format!("{devices} GPU{plural} at {gpu_max_percent:.0} %{held}")
}
