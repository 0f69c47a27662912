//! The newtypes by which things are named, so that one cannot be passed for another.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text as AWS writes it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type! {
    /// An AWS region, such as `eu-central-1`.
    Region
}
name_type! {
    /// The id of one EC2 resource, such as `i-0123456789abcdef0`; of `SageMaker` the last part of its ARN, such as `endpoint/llm`.
    ResourceId
}
name_type! {
    /// The Amazon Resource Name of one resource.
    Arn
}
name_type! {
    /// A team, by the value of the account's team tag.
    TeamName
}
name_type! {
    /// The name of an EC2 instance type, such as `g5.xlarge`.
    TypeName
}
name_type! {
    /// The id of one run of one function; part of the audit record's key.
    RunId
}
