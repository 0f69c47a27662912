//! Foreign text, such as tags, in sentences for people: it ends neither its line nor its quotes, and makes no link.

use crate::fault::one_line;

/// The longest value of a tag (EC2 user guide, "Tag restrictions").
const CHARACTERS_MAX: usize = 256;

/// `"bench"`: the text in quotes that it cannot end.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", harmless(text))
}

/// Quotes a text as [`quoted`] does, unless it is one word that cannot be read as anything else: `vision`, `"computer vision"`.
#[must_use]
pub fn quoted_unless_word(text: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || "-_:+=/".contains(letter);
    if text.chars().count() <= CHARACTERS_MAX && text.chars().all(is_word) && !text.contains("://") {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// The owner behind the name of a resource: `owner "ada"`, or `no owner`.
#[must_use]
pub fn describe_owner(owner: Option<&str>) -> String {
    owner.map_or_else(|| "no owner".to_owned(), |owner| format!("owner {}", quoted(owner)))
}

/// The name behind the type of a resource: ` "bench"`, or nothing.
#[must_use]
pub fn describe_name(name: Option<&str>) -> String {
    name.map(|name| format!(" {}", quoted(name))).unwrap_or_default()
}

/// The text between quotes or backticks: on one line, without either, and without what a mail program makes a link of.
#[must_use]
pub fn harmless(text: &str) -> String {
    let apostrophe = |letter| if is_quote(letter) { '\'' } else { letter };
    let line: String = one_line(text, CHARACTERS_MAX).chars().map(apostrophe).collect();
    without_links(&line)
}

/// The text with a blank in each beginning of an address by which mail programs and chats make a link. Only the addresses of S3 stay.
#[must_use]
pub fn without_links(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let begins_link = match letter {
            '/' => shown.ends_with(':') && rest.starts_with('/') && !is_s3(&shown),
            '.' => ends_with_www(&shown),
            _ => false,
        };
        if begins_link {
            shown.push(' ');
        }
        shown.push(letter);
    }
    shown
}

/// One word for a POSIX shell (POSIX.1-2024, "Quoting").
#[must_use]
pub fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/:=".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// An address of S3, and not the end of another scheme.
fn is_s3(before: &str) -> bool {
    before
        .strip_suffix("s3:")
        .is_some_and(|before| !before.ends_with(|letter: char| letter.is_alphanumeric() || "+-.".contains(letter)))
}

/// `true` if a dot behind this text would begin the link of a `www` host.
#[must_use]
pub fn ends_with_www(before: &str) -> bool {
    before.chars().rev().take_while(|letter| letter.eq_ignore_ascii_case(&'w')).count() >= 3
}

/// `true` if a reader takes the letter for a quote or a backtick (Unicode Standard, "General Punctuation", and look-alikes). An apostrophe
/// ends no quotes.
const fn is_quote(letter: char) -> bool {
    matches!(
        letter,
        '"' | '`'
            | '´'
            | '«'
            | '»'
            | 'ˋ'
            | 'ˮ'
            | '‘'..='‟'
            | '″'..='‷'
            | '‹'
            | '›'
            | '❛'..='❞'
            | '〝'..='〟'
            | '＂'
            | '｀'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fault::breaks_line;

    #[test]
    fn a_name_ends_neither_its_quotes_nor_its_line() {
        assert_eq!(quoted("bench"), "\"bench\"");
        assert_eq!(
            quoted("a\" \u{201d}\u{2033}, owner x). It was stopped.\nUndo: `curl`"),
            "\"a' '', owner x). It was stopped. Undo: 'curl'\""
        );
        assert_eq!(quoted("O'Brien\u{202e}\u{200b}\u{9b}"), "\"O'Brien   \"");
        assert_eq!(quoted(&"n".repeat(300)).chars().count(), 256 + "\"…\"".chars().count());
    }

    #[test]
    fn a_name_is_no_link() {
        assert_eq!(harmless("https://evil.example"), "https: //evil.example");
        assert_eq!(harmless("WWW.evil.example, s3://b"), "WWW .evil.example, s3://b");
        assert_eq!(harmless("v1.2 a/b ada@corp.example"), "v1.2 a/b ada@corp.example");
    }

    #[test]
    fn only_what_is_no_word_needs_quotes() {
        for (text, expect) in [
            ("vision", "vision"),
            ("ml-2_b", "ml-2_b"),
            ("", ""),
            ("computer vision", "\"computer vision\""),
            ("evil.example", "\"evil.example\""),
            ("vision/llama-1", "vision/llama-1"),
            ("ftp://e", "\"ftp: //e\""),
        ] {
            assert_eq!(quoted_unless_word(text), expect);
        }
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_quotes(text in "[\"`“”«www.:/htps \u{200b}\u{202e}]{0,20}|.{0,300}|(?s:.){0,30}") {
            let shown = harmless(&text);
            prop_assert!(!shown.contains(|letter| is_quote(letter) || breaks_line(letter)), "{shown:?}");
                let links = shown.match_indices("://").filter(|(at, _)| !shown[..*at].ends_with("s3")).count();
            prop_assert!(links == 0 && !shown.to_ascii_lowercase().contains("www."), "{shown:?}");
        }
    }
}
