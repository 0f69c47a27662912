//! Colours, if the terminal has them and `NO_COLOR` is not set (<https://no-color.org>). They add nothing that the words do not say.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emphasis {
    Normal,
    /// An action is due soon, or a value is unknown.
    Warning,
    /// A budget is spent, or an action awaits approval.
    Alert,
    /// The row costs nothing now.
    Dim,
}

impl Palette {
    pub(super) fn emphasis(self, emphasis: Emphasis) -> Style {
        match emphasis {
            Emphasis::Normal => Style::new(),
            Emphasis::Warning => self.colored(Color::Yellow),
            Emphasis::Alert => self.colored(Color::Red).add_modifier(Modifier::BOLD),
            Emphasis::Dim => Style::new().add_modifier(Modifier::DIM),
        }
    }

    pub(super) fn title(is_focused: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if is_focused { style.add_modifier(Modifier::REVERSED) } else { style }
    }

    pub(super) fn heading(self) -> Style {
        self.colored(Color::Cyan)
    }

    fn colored(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }
}
