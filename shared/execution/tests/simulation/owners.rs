//! Owners: they launch, tag, mistype, train, hold memory, forget, come back and change their minds.

use model::config::{DiskPolicy, RuleAction};
use model::curfew_tags::{MARKED, STOPPED};
use model::instance::{InstanceState, PurchaseOption};
use model::mode::Mode;

use crate::chance::{DAY, HOUR, MINUTE, RandomStream, TICK};
use crate::named::named;
use crate::settings::DISKS;
use crate::tags::{OwnerHours, OwnerIdleAfter, OwnerTags, TYPOS};
use crate::world::{MachineWork, SimulatedMachine, StoppedBy};

named! {
    /// Every action of owners.
    Behaviour {
        Launch = "launch",
        TagAtOnce = "tag at once",
        TagLate = "tag late",
        TagNever = "tag never",
        MistypeTeam = "mistype the team's key",
        MistypeTag = "mistype a tag",
        MendTypo = "mend a typo",
        Start = "start again",
        Stop = "stop",
        Terminate = "terminate",
        KeepUntil = "keep-until",
        Protect = "protect",
        Unprotect = "unprotect",
        ProtectFromStop = "switch stop protection on",
        AllowStop = "switch stop protection off",
        ExpiresAt = "expires-at",
        SetHours = "hours",
        ObserveMode = "mode=observe",
        EnforceMode = "mode=enforce",
        OnIdle = "on-idle",
        IdleAfter = "idle-after",
        LocalDisk = "local-disk",
        CopyTags = "copy tags",
        CopyMark = "copy a mark",
        RemoveTags = "remove tags",
        Retag = "retag",
        Train = "train",
        Bursts = "burst",
        HoldMemory = "hold memory",
        ForgetShortly = "forget shortly",
        ForgetForDays = "forget for days",
        ComeBack = "come back",
        Meddle = "meddle between look and act",
        SpendBudget = "spend a budget",
        RaiseBudget = "raise a budget",
        LaunchJob = "launch a job",
        CopyJob = "copy a job's tags",
        LoseJob = "a launch of a job is lost",
        EndJob = "a job ends",
    }
}

/// How an owner tags a new machine.
pub(crate) fn first_tags(now: i64, chance: &mut RandomStream) -> (OwnerTags, Option<i64>, Behaviour) {
    let team = Some(chance.below(3));
    let project = chance.pick(&[None, None, Some(0), Some(0), Some(1)]);
    let mut says = OwnerTags { team, owner: true, project, ..OwnerTags::default() };
    match chance.below(20) {
        0..2 => {
            let at = now + chance.ticks(TICK, 30 * HOUR);
            (OwnerTags::default(), Some(at), Behaviour::TagLate)
        }
        2 => (OwnerTags::default(), None, Behaviour::TagNever),
        3 => {
            says.team_mistyped = true;
            (says, chance.one_in(2).then_some(now + 5 * HOUR), Behaviour::MistypeTeam)
        }
        _ => {
            if chance.one_in(4) {
                says.local_disk = Some(DiskPolicy::Expendable);
            }
            if chance.one_in(6) {
                says.hours = Some(OwnerHours::draw(chance));
            }
            (says, None, Behaviour::TagAtOnce)
        }
    }
}

impl SimulatedMachine {
    /// Planned actions of its owner: the next work, and delayed tags.
    pub(crate) fn follow_plan(&mut self, now: i64, chance: &mut RandomStream, mut did: impl FnMut(Behaviour)) {
        if self.tags_at.is_some_and(|at| at <= now) {
            self.tags_at = None;
            self.says.team_mistyped = false;
            self.says.owner = true;
            self.says.team = Some(chance.below(3));
            self.retag(now);
            did(Behaviour::Retag);
        }
        if self.work_until <= now {
            let rested = matches!(self.work, MachineWork::Nothing | MachineWork::HoldsMemory);
            if rested { self.take_up_work(now, chance, &mut did) } else { self.put_down_work(now, chance, &mut did) }
        }
        if self.wanted_up && self.is(InstanceState::Stopped) {
            self.start(now);
            did(Behaviour::Start);
        }
    }

    fn take_up_work(&mut self, now: i64, chance: &mut RandomStream, did: &mut impl FnMut(Behaviour)) {
        self.work = match chance.below(10) {
            0..4 => MachineWork::Train,
            4 => MachineWork::OneGpu(u32::try_from(chance.below(8)).unwrap_or(0) % self.ec2.machine.accelerators),
            5 | 6 => MachineWork::Bursts,
            7 => MachineWork::Cpu,
            8 => MachineWork::Network,
            _ => MachineWork::Disk,
        };
        did(if self.work == MachineWork::Bursts { Behaviour::Bursts } else { Behaviour::Train });
        self.work_until = now + chance.ticks(20 * MINUTE, 16 * HOUR);
        if !self.is(InstanceState::Running) {
            self.wanted_up = true;
            did(Behaviour::ComeBack);
        }
    }

    fn put_down_work(&mut self, now: i64, chance: &mut RandomStream, did: &mut impl FnMut(Behaviour)) {
        let (work, behaviour, longest) = match chance.below(10) {
            0 => (MachineWork::HoldsMemory, Behaviour::HoldMemory, 20 * HOUR),
            1..6 => (MachineWork::Nothing, Behaviour::ForgetShortly, 5 * HOUR),
            _ => (MachineWork::Nothing, Behaviour::ForgetForDays, 70 * HOUR),
        };
        self.work = work;
        self.work_until = now + chance.ticks(20 * MINUTE, longest);
        did(behaviour);
    }

    /// Random actions of its owner.
    pub(crate) fn act_randomly(&mut self, now: i64, chance: &mut RandomStream, did: impl FnMut(Behaviour)) {
        self.next_random_action = now + chance.ticks(TICK, 3 * DAY);
        self.change_mind(now, chance, did);
    }

    pub(crate) fn change_mind(&mut self, now: i64, chance: &mut RandomStream, mut did: impl FnMut(Behaviour)) {
        let behaviour = match chance.below(28) {
            0..5 => self.says.set_a_moment(now, chance),
            5..14 => self.says.reword(chance),
            14..21 => self.says.tidy(chance),
            21 => {
                self.stop_by_hand(now);
                did(Behaviour::Stop);
                return;
            }
            22 => {
                self.wanted_up = true;
                return;
            }
            23 if chance.one_in(4) && !self.is(InstanceState::ShuttingDown) => {
                self.enter(InstanceState::ShuttingDown, now);
                did(Behaviour::Terminate);
                return;
            }
            // Nothing that a tag or a listing shows.
            24 => {
                self.stop_protection.is_on = true;
                did(Behaviour::ProtectFromStop);
                return;
            }
            25 | 26 => {
                self.stop_protection.is_on = false;
                did(Behaviour::AllowStop);
                return;
            }
            _ => return,
        };
        self.retag(now);
        did(behaviour);
    }

    fn stop_by_hand(&mut self, now: i64) {
        let can = self.is(InstanceState::Running)
            && !self.stop_protection.is_on
            && !self.ec2.root_on_instance_storage
            && self.ec2.purchase != PurchaseOption::SpotOneTime;
        if can {
            self.enter(InstanceState::Stopping, now);
            self.stopped_by = Some(StoppedBy::Owner);
        }
    }

    /// "Launch more like this": also Curfew's tags on the other.
    pub(crate) fn copy_tags(&mut self, other: &OwnerTags, written: [Option<String>; 2], now: i64) {
        self.says = other.clone();
        for (key, value) in [MARKED, STOPPED].into_iter().zip(written) {
            self.ec2.tags.extend(value.map(|value| (key.to_owned(), value)));
        }
        self.retag(now);
    }
}

impl OwnerTags {
    fn set_a_moment(&mut self, now: i64, chance: &mut RandomStream) -> Behaviour {
        match chance.below(5) {
            0 => {
                self.kept_until = Some(now + chance.between(HOUR, 2 * DAY));
                Behaviour::KeepUntil
            }
            1 | 2 => {
                self.expires_at = Some(now + chance.between(10 * MINUTE, 3 * DAY));
                Behaviour::ExpiresAt
            }
            _ => {
                self.hours = Some(OwnerHours::draw(chance));
                Behaviour::SetHours
            }
        }
    }

    /// Changes the tags that say how to treat it.
    fn reword(&mut self, chance: &mut RandomStream) -> Behaviour {
        match chance.below(9) {
            0 => {
                self.protected = true;
                Behaviour::Protect
            }
            1 | 2 => {
                self.protected = false;
                Behaviour::Unprotect
            }
            3 => {
                self.mode = Some(Mode::Observe);
                Behaviour::ObserveMode
            }
            4 | 5 => {
                self.mode = Some(Mode::Enforce);
                Behaviour::EnforceMode
            }
            6 => {
                let actions = [None, Some(RuleAction::Stop), Some(RuleAction::Terminate), Some(RuleAction::Notify)];
                self.on_idle = chance.pick(&actions);
                Behaviour::OnIdle
            }
            7 => {
                let after = |minutes: i64| Some(OwnerIdleAfter::Seconds(minutes * MINUTE));
                self.idle_after = chance.pick(&[None, Some(OwnerIdleAfter::Off), after(30), after(120), after(180)]);
                Behaviour::IdleAfter
            }
            _ => {
                self.local_disk = if chance.one_in(3) { None } else { Some(chance.pick(&DISKS)) };
                Behaviour::LocalDisk
            }
        }
    }

    /// Mistypes, corrects, removes, and sets the tags that the account requires.
    fn tidy(&mut self, chance: &mut RandomStream) -> Behaviour {
        match chance.below(7) {
            0 => {
                self.typo = Some(chance.below(TYPOS.len()));
                Behaviour::MistypeTag
            }
            1 | 2 => {
                self.typo = None;
                self.team_mistyped = false;
                Behaviour::MendTypo
            }
            3 => {
                *self = Self { team: self.team.filter(|_| chance.one_in(2)), owner: self.owner, ..Self::default() };
                Behaviour::RemoveTags
            }
            4 => {
                *self = Self { team: self.team, owner: self.owner, ..Self::default() };
                Behaviour::RemoveTags
            }
            _ => {
                self.owner = true;
                self.team = Some(chance.below(3));
                self.project = chance.pick(&[None, Some(0), Some(1)]);
                Behaviour::Retag
            }
        }
    }
}
