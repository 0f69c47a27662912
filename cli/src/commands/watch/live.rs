//! Refreshes in the background, as long as the screen is open.

use std::future::pending;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use operator::watch::{Dashboard, dashboard};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::read::FactsReader;
use super::terminal;
use super::view::RefreshStatus;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::world;

/// The longest time until a screen closes: it checks ten times a second.
const CLOSING_MAX: Duration = Duration::from_secs(2);

/// The state of the screen: the last dashboard that was read, and the result of later refreshes.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) dashboard: Option<Arc<Dashboard>>,
    pub(super) status: RefreshStatus,
}

/// Draws and refreshes until the person quits. The screen has its own thread, so that a refresh never delays a key. The wait for that thread is
/// limited: crossterm reads the end of a lost terminal again and again.
pub(super) async fn run(reader: FactsReader<'_>, every: Duration) -> Result<CommandStatus, CommandError> {
    let (sender, shown) = watch::channel(Shown::default());
    let (ask_refresh, asked) = mpsc::channel(1);
    let (closed, mut closing) = oneshot::channel();
    thread::spawn(move || closed.send(terminal::show(shown, &ask_refresh)));
    let ended = tokio::select! {
        ended = &mut closing => ended,
        // The screen closes once the refreshes end.
        () = refresh_until_ended(reader, every, sender, asked) => timeout(CLOSING_MAX, closing)
            .await
            .map_err(|_| CommandError::new("the terminal is gone"))?,
    };
    ended.map_err(CommandError::new)?.map_err(|error| {
        CommandError::with(format!("the terminal: {error}"), "curfew watch --once prints one frame")
    })?;
    Ok(CommandStatus::Success)
}

async fn refresh_until_ended(
    reader: FactsReader<'_>,
    every: Duration,
    sender: watch::Sender<Shown>,
    asked: mpsc::Receiver<()>,
) {
    tokio::select! {
        () = refresh(reader, every, sender, asked) => {}
        () = signalled(SignalKind::terminate()) => {}
        () = signalled(SignalKind::hangup()) => {}
        () = signalled(SignalKind::interrupt()) => {}
    }
}

async fn refresh(
    mut reader: FactsReader<'_>,
    every: Duration,
    sender: watch::Sender<Shown>,
    mut asked: mpsc::Receiver<()>,
) {
    let mut anew = false;
    loop {
        sender.send_modify(|shown| shown.status.is_refreshing = true);
        let read = Box::pin(reader.read(world::clock(), anew)).await.map(|facts| Arc::new(dashboard(facts)));
        sender.send_modify(|shown| {
            shown.status.is_refreshing = false;
            match read {
                Ok(dashboard) => {
                    shown.status.as_of = Some(dashboard.at);
                    shown.status.error = None;
                    shown.dashboard = Some(dashboard);
                }
                Err(CommandError { problem, .. }) => shown.status.error = Some(problem),
            }
        });
        anew = tokio::select! {
            () = sleep(every) => false,
            wish = asked.recv() => match wish {
                Some(()) => true,
                None => return,
            },
        };
    }
}

async fn signalled(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => pending().await,
    }
}
