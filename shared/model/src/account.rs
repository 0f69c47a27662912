//! Accounts of AWS.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fault::{InvalidValue, shortened};

/// The most of a wrong text that an error repeats, in characters.
const REPEATED_MAX: usize = 40;

/// The id of an account: 12 digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AccountId(String);

impl AccountId {
    /// Reads an id.
    ///
    /// # Errors
    /// If it is not 12 digits.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidValue::new(format!("{:?} is no id of an account: write 12 digits", shortened(text, REPEATED_MAX))))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for AccountId {
    type Error = InvalidValue;
    fn try_from(text: String) -> Result<Self, InvalidValue> {
        Self::parse(&text)
    }
}
