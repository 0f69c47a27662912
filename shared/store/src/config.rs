//! The configuration's way from bytes to values.

use domain::config::{BYTES_MAX, Config, ConfigError};

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

pub(crate) fn parse(bytes: &[u8]) -> Result<Config, ConfigError> {
    Config::read(std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?)
}

fn not_utf8(bytes: &[u8], valid_up_to: usize) -> ConfigError {
    let before = String::from_utf8_lossy(bytes.get(..valid_up_to).unwrap_or_default());
    let (line, column) = before.split('\n').fold((0, 0), |(line, _), text| (line + 1, text.chars().count() + 1));
    ConfigError { line, column, ..whole("here is a byte that is no UTF-8; save the document as UTF-8") }
}

pub(crate) fn too_large(bytes: usize) -> ConfigError {
    whole(&format!("the document has {bytes} bytes; {BYTES_MAX} are the most"))
}

fn whole(problem: &str) -> ConfigError {
    ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read() {
        assert_eq!(parse(b""), Ok(Config::default()));
        assert!(parse(b"mode = \"enforce\"").is_ok());
        assert!(parse(b"mode = \"perhaps\"").is_err());
    }

    #[test]
    fn a_byte_that_is_no_utf8_is_refused_with_its_place() {
        let error = parse(b"mode = \"observe\"\n# gr\xc3\xbc\xdfe\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 6));
        let error = parse(b"\xff\xfe").unwrap_err();
        assert_eq!((error.line, error.column), (1, 1));
    }
}
