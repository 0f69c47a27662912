//! The machines of a gang as one machine, for decisions that know one.

use model::id::ResourceId;
use model::instance::InstanceState;

use crate::MachineSight;

/// Aliveness of a state, the least first.
const fn aliveness(state: InstanceState) -> u8 {
    match state {
        InstanceState::Terminated => 0,
        InstanceState::ShuttingDown => 1,
        InstanceState::Stopped => 2,
        InstanceState::Stopping => 3,
        InstanceState::Unknown => 4,
        InstanceState::Pending => 5,
        InstanceState::Running => 6,
    }
}

fn rank(sight: &MachineSight) -> u8 {
    match sight {
        MachineSight::Seen { state, .. } => aliveness(*state),
        MachineSight::Absent | MachineSight::Unknown => 4,
    }
}

fn is_over(sight: &MachineSight) -> bool {
    rank(sight) <= aliveness(InstanceState::Stopping)
}

/// The machines of a gang, as far as a decision needs to know them one by one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GangSight {
    /// The machine that is over and takes all with it.
    pub gone: Option<ResourceId>,
    /// The machines that a person, or a rule of Curfew's, stopped or terminated.
    pub ended_by_hand: Vec<ResourceId>,
    /// `true` unless all are on their way to their end.
    pub is_any_left: bool,
}

impl GangSight {
    /// Takes the machines by node.
    #[must_use]
    pub fn from_machines(machines: &[(ResourceId, MachineSight)]) -> Self {
        let gone = machines.iter().filter(|(_, sight)| is_over(sight)).min_by_key(|(_, sight)| gone_first(sight));
        let by_hand = machines.iter().filter(|(_, sight)| sight.was_ended_by_hand());
        Self {
            gone: gone.map(|(instance, _)| instance.clone()),
            ended_by_hand: by_hand.map(|(instance, _)| instance.clone()).collect(),
            is_any_left: machines.iter().any(|(_, sight)| rank(sight) > aliveness(InstanceState::ShuttingDown)),
        }
    }
}

/// Order of the machines that are over: that which a person ended is first, because it cancels the job.
fn gone_first(sight: &MachineSight) -> (bool, u8) {
    (!sight.was_ended_by_hand(), rank(sight))
}

/// The present attempt's machines as one: one of them that is surely gone takes all with it, with its reason; of several, the one that a person ended
/// comes first, because that cancels the job. Else an unknown one makes all unknown, else the least alive counts.
#[must_use]
pub fn gang_sight(members: &[MachineSight]) -> MachineSight {
    let gone = members.iter().filter(|sight| is_over(sight));
    if let Some(gone) = gone.min_by_key(|sight| gone_first(sight)) {
        return gone.clone();
    }
    if members.contains(&MachineSight::Unknown) {
        return MachineSight::Unknown;
    }
    members.iter().min_by_key(|sight| rank(sight)).cloned().unwrap_or_default()
}

/// The machines of an earlier attempt as one: it is gone once all are.
#[must_use]
pub fn previous_gang_sight(members: &[MachineSight]) -> MachineSight {
    let is_alive = |sight: &&MachineSight| rank(sight) >= aliveness(InstanceState::Pending);
    if let Some(alive) = members.iter().find(is_alive) {
        return alive.clone();
    }
    if members.contains(&MachineSight::Unknown) {
        return MachineSight::Unknown;
    }
    members.iter().max_by_key(|sight| rank(sight)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use InstanceState::{Pending, Running, ShuttingDown, Terminated};

    fn seen(state: InstanceState) -> MachineSight {
        MachineSight::Seen { state, reason: None }
    }

    fn check(members: &[MachineSight], present: MachineSight, previous: MachineSight) {
        assert_eq!((gang_sight(members), previous_gang_sight(members)), (present, previous), "{members:?}");
    }

    #[test]
    fn one_that_is_gone_ends_the_attempt_and_all_end_the_one_before() {
        check(&[seen(Running), seen(Running)], seen(Running), seen(Running));
        check(&[seen(Running), seen(Pending)], seen(Pending), seen(Running));
        check(&[seen(Running), seen(Terminated)], seen(Terminated), seen(Running));
        check(&[MachineSight::Unknown, seen(ShuttingDown)], seen(ShuttingDown), MachineSight::Unknown);
        check(&[MachineSight::Unknown, seen(Running)], MachineSight::Unknown, seen(Running));
        check(&[MachineSight::Absent, seen(Running)], MachineSight::Absent, seen(Running));
        check(&[seen(Terminated), seen(ShuttingDown)], seen(Terminated), seen(ShuttingDown));
        check(&[seen(Terminated), seen(Terminated)], seen(Terminated), seen(Terminated));
        check(&[], MachineSight::Unknown, MachineSight::Unknown);
        let reason = Some("Client.UserInitiatedShutdown".to_owned());
        let by_hand = MachineSight::Seen { state: InstanceState::Stopping, reason };
        check(&[seen(Terminated), by_hand.clone()], by_hand.clone(), by_hand.clone());
        let machines = [("i-0".into(), seen(Terminated)), ("i-1".into(), seen(Running)), ("i-2".into(), by_hand)];
        let expect = GangSight { gone: Some("i-2".into()), ended_by_hand: vec!["i-2".into()], is_any_left: true };
        assert_eq!(GangSight::from_machines(&machines), expect);
        let none_left = GangSight::from_machines(&machines[..1]);
        assert!(!none_left.is_any_left && none_left.gone == Some("i-0".into()));
        assert!(GangSight::from_machines(&[("i-0".into(), MachineSight::Absent)]).is_any_left);
    }
}
