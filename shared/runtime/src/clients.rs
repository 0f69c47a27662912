//! The clients that all runs of a function share, created once, before the first event.

use cloud::Aws;
use execution::{MetricsPublisher, Run, log};
use jiff::Timestamp;
use model::channels::{NotificationChannels, account_of_topic};
use model::id::RunId;
use model::mode::Mode;
use store::{HubStore, Store};

use crate::logs::write_line;

/// The clients, and the settings from the function's environment.
pub struct Clients {
    aws: Aws,
    store: Store,
    channels: NotificationChannels,
    mode: Mode,
    /// The number of the account, if its metrics are published.
    metrics_account: Option<String>,
}

impl Clients {
    /// Creates the clients, without a call.
    pub async fn connect(bucket: String, channels: NotificationChannels, mode: Mode) -> Self {
        let aws = Aws::connect().await;
        let store = Store::new(aws.sdk_config(), bucket);
        Self { aws, store, channels, mode, metrics_account: None }
    }

    /// The clients of a function that publishes metrics of the account, if the deployment asks for them.
    #[must_use]
    pub fn with_account_metrics(self, asks: bool) -> Self {
        let metrics_account = account_of_topic(&self.channels.topics.teams).filter(|_| asks);
        Self { metrics_account, ..self }
    }

    /// The clients of an account that publishes its figures in that bucket, and that bucket; without a call.
    #[must_use]
    pub fn publishing_to(self, bucket: Option<String>) -> (Self, Option<HubStore>) {
        let hub = bucket.map(|bucket| HubStore::new(self.aws.sdk_config(), bucket));
        (Self { store: self.store.publishing_to(hub.clone()), ..self }, hub)
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
        let Self { aws: cloud, store, channels, mode, metrics_account } = self;
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
