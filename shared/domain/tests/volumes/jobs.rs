//! What a run over volumes reads of the states of jobs: nothing. It goes by the index of unfinished ones.

/// Nothing.
#[derive(Clone, Default)]
pub(crate) struct Read;
