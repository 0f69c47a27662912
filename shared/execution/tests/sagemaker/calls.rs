//! `SageMaker` for one resource: a run reads it again and changes it, one call about one resource.

use model::curfew_tags::STOPPED;
use model::rule::ResourceAction;
use model::sagemaker::{SageMakerResource, SageMakerStatus};
use ports::{CallError, CallErrorKind, SageMakerWrite};

use crate::account::SimulatedAccount;
use crate::session::{OneResource, Session};
use crate::world::{Sort, StoppedBy};

impl OneResource for Session {
    fn find_sagemaker(&self, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        let account = self.account();
        let found = account.place(&seen.region, seen.id.as_str()).map(|place| &account.resources[place]);
        // Apps are described for a day after they are deleted, and jobs for ever.
        let stays = |sort| matches!(sort, Sort::App | Sort::Job);
        let found = found.filter(|one| stays(one.sort) || one.status != SageMakerStatus::Deleted);
        found
            .map(|one| one.describe(account.clock.max(self.now())))
            .ok_or_else(|| self.failed("sagemaker:Describe", CallErrorKind::NotFound, "ResourceNotFound"))
    }

    fn change_sagemaker(&self, seen: &SageMakerResource, write: &SageMakerWrite<'_>) -> Result<(), CallError> {
        let mut account = self.account();
        let refused = |kind| Err(self.failed("sagemaker", kind, "the resource is not in the right state"));
        let now = account.clock.max(self.now() + 1);
        let Some(place) = account.place(&seen.region, seen.id.as_str()) else {
            return refused(CallErrorKind::NotFound);
        };
        let SimulatedAccount { resources, oracle, .. } = &mut *account;
        let one = &mut resources[place];
        let facts = &self.facts();
        match write {
            SageMakerWrite::AddTags(tags) => {
                oracle.tagged(place, one, tags, facts);
                one.curfews_tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
            }
            SageMakerWrite::DeleteTags(keys) => {
                oracle.tagged(place, one, &[], facts);
                one.curfews_tags.retain(|key, _| !keys.contains(&key.as_str()));
            }
            SageMakerWrite::Start => {
                if one.status != SageMakerStatus::Stopped {
                    return refused(CallErrorKind::WrongState);
                }
                oracle.started(one, facts);
                one.change(now);
                one.status = SageMakerStatus::Pending;
                one.stopped_by = None;
            }
            SageMakerWrite::Stop | SageMakerWrite::Delete if !one.is_running() => {
                return refused(CallErrorKind::WrongState);
            }
            SageMakerWrite::Stop => {
                oracle.ended(place, one, ResourceAction::Stop, facts);
                let stopped = one.curfews_tags.get(STOPPED);
                one.was_stopped_for_hours = stopped.is_some_and(|value| value.starts_with("hours "));
                one.stop(StoppedBy::Curfew, now);
            }
            SageMakerWrite::Delete => {
                oracle.ended(place, one, ResourceAction::Delete, facts);
                one.delete(now);
            }
        }
        Ok(())
    }
}
