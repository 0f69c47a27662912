//! How a run looks: whom it sees, what it asks, and what it plans.

use std::collections::BTreeMap;
use std::rc::Rc;

use domain::id::Region;
use domain::instance::{Instance, Purchase};
use domain::notices::Memory;
use domain::observed::{Gap, GapKind, Observed};
use domain::policy::Policy;
use domain::policy::instances::decide;

use crate::account::Account;
use crate::asking::{self, CloudWatch};
use crate::chance::{region, stamp};
use crate::fault::Fault;
use crate::reaper::{self, Cut, Facts, Pulse, Run, gap};

/// The function, as it names itself.
pub(crate) const FUNCTION: &str = "reap-instances";

/// Looks at everything, and plans.
pub(crate) fn look(account: &mut Account, now: i64) -> Result<Run, Cut> {
    let mut start = reaper::start(account, now);
    let budgets = account.read_budgets(now);
    let jobs = account.read_jobs(now);
    let policy = account.policy(start.ceiling, &budgets, &jobs);
    let mut seen = listing(account, &start.memory, now);
    seen.gaps.append(&mut start.gaps);
    let mut usages = BTreeMap::new();
    for place in 0..account.regions {
        let of_region = ask(account, &region(place), &seen.items, &start.memory, &policy, now, &mut start.pulse)?;
        usages.extend(of_region.usages);
        seen.gaps.extend(of_region.gaps);
    }
    let plan = decide(&seen, &usages, &start.memory, &policy, stamp(now));
    account.runs += 1;
    let facts = Facts {
        id: account.runs,
        now,
        settings: Rc::clone(&account.settings),
        ceiling: start.ceiling,
        fleet: seen.items.len(),
    };
    account.oracle.read(facts.id, budgets, jobs);
    account.oracle.planned(&plan, &seen.items, &facts);
    account.log_spared(&plan);
    account.listing.take_back(seen.items);
    Ok(start.run(account, plan, facts))
}

/// The account's instances, of regions that may be judged.
fn listing(account: &mut Account, memory: &Memory, now: i64) -> Observed<Instance> {
    if !account.faults.strikes(Fault::ListingStale, now) {
        account.listing.refresh(&account.machines);
    }
    let mut seen = Observed { items: account.listing.lend(), gaps: Vec::new() };
    for place in 0..account.regions {
        let region = region(place);
        let unseen = memory.contains_key(&region) && account.faults.strikes(Fault::ListingFailed, now);
        if unseen {
            seen.gaps.push(Gap { kind: GapKind::Region, ..gap(&region, "ec2:DescribeInstances") });
        }
        if unseen || !memory.contains_key(&region) {
            account.listing.keep(&seen.items);
            seen.items.retain(|instance| instance.region != region);
        }
    }
    if account.faults.strikes(Fault::SpotUnread, now) {
        account.listing.keep(&seen.items);
        for instance in &mut seen.items {
            if matches!(instance.purchase, Purchase::SpotOneTime | Purchase::SpotPersistent) {
                instance.purchase = Purchase::SpotUnknown;
            }
        }
        seen.gaps.push(gap(&region(0), "ec2:DescribeSpotInstanceRequests"));
    }
    seen
}

fn ask(
    account: &mut Account,
    region: &Region,
    seen: &[Instance],
    memory: &Memory,
    policy: &Policy,
    now: i64,
    pulse: &mut Pulse,
) -> Result<asking::Asked, Cut> {
    let unreadable = account.faults.strikes(Fault::ActivityUnreadable, now);
    let known = account.activity.entry(region.clone()).or_default();
    let (version, known) = (known.0, Some(&known.1).filter(|_| !unreadable));
    let cloudwatch = CloudWatch { machines: &account.machines, faults: &mut account.faults, now };
    let mut asked = asking::usages(region, seen, known, memory, policy, cloudwatch);
    if let Some(after) = asked.after.take() {
        pulse.beat()?;
        let document = account.activity.entry(region.clone()).or_default();
        if document.0 != version || account.faults.strikes(Fault::ActivityUnwritten, now) {
            asked.gaps.push(gap(region, "s3:PutObject"));
        } else {
            *document = (version + 1, after);
        }
    }
    Ok(asked)
}
