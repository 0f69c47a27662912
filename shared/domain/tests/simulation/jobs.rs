//! Jobs and their machines: launches that are answered late or never, states that know their machine, jobs that end, and tags
//! that are copied.

use std::collections::BTreeMap;
use std::rc::Rc;

use domain::instance::State as Ec2State;
use domain::job::{Ended, Ending, Gpu, Job, JobId, Launching, Lifecycle, MachineSpec, Phase, Placed, Terms};
use domain::money::Rate;
use domain::policy::claim::Jobs as Known;

use crate::chance::{Chance, DAY, HOUR, TICK, stamp};
use crate::fault::Fault;
use crate::faults::Faults;
use crate::owners::Behaviour;
use crate::world::Machine;

/// What the state of a job says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Its launch is under way.
    Launching,
    /// It knows its machine.
    Knows,
    /// The answer to its launch was lost: it waits for another machine.
    Forgot,
    /// It is over, and everything of it gone.
    Closed,
    /// Somebody deleted it.
    Deleted,
}

struct One {
    /// The machine that was launched for it.
    machine: String,
    region: domain::id::Region,
    says: Says,
    /// When that changes next.
    until: i64,
}

/// All jobs of an account, by their number.
pub(crate) struct Jobs {
    chance: Chance,
    all: Vec<One>,
}

/// What a run read of each: its state and its machine; `None` where it could not.
#[derive(Clone, Default)]
pub(crate) struct Read(Rc<Vec<Option<(Says, String)>>>);

/// Whose a machine is, by what a run read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It names no job.
    Nobodys,
    /// The job's that it names.
    Jobs,
    /// Nobody can say.
    Unsayable,
    /// It names a job of which there is no state.
    LostJobs,
    /// Not the job's that it names.
    Strangers,
}

impl Whose {
    pub(crate) fn knows_only_its_expiry(self) -> bool {
        matches!(self, Self::Jobs | Self::Unsayable)
    }

    pub(crate) fn is_disowned(self) -> bool {
        matches!(self, Self::LostJobs | Self::Strangers)
    }
}

pub(crate) fn name(number: u32) -> String {
    format!("vision/sim-{number:08x}")
}

impl Jobs {
    pub(crate) fn of(seed: u64) -> Self {
        Self { chance: Chance::of(seed, 5), all: Vec::new() }
    }

    /// Whether the next machine is launched for a job.
    pub(crate) fn wants_one(&mut self) -> bool {
        self.chance.one_in(6)
    }

    /// The number of the next job.
    pub(crate) fn next(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn launched(&mut self, machine: &Machine, now: i64) {
        let until = now + self.chance.ticks(0, HOUR);
        let region = machine.ec2.region.clone();
        self.all.push(One { machine: machine.id().to_owned(), region, says: Says::Launching, until });
    }

    /// A tick: launches are answered, or are not, and jobs end.
    pub(crate) fn pass(&mut self, now: i64, machines: &mut [Machine], mut did: impl FnMut(Behaviour)) {
        for (number, one) in self.all.iter_mut().enumerate() {
            let own = machines.iter().find(|machine| machine.id() == one.machine);
            let is_gone = own.is_none_or(|machine| machine.is(Ec2State::Terminated));
            let next = match one.says {
                Says::Closed | Says::Deleted => continue,
                Says::Knows | Says::Forgot if is_gone => Says::Closed,
                _ if now < one.until => continue,
                Says::Launching if self.chance.one_in(4) => Says::Forgot,
                Says::Launching => Says::Knows,
                Says::Knows | Says::Forgot if self.chance.one_in(3) => Says::Deleted,
                Says::Knows | Says::Forgot => Says::Closed,
            };
            one.says = next;
            one.until = now + self.chance.ticks(DAY, 6 * DAY);
            match next {
                Says::Forgot => did(Behaviour::LoseJob),
                Says::Closed | Says::Deleted => did(Behaviour::EndJob),
                Says::Knows | Says::Launching => {}
            }
            let naming = |machine: &&mut Machine| machine.says.job.is_some_and(|job| job as usize == number);
            machines.iter_mut().filter(naming).for_each(|machine| machine.changed_at = now);
        }
    }

    /// What is so.
    pub(crate) fn truth(&self) -> Read {
        Read(Rc::new(self.all.iter().map(|one| Some((one.says, one.machine.clone()))).collect()))
    }

    /// What a run reads: each by itself, so that each can fail.
    pub(crate) fn read(&self, now: i64, faults: &mut Faults) -> Read {
        let read = |one: &One| (!faults.strikes(Fault::JobUnread, now)).then(|| (one.says, one.machine.clone()));
        Read(Rc::new(self.all.iter().map(read).collect()))
    }

    /// The same, as the domain takes it.
    pub(crate) fn known(&self, read: &Read, now: i64) -> Known {
        let numbered = self.all.iter().zip(read.0.iter()).enumerate();
        let known = numbered.filter_map(|(number, (one, read))| {
            let (says, _) = read.as_ref()?;
            let id = JobId::read(&name(u32::try_from(number).ok()?)).ok()?;
            let state = (*says != Says::Deleted).then(|| state(id.clone(), one, *says, now));
            Some((id, state))
        });
        Known(known.collect::<BTreeMap<_, _>>())
    }
}

impl Read {
    pub(crate) fn whose(&self, machine: &Machine) -> Whose {
        let Some(number) = machine.says.job else { return Whose::Nobodys };
        match self.0.get(number as usize) {
            Some(None | Some((Says::Launching, _))) => Whose::Unsayable,
            Some(Some((Says::Knows, own))) if own == machine.id() => Whose::Jobs,
            Some(Some((Says::Deleted, _))) => Whose::LostJobs,
            Some(Some(_)) | None => Whose::Strangers,
        }
    }
}

fn state(id: JobId, one: &One, says: Says, now: i64) -> Job {
    let terms = Terms {
        tags: BTreeMap::new(),
        gpu: Gpu { count: 1, memory_gib_min: 0, types: Vec::new() },
        spot: None,
        max_runtime_seconds: DAY,
        finish_by: None,
        max_usd: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    let at = stamp(now);
    let placed = Placed {
        instance: one.machine.as_str().into(),
        region: one.region.clone(),
        zone: String::new(),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::OnDemand,
        rate_max: Rate::from_usd_micros_per_hour(1),
        rate: Rate::from_usd_micros_per_hour(1),
        attempt: 1,
        candidate: 0,
        launched_at: at,
        ends_at: at,
    };
    let phase = match says {
        Says::Launching => Phase::Launching(Launching {
            candidate: 0,
            pass: 1,
            at,
            ends_at: at,
            quotas: Vec::new(),
            avoid: None,
            unanswered: false,
        }),
        Says::Knows => Phase::Running(placed),
        Says::Forgot | Says::Deleted => Phase::Submitted,
        Says::Closed => Phase::Ended(Ended {
            result: Ending::Succeeded,
            why: String::new(),
            at,
            machine: Some(placed),
            released: true,
            closed: true,
        }),
    };
    Job { attempt: 1, phase, ..Job::submitted(id, None, terms, at) }
}

/// Everything that a launch says of a machine of a job, which may be copied: it is opted in, and ends.
pub(crate) fn says_of(number: u32, now: i64, chance: &mut Chance) -> crate::tags::Says {
    crate::tags::Says {
        team: Some(0),
        owner: true,
        job: Some(number),
        mode: Some(domain::mode::Mode::Enforce),
        expires_at: Some(now + chance.ticks(10 * TICK, 8 * DAY)),
        ..crate::tags::Says::default()
    }
}
