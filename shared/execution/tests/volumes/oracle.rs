//! The oracle: what must never happen, and what must happen in the end. It is written from the contract and uses nothing of the policy: neither
//! `decide`, nor its parsing of tags, configuration, use or limits.

mod deletions;
mod liveness;
mod memory;
mod notifications;
mod truth;

use model::curfew_tags::{MARKED, UNATTACHED_SINCE};
use model::mode::Mode;
use model::rule::ResourceAction;
use model::volume::ObservedStorage;
use plan::Plan;

pub(crate) use notifications::UndoCommand;

use crate::chance::stamp;
use crate::driver::find_bug;
use crate::session::Facts;
use crate::world::SimulatedWorld;

/// The most violations that one account stores: the first ones explain the rest.
const VIOLATIONS_MAX: usize = 20;

#[derive(Default)]
pub(crate) struct InvariantOracle {
    pub(crate) violations: Vec<(i64, String)>,
    /// The last fault of any kind, the last that may make a run forget what it did, and the last edit of the configuration or of `CURFEW_MODE`.
    pub(crate) last_fault: i64,
    pub(crate) last_forgotten: i64,
    pub(crate) configured_at: i64,
    /// When the logs were lost, and with them every announcement and every proof of a snapshot.
    logs_lost_at: i64,
    /// Faults that may lead to a second snapshot, and second snapshots.
    pub(crate) doublings: u64,
    doubled: u64,
    /// A colleague attached a volume between the second read and the call.
    pub(crate) meddled_at_the_call: i64,
    /// Policy actions of one run.
    inferred: (u64, i64),
    disks: Vec<ResourceRecord>,
    snaps: Vec<ResourceRecord>,
}

/// The oracle's record of one volume, or of one snapshot.
#[derive(Default)]
struct ResourceRecord {
    announced: Vec<PromisedAction>,
    /// Fingerprints of notifications, and when they were sent.
    told: Vec<(u64, i64)>,
    /// A deletion without a notification so far.
    untold_end: Option<i64>,
    /// Held by the limits in this run.
    held_at: i64,
    /// A run that could read, write and remember everything saw it attached.
    seen_attached_at: i64,
    /// A query of its use at that time failed.
    unknown_at: i64,
    /// Of a snapshot: a fault may have kept the log from learning that Curfew made it, or its volume's log is lost.
    unproved: bool,
    /// Notified that it is attached to a stopped instance.
    idle_host_told_at: i64,
    /// Notified that it cannot be read.
    unreadable_told_at: i64,
    /// Already reported.
    overdue: [i64; liveness::DUES],
}

/// An announcement.
struct PromisedAction {
    ending: ResourceAction,
    deadline: i64,
    told_at: i64,
    /// The grace at that time.
    grace: i64,
    /// A later run has seen it attached, skipped or only observed it, or cancelled the announcement, and could remember that.
    void: bool,
    /// The run that announced it was cancelled.
    called_off_by: Option<u64>,
}

impl InvariantOracle {
    pub(crate) fn violated(&mut self, now: i64, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push((now, what));
        }
    }

    fn disk(&mut self, place: usize) -> &mut ResourceRecord {
        if self.disks.len() <= place {
            self.disks.resize_with(place + 1, ResourceRecord::default);
        }
        &mut self.disks[place]
    }

    fn snap(&mut self, place: usize) -> &mut ResourceRecord {
        if self.snaps.len() <= place {
            self.snaps.resize_with(place + 1, ResourceRecord::default);
        }
        &mut self.snaps[place]
    }

    /// The use of a volume was unknown.
    pub(crate) fn unanswered(&mut self, place: usize, now: i64) {
        self.disk(place).unknown_at = now;
    }

    /// A plan names every observed volume and snapshot exactly once, and holds exactly what exceeds the limits.
    pub(crate) fn planned(&mut self, plan: &Plan, seen: &ObservedStorage, world: &SimulatedWorld, facts: &Facts) {
        let of_steps = plan.steps.iter().map(|step| &step.target);
        let mut planned: Vec<&str> = of_steps
            .chain(plan.skipped.iter().map(|skipped| &skipped.target))
            .map(|target| target.resource.as_str())
            .collect();
        let volumes = seen.volumes.items.iter().map(|volume| volume.id.as_str());
        let mut expected: Vec<&str> =
            volumes.chain(seen.snapshots.iter().map(|snapshot| snapshot.id.as_str())).collect();
        planned.sort_unstable();
        expected.sort_unstable();
        if planned != expected {
            self.violated(facts.now, format!("the plan has {planned:?}, and seen were {expected:?}"));
        }
        if let Some(bug) = find_bug(plan) {
            self.violated(facts.now, bug);
        }
        let inferred = || {
            let enforced = plan.steps.iter().filter(|step| {
                step.mode == Mode::Enforce && step.action.stops_or_deletes() && !step.action.deletes_failed_snapshot()
            });
            let by_id = enforced.map(|step| (step, step.target.resource.as_str()));
            by_id.filter(|(_, id)| world.snap(id).is_none_or(|place| world.snaps[place].refused_until == 0))
        };
        let exceeded = !within_limits(i64::try_from(inferred().count()).unwrap_or(i64::MAX), facts);
        for (step, id) in inferred() {
            if step.held.is_some() != exceeded {
                let what =
                    if exceeded { "is not held, although the limits are exceeded" } else { "is held for nothing" };
                self.violated(facts.now, format!("{id}: its end {what}"));
            }
            if let Some(place) = world.disk(id).filter(|_| step.held.is_some()) {
                self.disk(place).held_at = facts.now;
            }
            if let Some(place) = world.snap(id).filter(|_| step.held.is_some()) {
                self.snap(place).held_at = facts.now;
            }
        }
    }

    /// Curfew writes tags on a volume: never on a protected one, and no mark before its notification was accepted.
    pub(crate) fn tagged(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        tags: &[(&str, String)],
        gone: &[&str],
        facts: &Facts,
    ) {
        let disk = &world.disks[place];
        let id = disk.id();
        if disk.host.is_some() && !tags.is_empty() {
            self.violated(facts.now, format!("{id}: is attached, and is given {tags:?}"));
        }
        if [MARKED, UNATTACHED_SINCE].iter().all(|key| !gone.contains(key) && tags.iter().all(|(own, _)| own != key)) {
            self.violated(facts.now, format!("{id}: other tags than Curfew's own are written: {tags:?}, {gone:?}"));
        }
        self.may_write(world, place, "its tags are written", facts);
        if let Some((_, since)) = tags.iter().find(|(key, _)| *key == UNATTACHED_SINCE)
            && *since < stamp(disk.created).to_string()
        {
            self.violated(facts.now, format!("{id}: called unattached since {since}, before it was made"));
        }
        let Some((_, mark)) = tags.iter().find(|(key, _)| *key == MARKED) else { return };
        let was_announced = self.disk(place).announced.iter().any(|one| {
            let marked = |ending| *mark == format!("orphaned={ending}@{}", stamp(one.deadline));
            // The due action may be milder than the announced one, and is marked so.
            marked(one.ending) || (one.ending == ResourceAction::Delete && marked(ResourceAction::SnapshotAndDelete))
        });
        if !was_announced {
            self.violated(facts.now, format!("{id}: is marked {mark}, which was not announced"));
        }
    }

    /// Neither a protected, kept or unreadable volume; nor, unless it is attached, one of another controller; nor one in observe mode.
    fn may_write(&mut self, world: &SimulatedWorld, place: usize, what: &str, facts: &Facts) {
        let disk = &world.disks[place];
        let id = disk.id();
        let skipped = disk
            .untouchable(facts.now)
            .or_else(|| if disk.host.is_some() { None } else { world.spared(place, facts.now) });
        if let Some(skipped) = skipped {
            self.violated(facts.now, format!("{id}: {what}, although it is {skipped}"));
        }
        let (enforced, _) = world.modes(place, &facts.settings, facts.ceiling);
        if !enforced {
            self.violated(facts.now, format!("{id}: {what}, although it is only observed"));
        }
    }
}

impl PromisedAction {
    /// Whether it was told with its whole grace, and its deadline has passed.
    fn is_due(&self, now: i64) -> bool {
        self.told_at + self.grace <= self.deadline + 1 && self.deadline <= now
    }

    /// Whether a log that was lost had it: a run that began later knows nothing of it.
    const fn is_forgotten(&self, logs_lost_at: i64, now: i64) -> bool {
        self.told_at < logs_lost_at && logs_lost_at <= now
    }

    /// Whether its owner kept the resource meanwhile: what was announced before begins anew.
    fn is_overtaken(&self, kept_until: Option<i64>, now: i64) -> bool {
        kept_until.is_some_and(|until| until <= now && until > self.told_at)
    }
}

/// Whether the limits allow a run so many policy actions.
fn within_limits(ends: i64, facts: &Facts) -> bool {
    let fleet = i64::try_from(facts.fleet).unwrap_or(i64::MAX);
    let too_large_a_share = fleet >= 10 && ends * 100 > fleet * facts.settings.fleet_share_max_percent;
    ends <= facts.settings.actions_max && !too_large_a_share
}
