//! The clients that all runs of a function share, created once, before the first event.

use cloud::Aws;
use execution::{HOME_WRITER, HUB_READER, MetricsPublisher, Run, log};
use jiff::Timestamp;
use model::channels::{NotificationChannels, account_of_topic};
use model::home::{HomeStatus, Standing};
use model::id::RunId;
use model::mode::Mode;
use serde::Serialize;
use store::{HubStore, Store};

use crate::logs::write_line;
use crate::{Event, Failure, FunctionSettings, Invocation, InvocationResponse};

/// The clients, and the settings from the function's environment.
pub struct Clients {
    aws: Aws,
    store: Store,
    channels: NotificationChannels,
    mode: Mode,
    /// The number of the account, if its metrics are published.
    metrics_account: Option<String>,
    reported_hub: Option<HubStore>,
}

/// Answer of a function of a replaced stack.
#[derive(Serialize)]
struct ReplacedResponse<'a> {
    function: &'static str,
    replaced: &'a str,
}

impl Clients {
    /// Creates the clients, without a call. `function` is the one that they are for.
    pub async fn connect(function: &str, settings: FunctionSettings) -> Self {
        let FunctionSettings {
            bucket, channels, hub_bucket, mode, account_metrics, reports_organization, home, ..
        } = settings;
        let aws = Aws::connect().await;
        let store = Store::new(aws.sdk_config(), bucket);
        let account = account_of_topic(&channels.topics.teams);
        let hub = hub_bucket.as_ref().map(|bucket| HubStore::new(aws.sdk_config(), bucket.clone()));
        let store = store.publishing_to(hub.clone());
        let store = match hub_bucket.zip(account.clone()) {
            Some((hub, account)) if function == HUB_READER => store.reading_hub(aws.sdk_config(), hub, account),
            Some((hub, account)) => store.reading_hub_copy(Some(hub), Some(account)),
            None => store,
        };
        let store = match home {
            Some(home) => store.knowing_home(aws.sdk_config(), home, function == HOME_WRITER),
            None => store,
        };
        let reported_hub = hub.filter(|_| reports_organization);
        Self { aws, store, channels, mode, metrics_account: account.filter(|_| account_metrics), reported_hub }
    }

    /// The hub of the organization, if this deployment reports on all its accounts.
    #[must_use]
    pub const fn reported_hub(&self) -> Option<&HubStore> {
        self.reported_hub.as_ref()
    }

    /// Carries out `work` as a run about everything that the function manages; its second argument is the event. The standing of the stack is read
    /// first: once another one has taken over, there is nothing to do, and people are notified once a day.
    ///
    /// # Errors
    /// The errors of `work`.
    pub async fn run(
        &self,
        function: &'static str,
        Invocation { event, run: id, now, deadline, clock }: Invocation,
        work: impl AsyncFnOnce(&Run<'_, Aws, Store>, Event) -> Result<InvocationResponse, Failure>,
    ) -> Result<InvocationResponse, Failure> {
        let mut run = self.begin(function, id, (now, deadline), &clock);
        if let Some((standing, problem)) = Box::pin(self.store.read_standing(now)).await {
            let reason = standing.standby_reason();
            if let (Standing::Replaced { .. }, Some(reason)) = (&standing, &reason) {
                tracing::warn!("{reason}");
                if function == HOME_WRITER {
                    Box::pin(run.notify_replaced(reason)).await;
                }
                return Ok(InvocationResponse::from_value(&ReplacedResponse { function, replaced: reason })?);
            }
            run.home = HomeStatus { is_standby: reason.is_some(), problem: reason.or(problem) };
        }
        Box::pin(work(&run, event)).await
    }

    fn begin<'a>(
        &'a self,
        function: &'static str,
        id: RunId,
        (now, deadline): (Timestamp, Timestamp),
        clock: &'a dyn Fn() -> Timestamp,
    ) -> Run<'a, Aws, Store> {
        let Self { aws: cloud, store, channels, mode, metrics_account, .. } = self;
        let (chosen, progress, halted) = (None, &log, None);
        let metrics = metrics_account.as_deref().map(|account| MetricsPublisher { account, write_line: &write_line });
        Run {
            cloud,
            store,
            channels,
            function,
            id,
            mode: *mode,
            now,
            deadline,
            clock,
            chosen,
            progress,
            halted,
            metrics,
            home: HomeStatus::default(),
        }
    }
}
