//! The screen of a terminal and its keys, and refreshes in the background as long as it is open. It always restores the terminal.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use operator::watch::{Dashboard, dashboard};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::frame::draw;
use super::palette::Palette;
use super::read::FactsReader;
use super::view::{KeyAction, RefreshStatus, View};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::{screen, world};

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
    thread::spawn(move || closed.send(show(shown, &ask_refresh)));
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

/// The longest delay until a refresh is visible; keys are handled at once.
const TICK: Duration = Duration::from_millis(100);

/// Shows the dashboard until the person quits, or the refreshes end.
fn show(mut shown: watch::Receiver<Shown>, wishes: &mpsc::Sender<()>) -> io::Result<()> {
    let palette = Palette { has_colors: screen::has_colors() };
    let mut screen = OpenScreen::open()?;
    let mut view = View::default();
    loop {
        let now = shown.borrow_and_update();
        screen.0.draw(|frame| draw(now.dashboard.as_deref(), &mut view, &now.status, frame.buffer_mut(), palette))?;
        drop(now);
        loop {
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) => match view.press(key) {
                        KeyAction::Quit => return Ok(()),
                        // A pending refresh is as good.
                        KeyAction::Refresh => drop(wishes.try_send(())),
                        KeyAction::Draw => break,
                        KeyAction::Ignore => {}
                    },
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            match shown.has_changed() {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return Ok(()),
            }
        }
    }
}

/// A terminal in raw mode, on its alternate screen.
struct OpenScreen(DefaultTerminal);

impl OpenScreen {
    /// A panic restores the terminal as well, before it prints its message.
    fn open() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| drop(ratatui::try_restore()))
    }
}

impl Drop for OpenScreen {
    fn drop(&mut self) {
        // Without a terminal there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}
