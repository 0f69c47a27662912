//! Page after page, to the last or to a limit.

use model::id::Region;

use crate::error::{CallError, CallErrorKind};

/// Resources of a page. The most that `DescribeInstances`, `DescribeVolumes` and `DescribeSnapshots` give; where one gives
/// fewer it takes the number all the same (EC2 API reference, "Pagination" and `MaxResults` of each).
pub(crate) const PAGE_SIZE: i32 = 1000;
/// So many pages are read of one list of one region, and no more.
const PAGES_MAX: usize = 200;

/// Has `read` read every page: it is given the page's token and gives the next one's.
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
    Err(endless(call, region, format!("more than {PAGES_MAX} pages of {PAGE_SIZE}, which nobody has foreseen")))
}

fn endless(call: &'static str, region: &Region, message: String) -> CallError {
    CallError { call, region: region.clone(), kind: CallErrorKind::Other, message }
}
