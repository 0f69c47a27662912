//! Colours, where the terminal has them and nobody objects (<https://no-color.org>). Whatever they say, words say too.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emphasis {
    Normal,
    /// Something ends soon, or is not known.
    Warning,
    /// A budget is spent, or somebody has to approve.
    Alert,
    /// It costs nothing now.
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
