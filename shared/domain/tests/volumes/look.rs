//! How a run looks: what it sees, what it asks, and what it plans.

use std::collections::BTreeMap;
use std::rc::Rc;

use domain::id::ResourceId;
use domain::notices::Memory;
use domain::observed::{Gap, GapKind};
use domain::policy::Policy;
use domain::policy::volumes::{LiveJobs, asks, decide, jobs, wants_its_source};
use domain::volume::{Storage, VolumeAsk, VolumeUse};

use crate::account::Account;
use crate::chance::{region, stamp};
use crate::fault::Fault;
use crate::reaper::{self, Cut, Facts, Run, gap};
use crate::tags::job_name;
use crate::world::{Host, LAG};

/// The function, as it names itself.
pub(crate) const FUNCTION: &str = "reap-volumes";

/// Looks at everything, and plans.
#[expect(clippy::unnecessary_wraps, reason = "a look of instances writes, and may be cut off")]
pub(crate) fn look(account: &mut Account, now: i64) -> Result<Run, Cut> {
    let mut start = reaper::start(account, now);
    let policy = account.policy(start.ceiling);
    let mut seen = storage(account, &start.memory, &policy, now);
    seen.volumes.gaps.append(&mut start.gaps);
    let live_jobs = live_jobs(account, &mut seen, now);
    let due = asks(&seen, &live_jobs, &start.memory, &policy, stamp(now));
    let uses = uses(account, &due, &mut seen, now);
    let plan = decide(&seen, &uses, &live_jobs, &start.memory, &policy, stamp(now));
    account.runs += 1;
    let facts = Facts {
        id: account.runs,
        now,
        settings: Rc::clone(&account.settings),
        ceiling: start.ceiling,
        fleet: seen.volumes.items.len(),
    };
    account.oracle.planned(&plan, &seen, &account.world, &facts);
    account.log_spared(&plan);
    Ok(start.run(account, plan, facts))
}

/// The account's volumes and snapshots, of regions that may be judged.
fn storage(account: &mut Account, memory: &Memory, policy: &Policy, now: i64) -> Storage {
    let (mut volumes, mut snapshots) = account.lists();
    if account.faults.strikes(Fault::VolumesStale, now) {
        volumes.clone_from(&account.an_hour_ago.0);
    }
    if account.faults.strikes(Fault::SnapshotsStale, now) {
        snapshots.clone_from(&account.an_hour_ago.1);
    }
    if !volumes.is_empty() && account.faults.strikes(Fault::VolumeUnlisted, now) {
        let unlisted = account.owners.below(volumes.len());
        volumes.remove(unlisted);
        // What is remembered about it is forgotten with it.
        account.oracle.notices_are_lost();
    }
    let mut seen = Storage { snapshots, ..Storage::default() };
    seen.volumes.items = volumes;
    for place in 0..account.regions {
        let region = region(place);
        let unseen = memory.contains_key(&region) && account.faults.strikes(Fault::ListingFailed, now);
        if unseen {
            seen.volumes.gaps.push(Gap { kind: GapKind::Region, ..gap(&region, "ec2:DescribeVolumes") });
        }
        if unseen || !memory.contains_key(&region) {
            seen.volumes.items.retain(|volume| volume.region != region);
            seen.snapshots.retain(|snapshot| snapshot.region != region);
        }
    }
    let hosts = account.world.hosts.iter().filter(|host| !host.gone).map(Host::seen);
    let holds = |id: &ResourceId| seen.volumes.items.iter().any(|volume| volume.attached_to.contains(id));
    seen.hosts = hosts.filter(|host| holds(&host.id)).collect();
    let wanted = seen.volumes.items.iter().filter(|volume| wants_its_source(volume, &policy.config));
    let named = wanted.filter_map(|volume| volume.from_snapshot.as_ref());
    let sources = named.filter_map(|id| Some(&account.world.snaps[account.world.snap(id.as_str())?]));
    seen.sources =
        sources.filter(|snap| snap.exists()).map(|snap| (snap.ec2.id.clone(), snap.ec2.tags.clone())).collect();
    seen
}

/// The jobs that are not finished, or of which nobody can say.
fn live_jobs(account: &mut Account, seen: &mut Storage, now: i64) -> LiveJobs {
    let mut live = LiveJobs::new();
    for job in jobs(seen) {
        if account.faults.strikes(Fault::JobUnread, now) {
            seen.volumes.gaps.push(gap(&region(0), "s3:GetObject"));
            live.insert(job);
        } else if account.world.jobs.iter().enumerate().any(|(place, until)| job_name(place) == job && *until > now) {
            live.insert(job);
        }
    }
    live
}

fn uses(account: &mut Account, due: &[VolumeAsk], seen: &mut Storage, now: i64) -> BTreeMap<ResourceId, VolumeUse> {
    let mut answers = BTreeMap::new();
    for place in 0..account.regions {
        let region = region(place);
        let of_region: Vec<&VolumeAsk> = due.iter().filter(|ask| ask.region == region).collect();
        if of_region.is_empty() {
            continue;
        }
        let unanswered = account.faults.strikes(Fault::UseUnanswered, now);
        let mut complete = !unanswered;
        for ask in of_region {
            let Some(disk) = account.world.disk(ask.volume.as_str()) else { continue };
            if unanswered || account.faults.strikes(Fault::UsePartly, now) {
                complete = false;
                account.oracle.unanswered(disk, now);
                continue;
            }
            let lag = account.owners.between(0, LAG);
            let used = account.world.disks[disk].used(ask.since.as_second(), now, lag);
            let used = used.map_or(VolumeUse::None, |at| VolumeUse::UsedAt(stamp(at)));
            answers.insert(ask.volume.clone(), used);
        }
        if !complete {
            seen.volumes.gaps.push(gap(&region, "cloudwatch:GetMetricData"));
        }
    }
    answers
}
