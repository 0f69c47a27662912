//! The folders of teams, of any size.

use jobs::backlog::{Backlog, Bookmarks};
use model::listing::{ListPart, ListedObject};

use crate::bucket::ListDepth;
use crate::document::StoredDocument;
use crate::{BacklogDocuments, Store, StoreError, Versioned};

/// A list of this length takes five calls. Above it, each team's folder is listed by itself.
const LISTED_MAX: usize = 5_000;

/// Pages of a list (Amazon S3 API reference, "`ListObjectsV2`").
const TEAMS_PAGES_MAX: usize = 1;
const TEAM_PAGES_MAX: usize = 5;

/// Jobs stay under `jobs/` for ever.
const JOBS_PAGES_MAX: usize = 30;

impl StoredDocument for Bookmarks {
    const IF_LOST: &'static str = "what is too much for one run is then looked at from its beginning";
}

impl BacklogDocuments for Store {
    async fn list_backlog(&self, backlog: Backlog) -> Result<Option<Vec<ListedObject>>, StoreError> {
        match self.bucket.list(backlog.as_str(), LISTED_MAX).await {
            Ok(all) => Ok(Some(all)),
            Err(StoreError::TooMany { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list_team_folders(&self, backlog: Backlog, after: Option<&str>) -> Result<ListPart<String>, StoreError> {
        let top = backlog.as_str();
        let ListPart { items, stopped_at } =
            self.bucket.list_part(top, ListDepth::Children, after, TEAMS_PAGES_MAX).await?;
        let folders = items.into_iter().map(|item| item.key).filter(|key| key.ends_with('/') && key != top);
        Ok(ListPart { items: folders.collect(), stopped_at })
    }

    async fn list_team_part(
        &self,
        backlog: Backlog,
        folder: &str,
        after: Option<&str>,
    ) -> Result<ListPart<ListedObject>, StoreError> {
        let is_first_look = backlog == Backlog::Jobs && after.is_none();
        let pages_max = if is_first_look { JOBS_PAGES_MAX } else { TEAM_PAGES_MAX };
        self.bucket.list_part(folder, depth(backlog, folder), after, pages_max).await
    }

    async fn read_bookmarks(&self, function: &str) -> Result<Versioned<Bookmarks>, StoreError> {
        self.read_cache(&bookmarks_key(function)).await
    }

    async fn write_bookmarks(&self, function: &str, bookmarks: &Versioned<Bookmarks>) -> Result<(), StoreError> {
        self.write_cache(&bookmarks_key(function), &bookmarks.value, bookmarks.etag.as_deref()).await.map(drop)
    }
}

/// Folders for the jobs of a team; objects otherwise.
fn depth(backlog: Backlog, folder: &str) -> ListDepth {
    if backlog == Backlog::Jobs || folder == backlog.as_str() { ListDepth::Children } else { ListDepth::All }
}

fn bookmarks_key(function: &str) -> String {
    format!("notices/{function}/bookmarks.json")
}
