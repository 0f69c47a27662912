//! EC2 for one instance: a run reads it again and changes it, one call about one instance.

use model::id::ResourceId;
use model::instance::{Instance, InstanceState, PurchaseOption};
use model::rule::ResourceAction;
use ports::{CallError, CallErrorKind, Ec2Write};

use crate::account::SimulatedAccount;
use crate::fault::Fault;
use crate::session::{OneResource, Session};
use crate::world::{SimulatedMachine, StoppedBy};

impl OneResource for Session {
    fn find_instance(&self, instance: &ResourceId) -> Result<Instance, CallError> {
        let account = self.account();
        let machine = account.machines.iter().find(|machine| machine.ec2.id == *instance);
        let not_found = || self.failed("ec2:DescribeInstances", CallErrorKind::NotFound, "InvalidInstanceID.NotFound");
        machine.map(|machine| machine.ec2.clone()).ok_or_else(not_found)
    }

    fn change_ec2(&self, call: &'static str, write: &Ec2Write<'_>) -> Result<(), CallError> {
        self::write(self, call, write)
    }
}

fn write(session: &Session, call: &'static str, write: &Ec2Write<'_>) -> Result<(), CallError> {
    match write {
        Ec2Write::CreateTags { resources: [id], tags } => change(session, call, id, |account, place| {
            let SimulatedAccount { machines, oracle, .. } = account;
            oracle.tagged(&machines[place], tags, &session.facts());
            let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
            machines[place].ec2.tags.extend(tags);
            machines[place].version += 1;
            Ok(())
        }),
        Ec2Write::DeleteTags { resource, keys } => change(session, call, resource, |account, place| {
            let SimulatedAccount { machines, oracle, .. } = account;
            oracle.tagged(&machines[place], &[], &session.facts());
            machines[place].ec2.tags.retain(|key, _| !keys.contains(&key.as_str()));
            machines[place].version += 1;
            Ok(())
        }),
        Ec2Write::StopInstance(id) => end(session, call, id, ResourceAction::Stop),
        Ec2Write::TerminateInstance(id) => end(session, call, id, ResourceAction::Terminate),
        Ec2Write::StartInstance(id) => change(session, call, id, |account, place| {
            let SimulatedAccount { machines, oracle, faults, clock, .. } = account;
            let machine = &mut machines[place];
            if !machine.is(InstanceState::Stopped) {
                return Err((CallErrorKind::WrongState, "IncorrectInstanceState"));
            }
            oracle.started(machine, &session.facts());
            let stopped_by = machine.stopped_by;
            machine.start(*clock);
            if faults.occurs(Fault::StartFailed, session.now()) {
                machine.fall_back(*clock);
                machine.stopped_by = stopped_by;
            }
            Ok(())
        }),
        write => unreachable!("no run about instances asks for {write:?}"),
    }
}

fn end(session: &Session, call: &'static str, id: &ResourceId, ending: ResourceAction) -> Result<(), CallError> {
    change(session, call, id, |account, place| {
        let SimulatedAccount { machines, oracle, clock, .. } = account;
        let machine: &mut SimulatedMachine = &mut machines[place];
        if !machine.is(InstanceState::Running) {
            return Err((CallErrorKind::WrongState, "IncorrectInstanceState"));
        }
        let unstoppable = machine.ec2.root_on_instance_storage || machine.ec2.purchase == PurchaseOption::SpotOneTime;
        if ending == ResourceAction::Stop && unstoppable {
            return Err((CallErrorKind::Unsupported, "UnsupportedOperation"));
        }
        if ending == ResourceAction::Stop && machine.stop_protection.is_on {
            machine.stop_protection.refused_at = *clock;
            return Err((CallErrorKind::Other, STOP_PROTECTED));
        }
        let Some((rule, _)) = session.steps.borrow().get(id).copied() else { unreachable!("no step is about {id}") };
        let others: Vec<&SimulatedMachine> =
            machines.iter().filter(|other| other.works_with(&machines[place])).collect();
        oracle.leaves_gang(&machines[place], &others, rule, &session.facts());
        let machine: &mut SimulatedMachine = &mut machines[place];
        oracle.ended(machine, rule, ending, &session.facts());
        machine.enter(
            if ending == ResourceAction::Stop { InstanceState::Stopping } else { InstanceState::ShuttingDown },
            *clock,
        );
        machine.stopped_by = Some(StoppedBy::Curfew(rule));
        Ok(())
    })
}

/// EC2 user guide, "Enable stop protection for your EC2 instances".
const STOP_PROTECTED: &str = "OperationNotPermitted: Modify its 'disableApiStop' instance attribute and try again.";

/// Why a call failed.
type Refusal = (CallErrorKind, &'static str);

fn change(
    session: &Session,
    call: &'static str,
    id: &ResourceId,
    change: impl FnOnce(&mut SimulatedAccount, usize) -> Result<(), Refusal>,
) -> Result<(), CallError> {
    let mut account = session.account();
    let place = account.machines.iter().position(|machine| machine.ec2.id == *id);
    let changed = match place {
        Some(place) => change(&mut account, place),
        None => Err((CallErrorKind::NotFound, "InvalidInstanceID.NotFound")),
    };
    changed.map_err(|(kind, message)| {
        let code = message.split_once(": ").map(|(code, _)| code.to_owned());
        CallError { code, ..session.failed(call, kind, message) }
    })
}
