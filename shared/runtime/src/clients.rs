//! The clients that all runs of a function share, created once, before the first event.

use cloud::Aws;
use execution::{Run, log};
use jiff::Timestamp;
use model::channels::NotificationChannels;
use model::id::RunId;
use model::mode::Mode;
use store::{HubStore, Store};

/// The clients, and the settings from the function's environment.
pub struct Clients {
    aws: Aws,
    store: Store,
    channels: NotificationChannels,
    mode: Mode,
}

impl Clients {
    /// Creates the clients, without a call.
    pub async fn connect(bucket: String, channels: NotificationChannels, mode: Mode) -> Self {
        let aws = Aws::connect().await;
        let store = Store::new(aws.sdk_config(), bucket);
        Self { aws, store, channels, mode }
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
        let Self { aws: cloud, store, channels, mode } = self;
        let (chosen, progress, halted) = (None, &log, None);
        Run { cloud, store, channels, function, id, mode: *mode, now, deadline, clock, chosen, progress, halted }
    }
}
