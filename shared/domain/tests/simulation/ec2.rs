//! EC2 as a run writes to it: the second look, then one call about one instance. Tags come before a stop, and the mark goes
//! after it, as in the product.

use domain::instance::{Purchase, State};
use domain::mode::Mode;
use domain::plan::{Action, NoLonger, Seen, Step, still_holds};
use domain::report::{Outcome, OutcomeKind};
use domain::rule::Ending;
use domain::vocabulary::{MARKED, STOPPED};

use crate::account::Account;
use crate::fault::Fault;
use crate::reaper::{Cut, Facts, Pulse};
use crate::world::StoppedBy;

/// Why a call came to nothing, as far as the run knows.
enum Halt {
    Cut,
    Refused(&'static str),
    /// It was carried out, and nobody answered.
    Unheard,
    WrongState,
}

impl From<Cut> for Halt {
    fn from(_: Cut) -> Self {
        Self::Cut
    }
}

pub(crate) fn carry_out(account: &mut Account, facts: &Facts, pulse: &mut Pulse, step: &Step) -> Result<Outcome, Cut> {
    let id = step.target.resource.as_str();
    let Some(place) = account.machines.iter().position(|machine| machine.id() == id) else {
        return Ok(Outcome::with(OutcomeKind::Failed, "InvalidInstanceID.NotFound"));
    };
    let repeats_itself = step.mode == Mode::Observe && step.told_before;
    if step.action != Action::Notify && !repeats_itself {
        if account.faults.strikes(Fault::SecondLookFailed, facts.now) {
            return Ok(Outcome::with(OutcomeKind::Failed, "ec2:DescribeInstances failed"));
        }
        match still_holds(step, &Seen::Instance(account.machines[place].ec2.clone())) {
            Ok(()) => {}
            Err(NoLonger::AlreadyGone) => return Ok(Outcome::of(OutcomeKind::AlreadyGone)),
            Err(NoLonger::Changed) => return Ok(Outcome::of(OutcomeKind::Changed)),
        }
    }
    if step.mode == Mode::Observe {
        return Ok(Outcome::of(OutcomeKind::Observed));
    }
    match write(account, facts, pulse, step, place) {
        Ok(()) => Ok(Outcome::of(OutcomeKind::Done)),
        Err(Halt::Cut) => Err(Cut),
        Err(Halt::Refused(why)) => Ok(Outcome::with(OutcomeKind::Failed, why)),
        Err(Halt::Unheard) => Ok(Outcome::with(OutcomeKind::Failed, "dispatch failure: no answer")),
        Err(Halt::WrongState) => Ok(Outcome::with(OutcomeKind::Changed, "IncorrectInstanceState")),
    }
}

fn write(account: &mut Account, facts: &Facts, pulse: &mut Pulse, step: &Step, place: usize) -> Result<(), Halt> {
    let mut instance = Writer { account, facts, pulse, step, place };
    let is_marked = step.seen.tags().contains_key(MARKED);
    match &step.action {
        Action::Notify | Action::Hold => Ok(()),
        Action::Mark(mark) => instance.tag(vec![(MARKED, mark.to_string())]),
        Action::Unmark { remaining, also } => {
            if let Some(mark) = remaining {
                instance.tag(vec![(MARKED, mark.to_string())])?;
            }
            let gone = [(MARKED, remaining.is_none()), (STOPPED, also.is_some())];
            let gone = gone.into_iter().filter(|(key, goes)| *goes && step.seen.tags().contains_key(*key));
            instance.untag(gone.map(|(key, _)| key).collect())
        }
        Action::Stop { mark, stopped } => {
            let marked = mark.as_ref().map(|mark| (MARKED, mark.to_string()));
            let is_marked = is_marked || marked.is_some();
            instance.tag(std::iter::once((STOPPED, stopped.clone())).chain(marked).collect())?;
            instance.end(Ending::Stop)?;
            match if is_marked { instance.untag(vec![MARKED]) } else { Ok(()) } {
                Err(Halt::Cut) => Err(Halt::Cut),
                // Stopped, but the mark stayed.
                _ => Ok(()),
            }
        }
        Action::Terminate { mark } => {
            if let Some(mark) = mark {
                instance.tag(vec![(MARKED, mark.to_string())])?;
            }
            instance.end(Ending::Terminate)
        }
        Action::Start => instance.start(),
        Action::Date { .. } | Action::Snapshot { .. } | Action::Delete { .. } => {
            Err(Halt::Refused("an instance takes none of these"))
        }
    }
}

struct Writer<'a> {
    account: &'a mut Account,
    facts: &'a Facts,
    pulse: &'a mut Pulse,
    step: &'a Step,
    place: usize,
}

impl Writer<'_> {
    /// A call is carried out unless it is refused; and then its answer may be lost.
    fn call(&mut self, carry_out: impl FnOnce(&mut Self) -> Result<(), Halt>) -> Result<(), Halt> {
        self.pulse.beat()?;
        if self.account.faults.strikes(Fault::WriteRefused, self.facts.now) {
            return Err(Halt::Refused("RequestLimitExceeded"));
        }
        carry_out(self)?;
        if self.account.faults.strikes(Fault::WriteUnheard, self.facts.now) {
            return Err(Halt::Unheard);
        }
        Ok(())
    }

    /// What was done and not answered is done, if it can be seen.
    fn or_so_it_is(&mut self, answer: Result<(), Halt>) -> Result<(), Halt> {
        let Err(Halt::Unheard) = answer else { return answer };
        if self.account.faults.strikes(Fault::SecondLookFailed, self.facts.now) {
            self.account.faults.forgotten_at = self.facts.now;
            return Err(Halt::Unheard);
        }
        Ok(())
    }

    fn tag(&mut self, tags: Vec<(&'static str, String)>) -> Result<(), Halt> {
        self.call(|writer| {
            let Account { machines, oracle, .. } = &mut *writer.account;
            let machine = &mut machines[writer.place];
            oracle.tagged(machine, &tags, writer.facts);
            machine.ec2.tags.extend(tags.into_iter().map(|(key, value)| (key.to_owned(), value)));
            machine.version += 1;
            Ok(())
        })
    }

    fn untag(&mut self, keys: Vec<&'static str>) -> Result<(), Halt> {
        if keys.is_empty() {
            return Ok(());
        }
        let answer = self.call(|writer| {
            let Account { machines, oracle, .. } = &mut *writer.account;
            let machine = &mut machines[writer.place];
            oracle.tagged(machine, &[], writer.facts);
            for key in keys {
                machine.ec2.tags.remove(key);
            }
            machine.version += 1;
            Ok(())
        });
        self.or_so_it_is(answer)
    }

    fn end(&mut self, ending: Ending) -> Result<(), Halt> {
        let answer = self.call(|writer| {
            let Account { machines, oracle, clock, .. } = &mut *writer.account;
            let machine = &mut machines[writer.place];
            if !machine.is(State::Running) {
                return Err(Halt::WrongState);
            }
            let unstoppable = machine.ec2.root_on_instance_storage || machine.ec2.purchase == Purchase::SpotOneTime;
            if ending == Ending::Stop && unstoppable {
                return Err(Halt::Refused("UnsupportedOperation"));
            }
            let rule = writer.step.because.rule();
            oracle.ended(machine, rule, ending, writer.facts);
            machine.enter(if ending == Ending::Stop { State::Stopping } else { State::ShuttingDown }, *clock);
            machine.stopped_by = Some(StoppedBy::Curfew(rule));
            Ok(())
        });
        self.or_so_it_is(answer)
    }

    fn start(&mut self) -> Result<(), Halt> {
        let answer = self.call(|writer| {
            let Account { machines, oracle, faults, clock, .. } = &mut *writer.account;
            let machine = &mut machines[writer.place];
            if !machine.is(State::Stopped) {
                return Err(Halt::WrongState);
            }
            oracle.started(machine, writer.facts);
            let stopped_by = machine.stopped_by;
            machine.start(*clock);
            if faults.strikes(Fault::StartFell, writer.facts.now) {
                machine.fall_back(*clock);
                machine.stopped_by = stopped_by;
            }
            Ok(())
        });
        self.or_so_it_is(answer)
    }
}
