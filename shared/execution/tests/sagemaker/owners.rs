//! Owners: they make, use, forget, tag, change, stop, delete and make again.

use model::config::{DiskPolicy, RuleAction};
use model::mode::Mode;
use model::sagemaker::SageMakerStatus;

use crate::chance::{DAY, HOUR, MINUTE, RandomStream};
use crate::named::named;
use crate::tags::{OwnerHours, OwnerIdleAfter, OwnerTags, TYPOS};
use crate::world::{SimulatedResource, Sort, StoppedBy};

named! {
    /// Every action of owners and colleagues.
    Behaviour {
        Make = "make",
        MakeAgain = "make again",
        TagAll = "tag all",
        TagHalf = "tag half",
        TagNothing = "tag nothing",
        Use = "use",
        Forget = "forget for days",
        Silence = "nothing reports",
        EndJob = "a job ends",
        Protect = "protect",
        KeepUntil = "keep-until",
        Release = "release what is protected, kept or mistyped",
        Expire = "expires-at",
        CopyExpiry = "copy the expires-at of an earlier one",
        DropExpiry = "drop expires-at",
        Hours = "hours",
        DropHours = "drop hours",
        ChangeMode = "mode",
        IdleAfter = "idle-after",
        OnIdle = "on-idle",
        TagAsInstance = "tag as an instance of a job",
        Mistype = "mistype a tag",
        Retag = "retag",
        Scale = "autoscale",
        Unscale = "drop autoscaling",
        Update = "update an endpoint",
        DropConfig = "delete the configuration of an endpoint",
        ScaleUp = "give an inference component copies again",
        ScaleDown = "take the copies of an inference component",
        KeepInstances = "let an endpoint keep its instances, or not",
        Stop = "stop",
        Start = "start",
        Delete = "delete",
        Meddle = "meddle between look and act",
        SpendBudget = "spend a budget",
        RaiseBudget = "raise a budget",
    }
}

/// The actions of an hour.
pub(crate) struct Owners<'a> {
    pub(crate) resources: &'a mut Vec<SimulatedResource>,
    pub(crate) regions: usize,
    pub(crate) fleet: usize,
    pub(crate) chance: &'a mut RandomStream,
    pub(crate) now: i64,
    pub(crate) did: &'a mut dyn FnMut(Behaviour, &str),
}

impl Owners<'_> {
    pub(crate) fn live(&mut self) {
        let living = self.resources.iter().filter(|one| one.gone_at.is_none()).count();
        if living < self.fleet && self.chance.one_in(8) {
            let says = self.first_tags();
            let made = SimulatedResource::new(self.resources.len(), self.regions, says, self.now, self.chance);
            self.resources.push(made);
            self.did(Behaviour::Make, self.resources.len() - 1);
        }
        for place in 0..self.resources.len() {
            self.resources[place].settle(self.now);
            if self.resources[place].gone_at.is_none() {
                self.live_with(place);
            } else if self.resources[place].status == SageMakerStatus::Deleted && self.chance.one_in(80) {
                // What is on a space stays; and `curfew undo` makes an endpoint again with its tags.
                if !self.resources[place].on_space && self.chance.one_in(2) {
                    self.resources[place].says = self.first_tags();
                }
                self.resources[place].begin_life(self.now, self.chance);
                self.did(Behaviour::MakeAgain, place);
            }
        }
    }

    fn did(&mut self, behaviour: Behaviour, place: usize) {
        (self.did)(behaviour, self.resources[place].id.as_str());
    }

    fn first_tags(&mut self) -> OwnerTags {
        let all = OwnerTags { team: Some(self.chance.below(3)), owner: true, ..OwnerTags::default() };
        let (says, behaviour) = match self.chance.below(8) {
            0 => (OwnerTags::default(), Behaviour::TagNothing),
            1 => (OwnerTags { owner: false, ..all }, Behaviour::TagHalf),
            _ => (all, Behaviour::TagAll),
        };
        (self.did)(behaviour, "a new one");
        says
    }

    fn live_with(&mut self, place: usize) {
        let Self { resources, chance, now, .. } = self;
        let (one, now) = (&mut resources[place], *now);
        one.uses.retain(|(_, end)| *end > now - 30 * DAY);
        one.silences.retain(|(_, end)| *end > now - 30 * DAY);
        if one.sort == Sort::Job && one.is_running() && chance.one_in(150) {
            (one.status, one.gone_at, one.changed_at) = (SageMakerStatus::Stopped, Some(now), now);
            self.did(Behaviour::EndJob, place);
            return;
        }
        if chance.one_in(150) {
            one.silences.push((now, now + chance.between(HOUR, 30 * HOUR)));
            self.did(Behaviour::Silence, place);
        }
        let one = &mut self.resources[place];
        if now >= one.next_use && one.is_running() {
            let begin = now + self.chance.between(0, 3000);
            let end = begin + self.chance.between(MINUTE, 8 * HOUR);
            one.uses.push((begin, end));
            let forgets = self.chance.one_in(3);
            let rests = if forgets { (3 * DAY, 20 * DAY) } else { (HOUR, 30 * HOUR) };
            one.next_use = end + self.chance.between(rests.0, rests.1);
            self.did(if forgets { Behaviour::Forget } else { Behaviour::Use }, place);
        }
        if now >= self.resources[place].next_action {
            self.resources[place].next_action = now + self.chance.between(HOUR, 5 * DAY);
            self.act_randomly(place);
        }
    }

    /// A colleague intervenes between a read and its call.
    pub(crate) fn meddle(&mut self, place: usize) {
        self.did(Behaviour::Meddle, place);
        if self.chance.one_in(3) {
            self.resources[place].uses.push((self.now - MINUTE, self.now + HOUR));
        } else {
            self.act_randomly(place);
        }
    }

    pub(crate) fn act_randomly(&mut self, place: usize) {
        let behaviour = match self.chance.below(3) {
            0 => self.change(place),
            _ => self.reword(place),
        };
        if let Some(behaviour) = behaviour {
            self.resources[place].changed_at = self.now;
            self.did(behaviour, place);
        }
    }

    fn reword(&mut self, place: usize) -> Option<Behaviour> {
        let Self { resources, chance, now, .. } = self;
        let one = &mut resources[place];
        let says = &mut one.says;
        Some(match chance.below(20) {
            0 => (says.protected = true, Behaviour::Protect).1,
            1..5 => {
                (says.protected, says.kept_until, says.typo) = (false, None, None);
                says.expires_at = says.expires_at.filter(|at| *at >= one.created);
                Behaviour::Release
            }
            5 => (says.kept_until = Some(*now + chance.between(HOUR, 8 * DAY)), Behaviour::KeepUntil).1,
            6 => (says.expires_at = Some(*now + chance.between(HOUR, 6 * DAY)), Behaviour::Expire).1,
            7 if chance.one_in(2) => (says.expires_at = Some(one.created - HOUR), Behaviour::CopyExpiry).1,
            8 | 9 => (says.expires_at = None, Behaviour::DropExpiry).1,
            10 => (says.hours = Some(OwnerHours::draw(chance)), Behaviour::Hours).1,
            11 => (says.hours = None, Behaviour::DropHours).1,
            12 => {
                says.mode = chance.pick(&[None, Some(Mode::Enforce), Some(Mode::Enforce), Some(Mode::Observe)]);
                Behaviour::ChangeMode
            }
            13 => {
                let windows = [None, Some(OwnerIdleAfter::Off), Some(OwnerIdleAfter::Seconds(3 * HOUR))];
                says.idle_after = chance.pick(&windows);
                Behaviour::IdleAfter
            }
            14 | 15 => {
                let actions = [RuleAction::Stop, RuleAction::Terminate, RuleAction::Notify];
                says.on_idle = Some(chance.pick(&actions)).filter(|_| !chance.one_in(4));
                Behaviour::OnIdle
            }
            16 => {
                (says.job, says.local_disk) = (Some(7), Some(DiskPolicy::Keep));
                Behaviour::TagAsInstance
            }
            17 => (says.typo = Some(chance.below(TYPOS.len())), Behaviour::Mistype).1,
            18 => {
                (says.team, says.owner) = (Some(chance.below(3)), true);
                Behaviour::Retag
            }
            _ => return None,
        })
    }

    fn change(&mut self, place: usize) -> Option<Behaviour> {
        let Self { resources, chance, now, .. } = self;
        let one = &mut resources[place];
        let (is_endpoint, is_component) = (one.sort == Sort::Endpoint, one.sort == Sort::Component);
        Some(match chance.below(8) {
            2 if one.serves() => {
                one.is_autoscaled = !one.is_autoscaled;
                if one.is_autoscaled { Behaviour::Scale } else { Behaviour::Unscale }
            }
            3 if is_endpoint && one.is_running() => {
                (one.variants, one.has_config) = (if chance.one_in(8) { 2 } else { 1 }, true);
                one.change(*now);
                Behaviour::Update
            }
            4 if is_endpoint && chance.one_in(3) => {
                one.has_config = false;
                Behaviour::DropConfig
            }
            3 | 5 if is_component && one.status == SageMakerStatus::Stopped => {
                one.change(*now);
                one.copies = 1;
                Behaviour::ScaleUp
            }
            4 if is_component => {
                one.frees_instances = !one.frees_instances;
                Behaviour::KeepInstances
            }
            6 if is_component && one.is_running() => {
                one.stop(StoppedBy::Owner, *now);
                Behaviour::ScaleDown
            }
            5 | 6 if one.sort == Sort::Notebook && one.status == SageMakerStatus::Stopped => {
                one.change(*now);
                one.stopped_by = None;
                Behaviour::Start
            }
            5 if matches!(one.sort, Sort::Notebook | Sort::Job) && one.is_running() => {
                one.stop(StoppedBy::Owner, *now);
                Behaviour::Stop
            }
            7 if matches!(one.sort, Sort::App | Sort::Endpoint | Sort::Component) && one.is_running() => {
                one.delete(*now);
                Behaviour::Delete
            }
            _ => return None,
        })
    }
}
