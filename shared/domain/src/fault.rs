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
    fn each_is_said_once() {
        let full = "the run achieved nothing: the account is closed";
        assert_eq!(sentence(&Outer("the run achieved nothing", Inner)), full);
        assert_eq!(sentence(&Outer(full, Inner)), full);
    }
}
