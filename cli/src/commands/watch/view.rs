//! The view of a person: the panel, the scroll position, and the result of the last refresh.

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::frame::second;
use super::panel::Panel;

/// Lines of `PgUp` and `PgDn`.
const PAGE: usize = 10;

#[derive(Debug, Default)]
pub(super) struct View {
    /// The panel that scrolls.
    pub(super) focus: usize,
    /// The first row of each panel.
    pub(super) offsets: Vec<usize>,
    /// The number of visible rows of each panel. `rows` has the number of all its rows.
    pub(super) shown: Vec<usize>,
    rows: Vec<usize>,
    pub(super) has_help: bool,
}

/// The request of a key besides a redraw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAction {
    Quit,
    Refresh,
    Draw,
    Ignore,
}

#[derive(Debug, Default)]
pub(super) struct RefreshStatus {
    /// The time of the shown dashboard.
    pub(super) as_of: Option<Timestamp>,
    pub(super) is_refreshing: bool,
    /// The reason why the last refresh failed.
    pub(super) error: Option<String>,
}

impl RefreshStatus {
    /// `as of 12:03:15 UTC, refreshing`.
    pub(super) fn describe(&self) -> String {
        let as_of = self.as_of.map_or("nothing read yet".to_owned(), |at| format!("as of {}", second(at)));
        if self.is_refreshing { format!("{as_of}, refreshing") } else { as_of }
    }
}

impl View {
    /// Fits the view to the panels of another dashboard: limits the scroll positions.
    pub(super) fn fit(&mut self, panels: &[Panel]) {
        self.rows = panels.iter().map(|panel| panel.rows.len()).collect();
        self.offsets.resize(panels.len(), 0);
        self.shown.resize(panels.len(), 0);
        self.focus = self.focus.min(panels.len().saturating_sub(1));
        for ((offset, rows), shown) in self.offsets.iter_mut().zip(&self.rows).zip(&self.shown) {
            *offset = (*offset).min(rows.saturating_sub(*shown));
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyAction {
        if key.kind == KeyEventKind::Release {
            return KeyAction::Ignore;
        }
        let panels = self.offsets.len().max(1);
        match key.code {
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => return KeyAction::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('r') => return KeyAction::Refresh,
            KeyCode::Char('?') => self.has_help = !self.has_help,
            KeyCode::Tab => self.focus = (self.focus + 1) % panels,
            KeyCode::BackTab => self.focus = (self.focus + panels - 1) % panels,
            KeyCode::Up => self.scroll(|offset| offset.saturating_sub(1)),
            KeyCode::Down => self.scroll(|offset| offset.saturating_add(1)),
            KeyCode::PageUp => self.scroll(|offset| offset.saturating_sub(PAGE)),
            KeyCode::PageDown => self.scroll(|offset| offset.saturating_add(PAGE)),
            KeyCode::Home => self.scroll(|_| 0),
            KeyCode::End => self.scroll(|_| usize::MAX),
            _ => return KeyAction::Ignore,
        }
        KeyAction::Draw
    }

    fn scroll(&mut self, to: impl Fn(usize) -> usize) {
        let Some(offset) = self.offsets.get_mut(self.focus) else { return };
        let [rows, shown] = [&self.rows, &self.shown].map(|of| of.get(self.focus).copied().unwrap_or_default());
        *offset = to(*offset).min(rows.saturating_sub(shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two panels: one of 30 rows of which 10 are shown, and one of 2 that is shown in full.
    fn view() -> View {
        View { offsets: vec![0, 0], shown: vec![10, 2], rows: vec![30, 2], ..View::default() }
    }

    fn check(codes: &[KeyCode], focus: usize, offsets: &[usize]) {
        let mut view = view();
        for code in codes {
            assert_eq!(view.press(KeyEvent::from(*code)), KeyAction::Draw);
        }
        assert_eq!((view.focus, view.offsets.as_slice()), (focus, offsets), "{codes:?}");
    }

    #[test]
    fn a_panel_scrolls_to_its_ends_and_no_further() {
        check(&[KeyCode::Down, KeyCode::Down, KeyCode::Up], 0, &[1, 0]);
        check(&[KeyCode::Up, KeyCode::PageUp], 0, &[0, 0]);
        check(&[KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageDown], 0, &[20, 0]);
        check(&[KeyCode::End, KeyCode::Home, KeyCode::Down], 0, &[1, 0]);
        check(&[KeyCode::End], 0, &[20, 0]);
        check(&[KeyCode::Tab, KeyCode::End], 1, &[0, 0]);
        check(&[KeyCode::Tab, KeyCode::Tab], 0, &[0, 0]);
        check(&[KeyCode::BackTab], 1, &[0, 0]);
    }

    #[test]
    fn each_way_out_is_one() {
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        for key in [KeyCode::Char('q').into(), KeyCode::Esc.into(), control('c')] {
            assert_eq!(view().press(key), KeyAction::Quit, "{key:?}");
        }
        assert_eq!(view().press(KeyCode::Char('c').into()), KeyAction::Ignore);
        assert_eq!(view().press(KeyCode::Char('r').into()), KeyAction::Refresh);
    }
}
