//! The notification logs of earlier runs, read before a run and written after it.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use model::id::Region;
use model::notification_log::{NotificationLog, NotificationLogs, UndeliveredParagraph};
use model::observation::{Gap, GapKind};
use ports::{Cloud, Documents, StoreError, Versioned};

use crate::{AT_ONCE, Run};

/// Limit of lost swaps in a row, after which the cause is not another run.
const OWE_TRIES_MAX: usize = 10;

/// The logs of earlier runs, and the gaps.
pub struct RecalledLogs {
    /// The log of each region. A region without a readable log is absent, and must not be judged: people would be notified twice.
    pub memory: NotificationLogs,
    /// The regions whose log could not be read.
    pub gaps: Vec<Gap>,
    asked: Vec<Region>,
    home: Region,
    /// The versions that were read, for the next write.
    etags: BTreeMap<Region, Option<String>>,
}

impl RecalledLogs {
    /// The region whose log has faults of the account: the home region, or another one if that log could not be read. Without any log a fault could
    /// not be limited to one notification a day.
    #[must_use]
    pub fn home(&self) -> &Region {
        let has_home = self.memory.contains_key(&self.home);
        self.memory.keys().next().filter(|_| !has_home).unwrap_or(&self.home)
    }

    /// The regions that may be judged.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.asked.iter().filter(|region| self.memory.contains_key(*region)).cloned().collect()
    }
}

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Reads the logs of these regions, and the account's with the home region.
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

    /// A region that this run does not judge, because its log could not be read. If no run can ever read it, a new log begins: from the next run on
    /// the region is judged, and people are notified again.
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

    /// Writes the log of a region over the version that was read, so that the next write replaces this one.
    pub(crate) async fn write_log(
        &self,
        recalled: &mut RecalledLogs,
        region: &Region,
        log: NotificationLog,
    ) -> Result<(), StoreError> {
        let last = recalled.etags.get(region).and_then(Option::as_deref);
        let etag = self.store.write_notices(self.function, region, &log, last).await?;
        recalled.etags.insert(region.clone(), etag);
        recalled.memory.insert(region.clone(), log);
        Ok(())
    }

    /// Writes the logs that have changed.
    pub(crate) async fn write_notices(&self, recalled: &RecalledLogs, after: &NotificationLogs) -> Vec<Gap> {
        let changed = after.iter().filter(|(region, notices)| recalled.memory.get(*region) != Some(*notices));
        let writes = stream::iter(changed).map(|(region, notices)| async move {
            let last = recalled.etags.get(region).and_then(Option::as_deref);
            let written = self.store.write_notices(self.function, region, notices, last).await;
            match written {
                Ok(_) => None,
                // Of two runs at once one loses the swap: its notifications may be sent once more, and no later run sees what it owes.
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

    /// Adds to the pending notifications in the log, whichever run wrote them.
    async fn add_undelivered(&self, region: &Region, new: Vec<UndeliveredParagraph>) -> Result<(), StoreError> {
        let mut tries = 1..=OWE_TRIES_MAX;
        while !new.is_empty() {
            let Versioned { mut value, etag } = self.store.read_notices(self.function, region).await?;
            value.undelivered.extend(new.iter().cloned());
            let written = self.store.write_notices(self.function, region, &value, etag.as_deref()).await;
            match written {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return written.map(drop),
            }
        }
        Ok(())
    }
}
