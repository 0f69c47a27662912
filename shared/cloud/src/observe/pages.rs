//! Pagination, to the last page or to a limit.

use model::id::Region;

use crate::error::{CallError, CallErrorKind};

/// Resources of a page. The maximum of `DescribeInstances`, `DescribeVolumes` and `DescribeSnapshots`; one with a lower maximum accepts the
/// number all the same (EC2 API reference, "Pagination" and `MaxResults` of each).
pub(crate) const PAGE_SIZE: i32 = 1000;
/// The most pages that are read of one list of one region.
const PAGES_MAX: usize = 200;

/// Calls `read` for every page: it takes the page's token and returns the next one.
pub(crate) async fn all_pages(
    call: &'static str,
    region: &Region,
    mut read: impl AsyncFnMut(Option<String>) -> Result<Option<String>, CallError>,
) -> Result<(), CallError> {
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let next = read(token.clone()).await?.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(());
        }
        if next == token {
            return Err(endless(call, region, "the next page has the token of this one".to_owned()));
        }
        token = next;
    }
    Err(endless(call, region, format!("more than {PAGES_MAX} pages of {PAGE_SIZE}: more than any account should have")))
}

fn endless(call: &'static str, region: &Region, message: String) -> CallError {
    CallError::new(call, region, CallErrorKind::Other, message)
}
