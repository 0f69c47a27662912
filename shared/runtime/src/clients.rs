//! The clients that all runs of a function share, created once, before the first event.

use cloud::Aws;
use execution::{HUB_READER, MetricsPublisher, Run, log};
use jiff::Timestamp;
use model::channels::{NotificationChannels, account_of_topic};
use model::id::RunId;
use model::mode::Mode;
use store::{HubStore, Store};

use crate::FunctionSettings;
use crate::logs::write_line;

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

impl Clients {
    /// Creates the clients, without a call. `function` is the one that they are for.
    pub async fn connect(function: &str, settings: FunctionSettings) -> Self {
        let FunctionSettings { bucket, channels, hub_bucket, mode, account_metrics, reports_organization, .. } =
            settings;
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
        let reported_hub = hub.filter(|_| reports_organization);
        Self { aws, store, channels, mode, metrics_account: account.filter(|_| account_metrics), reported_hub }
    }

    /// The hub of the organization, if this deployment reports on all its accounts.
    #[must_use]
    pub const fn reported_hub(&self) -> Option<&HubStore> {
        self.reported_hub.as_ref()
    }

    /// A run about everything that the function manages, from `now` to `deadline` by `clock`.
    #[must_use]
    pub fn run<'a>(
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
        }
    }
}
