//! The adversary among resources of SageMaker.

use model::instance::Tags;

use crate::forged_labels::AttackedResource;
use crate::world::SimulatedResource;

pub(crate) use crate::forged_labels::{Attack, attack};

impl AttackedResource for SimulatedResource {
    const END: &'static str = "delete";
    const EXPIRES_ONE_IN: u32 = 2;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn since(&self) -> i64 {
        self.created
    }

    fn tags(&mut self) -> &mut Tags {
        &mut self.curfews_tags
    }

    fn expire(&mut self, at: i64, now: i64) {
        self.says.expires_at = Some(at);
        self.note_expiry(now);
        self.changed_at = now;
    }

    fn tampered(&mut self, now: i64) {
        self.tampered_at = now;
    }
}
