//! Objects by their names, page by page.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::operation::list_objects_v2::builders::ListObjectsV2FluentBuilder;
use aws_sdk_s3::types::EncodingType;
use jiff::Timestamp;
use model::listing::{ListPart, ListedObject};
use model::team_folder::decode_folder;

use super::{Bucket, LIST, moment};
use crate::StoreError;

/// Sorts after all other names of a folder: S3 orders keys by their bytes in UTF-8 (Amazon S3 user guide, "Listing object keys
/// programmatically").
const LAST: char = char::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListDepth {
    /// Every object.
    All,
    /// Objects and folders directly under the prefix, which ends in `/`.
    Children,
    /// Every object that lies below no folder `files/`; each of these folders once, as its path.
    OutsideFiles,
}

impl ListDepth {
    /// Keys with the same text up to this one are one item of a listing (Amazon S3 API reference, "`ListObjectsV2`", delimiter).
    const fn delimiter(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Children => Some("/"),
            Self::OutsideFiles => Some("/files/"),
        }
    }
}

impl Bucket {
    /// Every object with that prefix, in order of keys.
    pub(crate) async fn list(&self, prefix: &str, keys_max: usize) -> Result<Vec<ListedObject>, StoreError> {
        let mut pages = self.listing(prefix, ListDepth::All, None).into_paginator().send();
        let mut all = Vec::new();
        // Pages of 1,000 keys (Amazon S3 API reference, "ListObjectsV2").
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            all.extend(items(page));
            if all.len() > keys_max {
                return Err(StoreError::TooMany { address: self.address(prefix), keys_max });
            }
        }
        Ok(all)
    }

    /// Passes every object with that prefix to `each`, a page at a time, up to a number of pages. Returns whether that were all.
    pub(crate) async fn each_listed(
        &self,
        prefix: &str,
        pages_max: usize,
        mut each: impl FnMut(ListedObject),
    ) -> Result<bool, StoreError> {
        let mut pages = self.listing(prefix, ListDepth::All, None).into_paginator().send();
        for _ in 0..pages_max {
            let Some(page) = pages.next().await else { return Ok(true) };
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            let is_last = page.is_truncated() != Some(true);
            items(page).into_iter().for_each(&mut each);
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn list_first(&self, prefix: &str) -> Result<Option<String>, StoreError> {
        let page = self.listing(prefix, ListDepth::All, None).max_keys(1).send().await;
        let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
        Ok(items(page).into_iter().next().map(|item| item.key))
    }

    /// The time of the write of an object by a list, for callers that may not read it; `None` if there is none at that key.
    pub(crate) async fn listed_at(&self, key: &str) -> Result<Option<Timestamp>, StoreError> {
        let page = self.listing(key, ListDepth::All, None).max_keys(1).send().await;
        let page = page.map_err(|error| self.failed(LIST, key, &error))?;
        // A key comes before all that begin with it.
        Ok(items(page).into_iter().next().filter(|one| one.key == key).map(|one| one.written_at))
    }

    /// Every folder directly under that one, in order, with its full path; all end in `/`.
    pub(crate) async fn folders(&self, prefix: &str, folders_max: usize) -> Result<Vec<String>, StoreError> {
        let mut pages = self.listing(prefix, ListDepth::Children, None).into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            let children = items(page).into_iter().map(|item| item.key);
            all.extend(children.filter(|key| key.ends_with('/') && key != prefix));
            if all.len() > folders_max {
                return Err(StoreError::TooMany { address: self.address(prefix), keys_max: folders_max });
            }
        }
        Ok(all)
    }

    /// A number of pages of a prefix: those after that key, and then those up to it.
    pub(crate) async fn list_part(
        &self,
        prefix: &str,
        depth: ListDepth,
        after: Option<&str>,
        pages_max: usize,
    ) -> Result<ListPart<ListedObject>, StoreError> {
        let ranges = match after.filter(|after| !after.is_empty()) {
            Some(after) => vec![(Some(after), None), (None, Some(after))],
            None => vec![(None, None)],
        };
        let (mut all, mut pages_left) = (Vec::new(), pages_max);
        for (after, until) in ranges {
            let mut pages = self.listing(prefix, depth, after).into_paginator().send();
            let mut last = after.unwrap_or_default().to_owned();
            loop {
                if pages_left == 0 {
                    return Ok(ListPart { items: all, stopped_at: Some(last) });
                }
                let Some(page) = pages.next().await else { break };
                let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
                let is_truncated = page.is_truncated() == Some(true);
                pages_left -= 1;
                let is_wanted = |item: &ListedObject| until.is_none_or(|until| item.key.as_str() <= until);
                let items = items(page);
                let is_over = items.last().is_some_and(|item| !is_wanted(item));
                if let Some(item) = items.last() {
                    last.clone_from(&item.key);
                }
                all.extend(items.into_iter().filter(is_wanted));
                if is_over || !is_truncated {
                    break;
                }
            }
        }
        Ok(ListPart { items: all, stopped_at: None })
    }

    /// The keys are encoded: control characters, which anybody may write, have no form in XML, and would make the whole page unreadable
    /// (Amazon S3 API reference, "`ListObjectsV2`", encoding-type).
    pub(super) fn listing(&self, prefix: &str, depth: ListDepth, after: Option<&str>) -> ListObjectsV2FluentBuilder {
        let is_folder = |key: &str| depth == ListDepth::Children && key.ends_with('/');
        // A folder is listed again while it has a later key.
        let after = after.map(|after| if is_folder(after) { format!("{after}{LAST}") } else { after.to_owned() });
        let listing = self.client.list_objects_v2().bucket(&self.name).prefix(prefix);
        let delimiter = depth.delimiter().map(str::to_owned);
        listing.encoding_type(EncodingType::Url).set_start_after(after).set_delimiter(delimiter)
    }
}

/// Objects and folders of a page, in order of keys.
fn items(page: ListObjectsV2Output) -> Vec<ListedObject> {
    let named = key_decoder(&page);
    let objects = page.contents.unwrap_or_default().into_iter().filter_map(|object| {
        let written_at = moment(object.last_modified.as_ref());
        let bytes = object.size.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
        object.key.map(|key| ListedObject { key: named(key), written_at, bytes })
    });
    let folders = page.common_prefixes.unwrap_or_default().into_iter().filter_map(|folder| folder.prefix);
    let folders = folders.map(|key| ListedObject { key: named(key), written_at: Timestamp::MIN, bytes: 0 });
    let mut items: Vec<ListedObject> = objects.chain(folders).collect();
    items.sort_by(|one, other| one.key.cmp(&other.key));
    items
}

/// Gives the keys of a page as they are.
pub(super) fn key_decoder(page: &ListObjectsV2Output) -> impl Fn(String) -> String + use<> {
    let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
    move |key| if is_encoded { decoded(&key).unwrap_or(key) } else { key }
}

/// A key that S3 has encoded as forms are.
fn decoded(key: &str) -> Option<String> {
    decode_folder(&key.replace('+', " "))
}
