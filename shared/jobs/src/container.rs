//! The image of the container that runs a job's command: pinned by its digest, so that every attempt runs the same one.

mod ecr;

use std::fmt;
use std::ops::Range;

use model::digest::is_sha256_hex;
use model::fault::InvalidValue;
use serde::Deserialize;
use toml::Spanned;

pub use ecr::EcrRegistry;

/// The registry of an image that names none (distribution specification, "reference" of the Docker CLI).
const DOCKER_HUB: &str = "docker.io";

/// OCI distribution specification, "Pulling manifests": the longest tag.
const TAG_CHARACTERS_MAX: usize = 128;

/// Registries refuse longer names.
const NAME_CHARACTERS_MAX: usize = 255;

const DIGEST: &str = "sha256:";

/// An image as people name it: `pytorch/pytorch:2.9`, `public.ecr.aws/…`, with a tag, a digest or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// The host, with its port if it has one.
    pub registry: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

/// An image that is pinned: `registry/repository@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerImage(ImageReference);

impl ImageReference {
    /// # Errors
    /// If it names no image.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let wrong = || {
            InvalidValue::new(format!(
                "{text:?} names no image; write it as `public.ecr.aws/docker/library/python:3.13` or `pytorch/pytorch:2.9.0-cuda12.8`, and by \
                 its digest as `IMAGE@{DIGEST}…`"
            ))
        };
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        let (host, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (DOCKER_HUB, name),
        };
        let (path, tag) = path.split_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
        let is_legal = is_host(host)
            && path.split('/').all(is_component)
            && host.len() + path.len() < NAME_CHARACTERS_MAX
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_legal {
            return Err(wrong());
        }
        let is_official = host == DOCKER_HUB && !path.contains('/');
        let repository = if is_official { format!("library/{path}") } else { path.to_owned() };
        Ok(Self {
            registry: host.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// Pins the image to a digest that its registry has named; `None` if that is no digest.
    #[must_use]
    pub fn pin(self, digest: &str) -> Option<ContainerImage> {
        is_digest(digest).then(|| ContainerImage(Self { tag: None, digest: Some(digest.to_owned()), ..self }))
    }

    /// Its private registry of Amazon ECR; `None` if it comes from elsewhere.
    #[must_use]
    pub fn ecr(&self) -> Option<EcrRegistry> {
        EcrRegistry::find(&self.registry)
    }
}

impl ContainerImage {
    /// Reads an image as the document of a job writes it.
    ///
    /// # Errors
    /// If it names no image, or has no digest.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let image = ImageReference::read(text)?;
        let digest = image.digest.clone();
        digest.and_then(|digest| image.pin(&digest)).ok_or_else(|| {
            InvalidValue::new(format!(
                "{text:?} has no digest, and another image may get its tag between two attempts. `curfew submit` and `curfew run` write the \
                 digest; in a document that is put into the inbox write `IMAGE@{DIGEST}…`, as `docker buildx imagetools inspect` shows it"
            ))
        })
    }

    /// The image and its registry.
    #[must_use]
    pub const fn reference(&self) -> &ImageReference {
        &self.0
    }
}

impl fmt::Display for ContainerImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImageReference { registry, repository, digest, .. } = &self.0;
        write!(formatter, "{registry}/{repository}@{}", digest.as_deref().unwrap_or_default())
    }
}

/// The image of a document that has no digest yet, and the bytes at which the document names it. `None` if there is nothing to pin, or the
/// document is wrong: its reader finds out why.
#[must_use]
pub fn find_unpinned(document: &[u8]) -> Option<(Range<usize>, ImageReference)> {
    #[derive(Deserialize)]
    struct Part {
        container: Spanned<String>,
    }
    let part: Part = toml::from_str(std::str::from_utf8(document).ok()?).ok()?;
    let image = ImageReference::read(part.container.get_ref()).ok()?;
    image.digest.is_none().then(|| (part.container.span(), image))
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        let ends = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
        ends(label.chars().next())
            && ends(label.chars().last())
            && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')
    };
    name.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_component(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_lowercase() || end.is_ascii_digit());
    let is_legal = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "._-".contains(one);
    is_end(name.chars().next()) && is_end(name.chars().last()) && name.chars().all(is_legal)
}

fn is_tag(tag: &str) -> bool {
    let begins = tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    begins
        && tag.len() <= TAG_CHARACTERS_MAX
        && tag.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one))
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix(DIGEST).is_some_and(is_sha256_hex)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest() -> String {
        format!("sha256:{}", "0123456789abcdef".repeat(4))
    }

    fn check(text: &str, expect: Option<(&str, &str, Option<&str>)>) {
        let read = ImageReference::read(text);
        let parts =
            read.as_ref().ok().map(|read| (read.registry.as_str(), read.repository.as_str(), read.tag.as_deref()));
        assert_eq!(parts, expect, "{text}: {read:?}");
    }

    #[test]
    fn an_image_is_named_as_by_docker() {
        check("ubuntu", Some(("docker.io", "library/ubuntu", None)));
        check("pytorch/pytorch:2.9.0-cuda12.8", Some(("docker.io", "pytorch/pytorch", Some("2.9.0-cuda12.8"))));
        check(
            "public.ecr.aws/docker/library/python:3.13",
            Some(("public.ecr.aws", "docker/library/python", Some("3.13"))),
        );
        check("localhost:5000/a/b", Some(("localhost:5000", "a/b", None)));
        check(
            &format!("nvcr.io/nvidia/pytorch:26.01@{}", digest()),
            Some(("nvcr.io", "nvidia/pytorch", Some("26.01"))),
        );
        for wrong in [
            "",
            ":tag",
            "a:",
            "A/b",
            "a//b",
            "/a",
            "a/",
            "-a",
            "--privileged",
            "a b",
            "a@sha256:1",
            "a@sha512:00",
            "host:port/a",
            "a.b:1:2/c",
            "a..b/c",
            "a:-x",
            "a\n",
            "https://a.b/c",
            "a:\u{e9}",
        ] {
            check(wrong, None);
        }
        check(&"a".repeat(255), None);
    }

    #[test]
    fn a_document_names_a_digest() {
        let pinned = ContainerImage::read(&format!("ubuntu:24.04@{}", digest())).unwrap();
        assert_eq!(
            pinned.to_string(),
            format!("docker.io/library/ubuntu@{}", digest()),
            "without the tag, which says nothing"
        );
        assert_eq!(ContainerImage::read(&pinned.to_string()).unwrap(), pinned);
        assert!(ContainerImage::read("ubuntu:24.04").unwrap_err().to_string().contains("has no digest"));
        assert_eq!(ImageReference::read("ubuntu").unwrap().pin("sha256:0"), None);
    }

    #[test]
    fn only_an_image_without_a_digest_is_pinned() {
        let check = |document: &str, expect: Option<&str>| {
            let found = find_unpinned(document.as_bytes());
            assert_eq!(found.as_ref().map(|(range, _)| &document[range.clone()]), expect, "{found:?}");
        };
        check("# größe\ncommand = \"a\"\ncontainer = 'ubuntu:24.04' # note\n[gpu]\n", Some("'ubuntu:24.04'"));
        check("\u{feff}container = \"ubuntu\"\n", Some("\"ubuntu\""));
        check(&format!("container = \"ubuntu@{}\"", digest()), None);
        check("container = \"--privileged\"", None);
        check("container = 1", None);
        check("command = \"a\"", None);
        check("container = \"", None);
    }

    proptest! {
        /// No legal image begins as an option of a program does, or has a blank.
        #[test]
        fn an_image_is_one_word_of_a_command(text in "[a-zA-Z0-9./:@_ $;-]{0,24}") {
            if let Some(pinned) = ImageReference::read(&text).ok().and_then(|image| image.pin(&digest())) {
                let shown = pinned.to_string();
                prop_assert!(!shown.starts_with('-') && !shown.contains(char::is_whitespace) && !shown.contains(['$', ';']));
            }
        }
    }
}
