//! A link that somebody opens: what its resource or its box is by now, and the one change that it allows.

use cloud::CallError;
use cloud::owner::{LocateResult, ResourceKind, locate, start, start_notebook, write_tag};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::instance::InstanceState;
use model::notification_log::CarriedOut;
use model::observation::ObservedResource;
use model::reply_link::{LinkDocument, LinkUse, ReplyLink, ReplyToken};
use model::rule::ResourceAction;
use model::sagemaker::SageMakerStatus;
use operator::reply::page::ErrorPage;
use operator::reply::{ReplyOffer, ReplyState, ReplyStep, ReplyTerms, box_reply_state, linked_job, reply_state};
use store::{Documents as _, JobDocuments as _, StoreError, Versioned};

use crate::Clients;

/// Reason for no answer. Each is logged here, once, where somebody has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkError {
    NotFound,
    Over,
    Failed,
    Standby,
}

impl LinkError {
    pub(crate) const fn page(self) -> ErrorPage {
        match self {
            Self::NotFound => ErrorPage::NotFound,
            Self::Over => ErrorPage::Over,
            Self::Failed => ErrorPage::Failed,
            Self::Standby => ErrorPage::Standby,
        }
    }
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        match error {
            // Of two answers at once, one is the first.
            StoreError::Lost { .. } => Self::Over,
            other => {
                tracing::error!("{other}");
                Self::Failed
            }
        }
    }
}

impl From<CallError> for LinkError {
    fn from(error: CallError) -> Self {
        tracing::error!(region = error.region.as_str(), call = error.call, "{error}");
        Self::Failed
    }
}

/// A link that works, with its resource as it is now.
pub(crate) struct OpenLink {
    pub(crate) link: LinkDocument,
    pub(crate) state: ReplyState,
    pub(crate) terms: ReplyTerms,
    hash: String,
    etag: Option<String>,
    seen: Option<ObservedResource>,
}

impl OpenLink {
    /// Reads the link and its resource. Changes nothing.
    pub(crate) async fn open(clients: &Clients, token: &ReplyToken, now: Timestamp) -> Result<Self, LinkError> {
        let hash = token.hash();
        let Versioned { value, etag } = clients.store.read_reply_link(&hash).await?;
        let link = value.ok_or(LinkError::NotFound)?;
        if !link.is_open(now) {
            return Err(LinkError::Over);
        }
        // The zone only words times.
        let config = clients.store.read_config().await;
        let time_zone = config.map_or(TimeZone::UTC, |config| config.account.zone());
        let terms = ReplyTerms { mode: clients.mode, time_zone, now };
        let (state, seen) = match &link {
            LinkDocument::Resource(link) => {
                let seen = find(clients, link).await?;
                let recorded = match &seen {
                    Some(seen) if is_stopped(seen) => recorded_stop(clients, link).await?,
                    _ => None,
                };
                (reply_state(link, seen.as_ref(), recorded, &terms), seen)
            }
            LinkDocument::Box(link) => {
                let job = linked_job(link).ok_or(LinkError::NotFound)?;
                let job = clients.store.read_job(&job).await?.value;
                (box_reply_state(link, job.as_ref(), &terms), None)
            }
        };
        Ok(Self { link, state, terms, hash, etag, seen })
    }

    /// Carries an offer out. The use of the link is written before, over the version that was read: a link acts at most once.
    pub(crate) async fn carry_out(self, clients: &Clients, offer: &ReplyOffer, from: String) -> Result<(), LinkError> {
        let (choice, at) = (offer.choice.as_str().to_owned(), self.terms.now);
        let standing = Box::pin(clients.store.read_standing(self.terms.now)).await;
        if let Some(reason) = standing.and_then(|(standing, _)| standing.standby_reason()) {
            tracing::warn!("{reason}");
            return Err(LinkError::Standby);
        }
        let Self { link, hash, etag, seen, .. } = self;
        let (name, team) = (link.name(), &link.sent_to().team);
        tracing::info!(resource = name, team, choice, from, "a link is used");
        let used = link.clone().used_by(LinkUse { choice, at, from });
        match clients.store.write_reply_link(&hash, &used, etag.as_deref()).await {
            // The answer to this very write may have been lost, and its repetition refused.
            Err(StoreError::Lost { .. }) if is_written(clients, &hash, &used).await? => {}
            written => drop(written?),
        }
        match (&offer.step, link, &seen) {
            (ReplyStep::ExtendBox { job, request }, LinkDocument::Box(_), _) => {
                Ok(clients.store.extend(job, request).await?)
            }
            (ReplyStep::WriteTag { key, value }, _, Some(seen)) => Ok(write_tag(&clients.aws, seen, key, value).await?),
            (ReplyStep::StartNotebook, _, Some(ObservedResource::SageMaker(notebook))) => {
                Ok(start_notebook(&clients.aws, notebook).await?)
            }
            (ReplyStep::StartInstance, LinkDocument::Resource(link), Some(_)) => {
                Ok(start(&clients.aws, &link.region, &link.resource).await?)
            }
            // No state offers a step of another kind.
            _ => Err(LinkError::Failed),
        }
    }
}

/// Returns `true` if the document has this use of the link.
async fn is_written(clients: &Clients, hash: &str, used: &LinkDocument) -> Result<bool, LinkError> {
    let written = clients.store.read_reply_link(hash).await?.value;
    Ok(written.is_some_and(|link| link.used() == used.used()))
}

/// The resource, in its region; `None` if it no longer exists.
async fn find(clients: &Clients, link: &ReplyLink) -> Result<Option<ObservedResource>, LinkError> {
    let kind = ResourceKind::from_id(&link.resource).ok_or(LinkError::NotFound)?;
    match locate(&clients.aws, std::slice::from_ref(&link.region), kind, &link.resource).await {
        LocateResult::Here(seen) => Ok(Some(*seen)),
        LocateResult::Nowhere => Ok(None),
        LocateResult::Unknown(gaps) => {
            for gap in gaps {
                tracing::error!(region = gap.region.as_str(), call = gap.call, "{}", gap.in_run());
            }
            Err(LinkError::Failed)
        }
    }
}

fn is_stopped(seen: &ObservedResource) -> bool {
    match seen {
        ObservedResource::Instance(instance) => instance.state == InstanceState::Stopped,
        ObservedResource::SageMaker(resource) => resource.status == SageMakerStatus::Stopped,
        ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => false,
    }
}

/// The last stop by the log of the function that announced it: a tag proves nothing.
async fn recorded_stop(clients: &Clients, link: &ReplyLink) -> Result<Option<CarriedOut>, LinkError> {
    let log = clients.store.read_notices(&link.sent_to.function, &link.region).await?;
    let done = log.value.record(&link.resource).and_then(|record| record.carried_out);
    Ok(done.filter(|done| done.action == ResourceAction::Stop))
}
