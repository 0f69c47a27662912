//! Failures of invocations, as Lambda shows them.

use std::error::Error;

use lambda_runtime::Diagnostic;
use model::fault::error_sentence;

/// The longest message, in characters: people read it in a list of failed invocations.
const MESSAGE_CHARACTERS_MAX: usize = 4_000;

/// Reason for a failed invocation: `errorType` and `errorMessage` of Lambda's answer.
///
/// `?` converts every error; only here are its sources joined to its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The name of the error's type, such as `StoreError`.
    pub kind: String,
    /// Error text: what went wrong, and what to do about it.
    pub message: String,
}

impl Failure {
    /// A failure that is no error of any call: `kind` is one word for it.
    #[must_use]
    pub fn because(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { kind: type_name::<E>().to_owned(), message: error_sentence(&error) }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: failure.kind, error_message: failure.message.chars().take(MESSAGE_CHARACTERS_MAX).collect() }
    }
}

/// The name of a type without its module and its parameters.
fn type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    let bare = full.split('<').next().unwrap_or(full);
    bare.rsplit("::").next().unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the run achieved nothing")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the account is closed")]
    struct Inner;

    #[test]
    fn the_sources_are_joined_once() {
        let failure = Failure::from(Outer(Inner));
        assert_eq!(failure, Failure::because("Outer", "the run achieved nothing: the account is closed"));
    }

    #[test]
    fn parameters_are_no_part_of_the_name() {
        assert_eq!(type_name::<std::sync::PoisonError<Vec<String>>>(), "PoisonError");
    }

    #[test]
    fn lambda_gets_a_message_of_bounded_length() {
        let diagnostic = Diagnostic::from(Failure::because("Long", "ä".repeat(100_000)));
        assert_eq!(diagnostic.error_message.chars().count(), MESSAGE_CHARACTERS_MAX);
    }
}
