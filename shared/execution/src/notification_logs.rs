//! What earlier runs told, read before and written after.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use model::id::Region;
use model::notification_log::{NotificationLogs, UndeliveredParagraph};
use model::observation::{Gap, GapKind};
use ports::{Cloud, Documents, StoreError, Versioned};

use crate::{AT_ONCE, Run};

/// Whoever loses so often does not lose to another run.
const OWE_TRIES_MAX: usize = 3;

/// What earlier runs told, and what could not be read of it.
pub struct RecalledLogs {
    /// By region; a region whose notices could not be read is absent, and must not be judged: people would be told twice.
    pub memory: NotificationLogs,
    /// Where notices could not be read.
    pub gaps: Vec<Gap>,
    asked: Vec<Region>,
    home: Region,
    /// The versions that were read, by which the next are written.
    etags: BTreeMap<Region, Option<String>>,
}

impl RecalledLogs {
    /// The region with which faults of the account are remembered: the home region, or where its notices could not be
    /// read, another one; without any memory a fault could not be told just once a day.
    #[must_use]
    pub fn home(&self) -> &Region {
        let remembered = self.memory.contains_key(&self.home);
        self.memory.keys().next().filter(|_| !remembered).unwrap_or(&self.home)
    }

    /// The regions that may be judged.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.asked.iter().filter(|region| self.memory.contains_key(*region)).cloned().collect()
    }
}

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Reads what was told about these regions, and about the account with the home region.
    pub async fn recall(&self, regions: &[Region]) -> RecalledLogs {
        let home = self.cloud.home().clone();
        let with_home: BTreeSet<Region> = regions.iter().cloned().chain([home.clone()]).collect();
        let reads = stream::iter(with_home).map(|region| async move {
            let read = self.store.read_notices(self.function, &region).await;
            (region, read)
        });
        let mut recalled = RecalledLogs {
            memory: NotificationLogs::new(),
            gaps: Vec::new(),
            asked: regions.to_vec(),
            home,
            etags: BTreeMap::new(),
        };
        for (region, read) in reads.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            match read {
                Ok(Versioned { value, etag }) => {
                    recalled.memory.insert(region.clone(), value);
                    recalled.etags.insert(region, etag);
                }
                Err(error) => recalled.gaps.push(Box::pin(self.gap_of_notices(error, &region)).await),
            }
        }
        recalled
    }

    /// A region that is not judged in this run, because its notices could not be read. Where no run ever could read them, they begin anew:
    /// from the next run on the region is judged, and people are notified again what they may have heard.
    async fn gap_of_notices(&self, error: StoreError, region: &Region) -> Gap {
        let mut gap = Gap { kind: GapKind::Region, ..error.gap(region) };
        if error.is_unreadable() {
            let restarted = self.store.restart_notices(self.function, region).await;
            gap.error = match restarted {
                Ok(_) => format!(
                    "{error}. Curfew has replaced it with an empty one: messages are repeated, and nothing else happens"
                ),
                Err(why) => format!("{error}. Curfew could not replace it with an empty one: {why}"),
            };
        }
        gap
    }

    /// Writes what has changed.
    pub(crate) async fn write_notices(&self, recalled: &RecalledLogs, after: &NotificationLogs) -> Vec<Gap> {
        let changed = after.iter().filter(|(region, notices)| recalled.memory.get(*region) != Some(*notices));
        let writes = stream::iter(changed).map(|(region, notices)| async move {
            let last = recalled.etags.get(region).and_then(Option::as_deref);
            let written = self.store.write_notices(self.function, region, notices, last).await;
            match written {
                Ok(()) => None,
                // Of two runs at once one loses, quietly: what it told may be told once more. What it owes no later run sees.
                Err(error @ StoreError::Lost { .. }) => {
                    tracing::warn!(region = region.as_str(), "{error}");
                    let before =
                        recalled.memory.get(region).map(|notices| notices.undelivered.as_slice()).unwrap_or_default();
                    let new = notices.undelivered.iter().filter(|owed| !before.contains(owed)).cloned().collect();
                    self.add_undelivered(region, new).await.err().map(|error| error.gap(region))
                }
                Err(error) => Some(error.gap(region)),
            }
        });
        writes.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    /// Adds to what is owed by now, whoever wrote that.
    async fn add_undelivered(&self, region: &Region, new: Vec<UndeliveredParagraph>) -> Result<(), StoreError> {
        let mut tries = 1..=OWE_TRIES_MAX;
        while !new.is_empty() {
            let Versioned { mut value, etag } = self.store.read_notices(self.function, region).await?;
            value.undelivered.extend(new.iter().cloned());
            let written = self.store.write_notices(self.function, region, &value, etag.as_deref()).await;
            match written {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return written,
            }
        }
        Ok(())
    }
}
