//! The configuration's way from bytes to values.

use domain::config::{BYTES_MAX, ConfigError};

use crate::error::StoreError;

/// Why there is no configuration. Without one a run acts on nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// The document is wrong; whoever wrote it has to mend it.
    #[error(transparent)]
    Refused(ConfigError),
    /// The document could not be read.
    #[error(transparent)]
    Unreachable(StoreError),
}

pub(crate) fn too_large(bytes: usize) -> ConfigError {
    let problem = format!("the document has {bytes} bytes; {BYTES_MAX} are the most");
    ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem }
}
