//! The reason why the agent could not do something, in a sentence for the log or for the job's owner.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentError(String);

impl AgentError {
    pub(crate) fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

impl Display for AgentError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AgentError {}
