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
use crate::{Failure, FunctionSettings, InvocationResponse};

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

    /// Begins a run about everything that the function manages, from `now` to `deadline` by `clock`. It reads first which stack acts.
    ///
    /// # Errors
    /// The answer of the invocation, if another stack has taken over: then there is nothing to do, and people are notified once a day.
    pub async fn begin<'a>(
        &'a self,
        function: &'static str,
        id: RunId,
        times: (Timestamp, Timestamp),
        clock: &'a dyn Fn() -> Timestamp,
    ) -> Result<Run<'a, Aws, Store>, Result<InvocationResponse, Failure>> {
        let run = self.run(function, id, times, clock);
        let Some((standing, problem)) = Box::pin(self.store.read_standing(run.now)).await else { return Ok(run) };
        let Some(reason) = standing.standby_reason() else {
            return Ok(Run { home: HomeStatus { is_standby: false, problem }, ..run });
        };
        if let Standing::Replaced { .. } = standing {
            tracing::warn!("{reason}");
            if function == HOME_WRITER {
                Box::pin(run.notify_replaced(&reason)).await;
            }
            return Err(InvocationResponse::from_value(&ReplacedResponse { function, replaced: &reason })
                .map_err(Failure::from));
        }
        Ok(Run { home: HomeStatus { is_standby: true, problem: Some(reason) }, ..run })
    }

    fn run<'a>(
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
