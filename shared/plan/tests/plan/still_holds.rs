//! Steps of a plan that still hold, or not, by the resource as it is read again.

use model::fixture::{InstanceBuilder, instance};
use model::instance::{InstanceState, PrepaidCapacity};
use plan::{StaleStep, StillHolds};

/// `true` if a step about the usual instance still holds once it has become this.
fn check(fresh: InstanceBuilder, expect: Result<(), StaleStep>) {
    assert_eq!(instance().build().still_holds(&fresh.build()), expect);
}

#[test]
fn what_is_as_it_was_seen_is_acted_on() {
    check(instance(), Ok(()));
}

#[test]
fn what_has_changed_since_is_left_to_the_next_run() {
    for changed in [
        instance().tag("curfew:protected", ""),
        instance().tag("curfew:keep-until", "2026-12-31"),
        instance().tag("Name", "renamed"),
        instance().state(InstanceState::Stopped),
        instance().state(InstanceState::Stopping),
        instance().launched("2026-09-01T11:59:00Z"),
        instance().of_type("g5.2xlarge"),
        instance().operator("eks.amazonaws.com"),
        instance().prepaid(PrepaidCapacity::CapacityReservation),
    ] {
        check(changed, Err(StaleStep::Changed));
    }
}

#[test]
fn what_has_ended_by_itself_is_gone() {
    check(instance().state(InstanceState::Terminated), Err(StaleStep::AlreadyGone));
    check(instance().state(InstanceState::ShuttingDown), Err(StaleStep::AlreadyGone));
}
