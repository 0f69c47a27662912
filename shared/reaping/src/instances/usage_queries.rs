//! The instances to query `CloudWatch` about, which bills per metric: those that can have become idle since they were last seen busy; unknown,
//! notify-only and, once announced, observed ones once a window, and not always in full; marked ones in every run.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::CurfewTags;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::moment::after;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::rule::Rule;
use model::usage::{
    ActivityCache, BusyEvidence, DecisiveSeries, LAG, LastInquiry, LookedBack, PERIOD, QueryDepth, QueryResult,
    UnknownUsage, Usage, UsageQuery, UsageWindow,
};
use plan::SkipReason;

use super::InstanceCase;
use crate::engine::{ResourceCase, RunningCase};
use crate::policy::{Policy, Verdict};
use crate::rules;
use crate::rules::idle::{self, IdleQuality};

/// Time between full queries of an instance that is idle but would not be ended for it, or that has no series. The queries in between only look for
/// work.
const IN_FULL_AFTER: SignedDuration = SignedDuration::from_hours(12);

/// Time between queries of the last days of an instance whose GPUs do not report: five metrics each.
const LOOK_BACK_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// The queries that are due now.
#[must_use]
pub fn usage_queries<'a>(
    seen: &[&'a Instance],
    activity: &ActivityCache,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Vec<UsageQuery<'a>> {
    let empty_log = NotificationLog::default();
    let ask = |instance: &&'a Instance| {
        let log = memory.get(&instance.region).unwrap_or(&empty_log);
        let usage = &Usage::Unknown(UnknownUsage::NotAsked);
        let asked = activity.last_inquiry(instance, now);
        let (length, depth) = (InstanceCase { instance, usage, log, standings: None, policy, now }).due_query(asked)?;
        let likely = asked.and_then(|asked| asked.shown_by.clone());
        let looks_back = depth == QueryDepth::Full && looks_back(asked, now);
        Some(UsageQuery { instance, window: UsageWindow::ending_before(now, length), likely, depth, looks_back })
    };
    seen.iter().filter_map(ask).collect()
}

/// `true` once a day.
pub(super) fn looks_back(asked: Option<&LastInquiry>, now: Timestamp) -> bool {
    let looked_back = asked.and_then(|asked| asked.looked_back.as_ref());
    looked_back.is_none_or(|looked| now.duration_since(looked.at) >= LOOK_BACK_AFTER)
}

impl InstanceCase<'_> {
    /// The window and the depth of the query that is due now, by the last inquiry of its present life.
    fn due_query(self, asked: Option<&LastInquiry>) -> Option<(SignedDuration, QueryDepth)> {
        let skipped = self.immediate_skip().map(|skipped| skipped.reason);
        if self.instance.state != InstanceState::Running
            || skipped.is_some_and(|reason| reason != SkipReason::ForeignOwned)
        {
            return None;
        }
        // Whatever the answer, nothing would follow from it.
        if self.ownership().knows_only_its_expiry() {
            return None;
        }
        let curfew_tags = CurfewTags::read(self.instance).ok()?;
        let window = idle::window(&curfew_tags, &self.policy.config);
        let untagged = self.spares_busy_untagged(&curfew_tags);
        if window.is_none() && !untagged {
            return None;
        }
        let length = window.unwrap_or(self.policy.config.idle.window);
        let is_foreign = skipped.is_some();
        if self.hangs_on_an_answer(&curfew_tags, is_foreign, untagged, asked) {
            return Some((length, QueryDepth::Full));
        }
        Some((length, self.depth(&curfew_tags, is_foreign, untagged, length, asked)?))
    }

    /// `true` if an action, or its announcement, waits for the present usage.
    fn hangs_on_an_answer(
        self,
        curfew_tags: &CurfewTags,
        is_foreign: bool,
        untagged: bool,
        asked: Option<&LastInquiry>,
    ) -> bool {
        let mut announced =
            self.announced().filter(|(rule, _)| *rule == Rule::Idle || untagged && *rule == Rule::Untagged);
        let hangs = |(rule, announced): (Rule, AnnouncedAction)| match announced.mode {
            Mode::Enforce => !is_foreign,
            Mode::Observe => self.would_act_without_notification(rule, announced),
        };
        if announced.any(hangs) {
            return true;
        }
        let worked = asked.is_some_and(|asked| asked.busy_until.is_some());
        !is_foreign && !worked && self.waits_for_an_answer(curfew_tags)
    }

    /// The depth of the query that is due now; `None` if no query is due.
    fn depth(
        self,
        curfew_tags: &CurfewTags,
        is_foreign: bool,
        untagged: bool,
        length: SignedDuration,
        asked: Option<&LastInquiry>,
    ) -> Option<QueryDepth> {
        let old_enough = UsageWindow::ending_before(self.now, length).from
            >= after(self.instance.launched_at, self.policy.config.idle.boot_grace);
        if !old_enough && !untagged {
            return None;
        }
        let Some(asked) = asked else { return Some(QueryDepth::Full) };
        let by_power = asked.found_idle_by_power;
        let notify_only =
            |reserved: bool| is_foreign || !self.ends_if_idle(curfew_tags, IdleQuality { reserved, by_power });
        let not_before = match asked.found_idle_reserved {
            Some(reserved) if notify_only(reserved) => after(asked.at, length),
            _ => asked.idle_not_before,
        };
        // A shorter window than last time can find an instance idle sooner than was written down.
        let once_a_window = after(asked.at, length.max(PERIOD).saturating_add(LAG).saturating_add(PERIOD));
        if self.now < not_before.min(once_a_window) {
            return None;
        }
        let known_in_full = asked.in_full_at.is_some_and(|at| self.now.duration_since(at).abs() < IN_FULL_AFTER);
        let depth = match asked.found_idle_reserved {
            _ if !known_in_full => QueryDepth::Full,
            Some(_) if notify_only(false) => QueryDepth::WorkOnly,
            Some(true) => QueryDepth::UnlessHeld,
            Some(false) => QueryDepth::Full,
            None => QueryDepth::IfInstrumented,
        };
        Some(depth)
    }

    /// `true` if only an answer is missing to announce its missing tags.
    fn waits_for_an_answer(self, curfew_tags: &CurfewTags) -> bool {
        let is_announced =
            |mode| self.announced().any(|(rule, announced)| rule == Rule::Untagged && announced.mode >= mode);
        rules::judge(Rule::Untagged, self.subject(curfew_tags)) == Verdict::Unknown
            && !is_announced(self.mode(curfew_tags, Rule::Untagged))
    }

    /// The announcements of its present life.
    fn announced(self) -> impl Iterator<Item = (Rule, AnnouncedAction)> {
        self.facts()
            .record()
            .into_iter()
            .flat_map(|record| &record.announced)
            .map(|(rule, announced)| (*rule, *announced))
    }

    /// `true` if Curfew would announce and end it as idle, by its present tags and configuration. In observe mode only the announcement follows,
    /// which comes as early as in enforce mode.
    fn ends_if_idle(self, curfew_tags: &CurfewTags, quality: IdleQuality) -> bool {
        let is_announced = || self.announced().any(|(rule, _)| rule == Rule::Idle);
        idle::ending(self.subject(curfew_tags), quality).is_ok()
            && (self.mode(curfew_tags, Rule::Idle) == Mode::Enforce || !is_announced())
    }

    fn spares_busy_untagged(self, curfew_tags: &CurfewTags) -> bool {
        let rule = &self.policy.config.untagged;
        rule.spare_busy && rules::judge(Rule::Untagged, self.subject(curfew_tags)) != Verdict::Compliant
    }

    /// `true` if an observed deadline has passed, and no notification named the action that enforce mode would take.
    fn would_act_without_notification(self, rule: Rule, announced: AnnouncedAction) -> bool {
        announced.deadline <= self.now && !self.facts().was_notified_of_observed(rule, announced)
    }
}

/// The usage of a region's instances once all answers are in.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedUsage {
    pub usages: BTreeMap<ResourceId, Usage>,
    /// The cache for the next run. An instance without a query or an answer keeps its entry.
    pub activity: ActivityCache,
}

/// Evaluates the answers. The usage of an instance that was not queried follows from the cache.
#[must_use]
pub fn learn_usage(
    seen: &[&Instance],
    asks: &[UsageQuery<'_>],
    mut results: BTreeMap<ResourceId, QueryResult>,
    before: &ActivityCache,
    policy: &Policy,
    now: Timestamp,
) -> LearnedUsage {
    let mut usages: BTreeMap<ResourceId, Usage> = BTreeMap::new();
    let mut after: BTreeMap<ResourceId, LastInquiry> = BTreeMap::new();
    for instance in seen {
        after.extend(before.instances.get(&instance.id).map(|asked| (instance.id.clone(), asked.clone())));
        usages.insert(instance.id.clone(), cached_usage(instance, before, policy, now));
    }
    for ask in asks {
        let id = &ask.instance.id;
        let known = before.last_inquiry(ask.instance, now);
        let (usage, asked) = match results.remove(id) {
            // Where there is not one sample of what was at work when last seen, `CloudWatch` is late.
            Some(QueryResult::Answered(Usage::Unknown(UnknownUsage::Silent { .. }), _))
                if known.is_some_and(|asked| asked.busy_until.is_some()) =>
            {
                (Usage::Unknown(UnknownUsage::NotAsked), None)
            }
            Some(QueryResult::Answered(mut usage, shown_by)) => {
                let looked_back = look_back(ask, &mut usage, known, now);
                let asked = LastInquiry { looked_back, ..new_inquiry(ask, &usage, shown_by, now) };
                (usage, Some(asked))
            }
            Some(QueryResult::NoWork) => {
                (Usage::Unknown(UnknownUsage::NotAsked), known.map(|known| inquiry_without_work(known, ask, now)))
            }
            None => (Usage::Unknown(UnknownUsage::NotAsked), None),
        };
        usages.insert(id.clone(), usage);
        after.extend(asked.map(|asked| (id.clone(), asked)));
    }
    LearnedUsage { usages, activity: ActivityCache { instances: after } }
}

/// The usage of an instance that was not queried, by the cache.
pub(super) fn cached_usage(instance: &Instance, activity: &ActivityCache, policy: &Policy, now: Timestamp) -> Usage {
    let Ok(curfew_tags) = CurfewTags::read(instance) else {
        return Usage::Unknown(UnknownUsage::NotAsked);
    };
    let length = idle::window(&curfew_tags, &policy.config).unwrap_or(policy.config.idle.window);
    let window = UsageWindow::ending_before(now, length);
    let asked = activity.last_inquiry(instance, now);
    if let Some(until) = asked.and_then(|asked| asked.busy_until).filter(|until| *until > window.from) {
        return Usage::Busy(BusyEvidence { until, shown: None });
    }
    if window.from < after(instance.launched_at, policy.config.idle.boot_grace) {
        return Usage::Unknown(UnknownUsage::Young);
    }
    Usage::Unknown(UnknownUsage::NotAsked)
}

/// The inquiry after a brief query. An instance that was found idle would be ended at once if that were enforced from now on, so that time stays.
fn inquiry_without_work(known: &LastInquiry, ask: &UsageQuery<'_>, now: Timestamp) -> LastInquiry {
    let idle_not_before =
        if known.found_idle_reserved.is_some() { known.idle_not_before } else { after(now, window_length(ask)) };
    LastInquiry { at: now, idle_not_before, ..known.clone() }
}

/// The query of an instance's last days that counts. Where this run asked none, its report gets that of an earlier run.
fn look_back(
    ask: &UsageQuery<'_>,
    usage: &mut Usage,
    known: Option<&LastInquiry>,
    now: Timestamp,
) -> Option<LookedBack> {
    let before = known.and_then(|known| known.looked_back.clone());
    let Usage::Unknown(UnknownUsage::Uninstrumented(report)) = usage else { return before };
    if ask.looks_back {
        return Some(LookedBack { at: now, found: report.basic.as_deref().cloned() });
    }
    report.basic = before.as_ref().and_then(|before| before.found.clone()).map(Box::new);
    before
}

fn new_inquiry(ask: &UsageQuery<'_>, usage: &Usage, shown_by: Option<DecisiveSeries>, now: Timestamp) -> LastInquiry {
    let length = window_length(ask);
    let asked = LastInquiry {
        at: now,
        busy_until: None,
        shown_by,
        found_idle_reserved: None,
        found_idle_by_power: false,
        looked_back: None,
        in_full_at: None,
        idle_not_before: after(now, length),
    };
    match usage {
        Usage::Busy(busy) => LastInquiry {
            busy_until: Some(busy.until),
            idle_not_before: after(busy.until, length.saturating_add(LAG)),
            ..asked
        },
        Usage::Idle(quiet) => LastInquiry {
            found_idle_reserved: Some(quiet.reserved),
            found_idle_by_power: quiet.is_by_power(),
            in_full_at: Some(now),
            idle_not_before: now,
            ..asked
        },
        Usage::Unknown(UnknownUsage::Young | UnknownUsage::NotAsked) => asked,
        Usage::Unknown(_) => LastInquiry { in_full_at: Some(now), ..asked },
    }
}

fn window_length(ask: &UsageQuery<'_>) -> SignedDuration {
    ask.window.to.duration_since(ask.window.from)
}

#[cfg(test)]
mod tests;
