//! The screen of a terminal, and its keys. It always restores the terminal.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::{mpsc, watch};

use super::frame::draw;
use super::live::Shown;
use super::palette::Palette;
use super::view::{KeyAction, View};
use crate::screen;

/// The longest delay until a refresh is visible; keys are handled at once.
const TICK: Duration = Duration::from_millis(100);

/// Shows the dashboard until the person quits, or the refreshes end.
pub(super) fn show(mut shown: watch::Receiver<Shown>, wishes: &mpsc::Sender<()>) -> io::Result<()> {
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
