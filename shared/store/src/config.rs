//! Reads the configuration.

use model::config::{BYTES_MAX, ConfigError};

pub(crate) fn too_large(bytes: usize) -> ConfigError {
    let problem = format!("the document has {bytes} bytes; {BYTES_MAX} are the most");
    ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem }
}
