//! The decision about one resource, which a bug in it must not take from all others.

use model::fault::Bug;
use model::id::{Region, ResourceId};
use model::notification_log::NotificationLog;
use plan::{Plan, Skipped, Step, Target};

pub(crate) enum Decision {
    Step(Box<Step>),
    Skipped(Box<Skipped>),
}

impl Decision {
    /// Decides about one resource. Where that panics, the resource is skipped with a finding that says so, and what the log has about it stays.
    pub(crate) fn or_bug(
        (region, id): (&Region, &ResourceId),
        log: &NotificationLog,
        target: impl FnOnce() -> Target,
        decide: impl FnOnce() -> Self,
    ) -> Self {
        let decide = || {
            #[cfg(any(test, feature = "fixture"))]
            crate::fixture::panic_if_planted(id);
            decide()
        };
        Bug::catch(decide).unwrap_or_else(|bug| {
            let target = Bug::catch(target).unwrap_or_else(|_| Target::bare(region, id));
            Self::Skipped(Box::new(Skipped::for_bug(&bug, target, log)))
        })
    }

    pub(crate) fn add_to(self, plan: &mut Plan) {
        match self {
            Self::Step(step) => plan.steps.push(*step),
            Self::Skipped(skipped) => plan.skipped.push(*skipped),
        }
    }
}
