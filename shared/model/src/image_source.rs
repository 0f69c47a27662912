//! The image that a machine boots, as a job or the configuration names it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fault::InvalidValue;
use crate::id::ResourceId;

/// Stands for `x86_64` or `arm64` in the name of a parameter.
const ARCHITECTURE: &str = "{architecture}";

/// The newest Deep Learning Base AMI of Ubuntu 24.04, with NVIDIA's open driver (AWS Deep Learning AMIs developer guide, "Finding the ID of
/// a DLAMI", for the form; its release notes for the name, which both architectures share).
const DEFAULT: &str =
    "/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id";

/// The newest Amazon Linux 2023, for CPU jobs (Systems Manager user guide, "Calling AMI public parameters").
const WITHOUT_GPU: &str = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}";

/// Prefixes of the parameters that `[jobs] image` may name, among those that the role of `run-jobs` may read: AWS's public parameters of
/// the Deep Learning AMIs, and those that this account sets for Curfew.
const READABLE: [&str; 2] = ["/aws/service/deeplearning/", "/curfew/images/"];

/// Systems Manager API reference, "PutParameter": at most 1,011 characters with the ARN, which has less than 100.
const NAME_CHARACTERS_MAX: usize = 900;

/// An image, or the parameter that names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageSource {
    /// One image: of one region and one architecture.
    Image(ResourceId),
    /// A parameter of Systems Manager, which each region has for itself. Its name may hold `{architecture}`.
    Parameter(String),
}

impl ImageSource {
    /// Returns the image of the machines of CPU jobs.
    #[must_use]
    pub fn without_gpu() -> Self {
        Self::Parameter(WITHOUT_GPU.to_owned())
    }

    /// Returns the source with the architecture filled in.
    #[must_use]
    pub fn for_architecture(&self, architecture: &str) -> Self {
        match self {
            Self::Image(_) => self.clone(),
            Self::Parameter(name) => Self::Parameter(name.replace(ARCHITECTURE, architecture)),
        }
    }
}

impl Default for ImageSource {
    fn default() -> Self {
        Self::Parameter(DEFAULT.to_owned())
    }
}

impl FromStr for ImageSource {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if !text.starts_with('/') {
            let refused = |_| {
                InvalidValue::new(format!(
                    "{text:?} names no image; write the id of one (`ami-0123456789abcdef0`), or the name of a parameter, from `/` on, that holds it"
                ))
            };
            return check_ami(text).map(|()| Self::Image(ResourceId::from(text))).map_err(refused);
        }
        if !READABLE.iter().any(|prefix| text.starts_with(prefix)) {
            let readable = READABLE.map(|prefix| format!("`{prefix}`")).join(" or ");
            return Err(InvalidValue::new(format!(
                "run-jobs may not read the parameter {text:?}; its name has to begin with {readable}"
            )));
        }
        let name = text.replace(ARCHITECTURE, "");
        let is_legal = |one: char| one.is_ascii_alphanumeric() || matches!(one, '/' | '.' | '-' | '_');
        if let Some(illegal) = name.chars().find(|one| !is_legal(*one)) {
            return Err(InvalidValue::new(format!(
                "the name of the parameter {text:?} has {illegal:?}; write letters, digits, `/`, `.`, `-`, `_` and `{ARCHITECTURE}`"
            )));
        }
        if text.len() > NAME_CHARACTERS_MAX {
            return Err(InvalidValue::new(format!(
                "the name of the parameter has {} characters; write {NAME_CHARACTERS_MAX} at most",
                text.len()
            )));
        }
        Ok(Self::Parameter(text.to_owned()))
    }
}

impl Display for ImageSource {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(id) => id.fmt(formatter),
            Self::Parameter(name) => name.fmt(formatter),
        }
    }
}

impl Serialize for ImageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Checks the id of an image in `machine.ami` or `[jobs] image`: a prefix, and 8 or 17 hex digits (EC2 user guide, "Resource IDs").
///
/// # Errors
/// It is not the id of an image.
pub fn check_ami(text: &str) -> Result<(), InvalidValue> {
    check_id(text, "ami", "an image")
}

/// EC2 user guide, "Resource IDs": a prefix, and 8 or 17 hex digits.
///
/// # Errors
/// It is not the id of such a resource.
pub fn check_id(text: &str, prefix: &str, what: &str) -> Result<(), InvalidValue> {
    let is_one = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).is_some_and(|digits| {
        matches!(digits.len(), 8 | 17)
            && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    if is_one {
        return Ok(());
    }
    Err(InvalidValue::new(format!("{text:?} is not the id of {what}, such as `{prefix}-0123456789abcdef0`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&str, &str>) {
        let read = text.parse::<ImageSource>().map(|source| source.for_architecture("arm64").to_string());
        match expect {
            Ok(shown) => assert_eq!(read.as_deref(), Ok(shown), "{text}"),
            Err(why) => {
                assert!(read.as_ref().is_err_and(|refused| refused.to_string().contains(why)), "{text}: {read:?}");
            }
        }
    }

    #[test]
    fn an_image_or_a_parameter_that_may_be_read() {
        check("ami-0123456789abcdef0", Ok("ami-0123456789abcdef0"));
        check(DEFAULT, Ok("/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"));
        check("/curfew/images/gpu", Ok("/curfew/images/gpu"));
        check("/curfew/images/{architecture}/gpu_1", Ok("/curfew/images/arm64/gpu_1"));
        assert_eq!(DEFAULT.parse(), Ok(ImageSource::default()));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_legal() {
        check("", Err("`ami-0123456789abcdef0`"));
        check("ami-123", Err("names no image"));
        check("ami-0123456789ABCDEF0", Err("names no image"));
        check("resolve:ssm:/curfew/images/gpu", Err("from `/` on"));
        check("/golden/gpu", Err("begin with `/aws/service/deeplearning/` or `/curfew/images/`"));
        check("/curfew/imagesx", Err("may not read"));
        check("/curfew/images/{arch}", Err("has '{'"));
        check("/curfew/images/a b", Err("has ' '"));
        check("/curfew/images/*", Err("has '*'"));
        check(&format!("/curfew/images/{}", "x".repeat(1_000)), Err("has 1015 characters; write 900 at most"));
    }
}
