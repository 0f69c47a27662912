//! Foreign text in a cell of the screen: it can neither move the cursor nor take more columns than it gets.

use ratatui::text::Span;

use crate::screen::plain;

/// The most marks on one letter: no writing system needs more, and they cover the lines above and below.
const MARKS_MAX: usize = 2;

/// Returns the text on one line, without anything whose width depends on the terminal: variation selectors, flags, skin tones.
pub(super) fn safe(text: &str) -> String {
    let mut marks = 0;
    let shown = |letter: char| match letter {
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => None,
        // Two of them are one flag, or two letters.
        '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}' => Some('?'),
        _ if width_of(letter) > 0 => {
            marks = 0;
            Some(letter)
        }
        _ => {
            marks += 1;
            Some(letter).filter(|_| marks <= MARKS_MAX)
        }
    };
    plain(text).chars().filter_map(shown).collect()
}

/// Returns the width in columns of the terminal.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// Its beginning up to this width, with `…` if there is more.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let kept = text.chars().map_while(|letter| {
        left = left.checked_sub(width_of(letter))?;
        Some(letter)
    });
    let kept: String = kept.collect();
    if columns == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}

/// Returns the width of a letter, as the screen measures it.
fn width_of(letter: char) -> usize {
    Span::raw(letter.encode_utf8(&mut [0; 4]) as &str).width()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_of_it_is_a_command() {
        assert_eq!(safe("a\u{1b}[31mb\r\n\u{202e}c\u{9b}2J"), "a?[31mb  ?c?2J");
        assert_eq!(safe("\u{1f1e9}\u{1f1ea} \u{1f44b}\u{1f3fd} \u{26a0}\u{fe0f}"), "?? \u{1f44b}? \u{26a0}");
        assert_eq!(safe(&format!("z{}", "\u{335}".repeat(500))), "z\u{335}\u{335}");
    }

    #[test]
    fn wide_letters_are_cut_to_columns() {
        let check = |text: &str, columns: usize, expect: &str| {
            assert_eq!(cut(text, columns), expect);
            assert!(width(&cut(text, columns)) <= columns);
        };
        check("東京の訓練", 10, "東京の訓練");
        check("東京の訓練", 9, "東京の訓…");
        check("東京の訓練", 8, "東京の…");
        check("llama", 3, "ll…");
        check("llama", 1, "…");
        check("llama", 0, "");
    }

    proptest! {
        #[test]
        fn no_text_is_wider_than_its_cell(text in "\\PC{0,40}|.{0,40}", columns in 0_usize..30) {
            let cell = cut(&safe(&text), columns);
            prop_assert!(width(&cell) <= columns, "{:?}", cell);
            prop_assert!(!cell.contains(char::is_control));
        }
    }
}
