//! The container of a job: its image is pinned when the job is submitted.

use cloud::operator::find_digest;
use jobs::{ContainerImage, find_unpinned};
use model::document::quoted;

use crate::command_error::CommandError;
use crate::context::CommandContext;
use crate::screen;

/// The document with the digest that the tag of its image has now. One that names a digest, or no image, stays as it is.
pub(super) async fn pin_image(context: &CommandContext, document: Vec<u8>) -> Result<Vec<u8>, CommandError> {
    let Some((place, image)) = find_unpinned(&document) else { return Ok(document) };
    let written = String::from_utf8_lossy(&document[place.clone()]).into_owned();
    let cannot = |why: String| {
        CommandError::with(
            format!("the image {written} of the job has no digest that could be pinned: {why}"),
            "check its name; or write the digest yourself, as IMAGE@sha256:…",
        )
    };
    let digest = Box::pin(find_digest(&context.aws, &image)).await.map_err(|error| cannot(error.to_string()))?;
    let pinned: ContainerImage =
        image.pin(&digest).ok_or_else(|| cannot(format!("its registry answers {digest:?}")))?;
    screen::progress(format!("pinned the image to {pinned}"));
    let pinned = quoted(&pinned.to_string());
    Ok([&document[..place.start], pinned.as_bytes(), &document[place.end..]].concat())
}
