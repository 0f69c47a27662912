//! Errors for people.

use std::error::Error;

/// An error's words and those of its sources, each once: an error never repeats its source, and the SDK's own says only
/// "dispatch failure".
#[must_use]
pub fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        if !sentence.ends_with(&words) {
            sentence.push_str(": ");
            sentence.push_str(&words);
        }
        source = error.source();
    }
    sentence
}

/// The first so many characters of a foreign text, and `…` where there are more: what people are told has to fit a message.
#[must_use]
pub fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the account is closed")]
    struct Inner;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("Grüße", 5), "Grüße");
        assert_eq!(shortened("Grüße", 3), "Grü…");
        assert_eq!(shortened("", 0), "");
    }

    #[test]
    fn each_is_said_once() {
        let full = "the run achieved nothing: the account is closed";
        assert_eq!(sentence(&Outer("the run achieved nothing", Inner)), full);
        assert_eq!(sentence(&Outer(full, Inner)), full);
    }
}
