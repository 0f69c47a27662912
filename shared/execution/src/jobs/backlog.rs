//! A fair share of each team's folder, whatever the size of the others.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jobs::backlog::{Backlog, Bookmarks};
use jobs::{BacklogQueue, QueueItem, QueueShares, ShareLimits, backlog};
use model::id::TeamName;
use model::listing::ListedObject;
use model::notification_log::{
    Headline, HeadlineObject, NO_TEAM, Notification, NotificationFacts, NotificationKey, NotificationKind, Paragraph,
    RepeatPolicy, Severity,
};
use ports::{JobCloud, StoreError};

use super::{JobRunDocuments, JobsRun};
use crate::AT_ONCE;

type Queues<T> = BTreeMap<String, BacklogQueue<T>>;

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Takes a share of each team's folder. `read` selects the pending entries of a list: it gets the folder, the list, and whether earlier runs
    /// could not take the whole folder either. A folder that cannot be listed is a gap.
    pub(super) async fn take_backlog<T: QueueItem>(
        &self,
        backlog: Backlog,
        limits: ShareLimits,
        read: impl Fn(&str, Vec<ListedObject>, bool) -> Vec<T>,
    ) -> Vec<T> {
        match self.share_backlog(backlog, limits, read).await {
            Ok(shares) => {
                self.notify_of_backlog(backlog, limits, &shares);
                shares.taken
            }
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                Vec::new()
            }
        }
    }

    /// A list within the limit is taken at once. Otherwise bookmarks say where the next run continues.
    async fn share_backlog<T: QueueItem>(
        &self,
        backlog: Backlog,
        limits: ShareLimits,
        read: impl Fn(&str, Vec<ListedObject>, bool) -> Vec<T>,
    ) -> Result<QueueShares<T>, StoreError> {
        let (store, function) = (self.run.store, self.run.function);
        // Each job is in its team's folder.
        let whole = if backlog == Backlog::Jobs { None } else { store.list_backlog(backlog).await? };
        let whole = whole.map(|listed| split(backlog, listed, &read));
        if whole.as_ref().is_some_and(|queues| limits.admit(queues)) {
            return Ok(backlog::take_shares(whole.unwrap_or_default(), limits, self.now()));
        }
        let mut bookmarks = store.read_bookmarks(function).await?;
        let before = bookmarks.value.clone();
        let queues = match whole {
            Some(queues) => {
                bookmarks.value.after.retain(|folder, _| !folder.starts_with(backlog.as_str()));
                let resume = |(folder, queue): (String, BacklogQueue<T>)| {
                    let queue = queue.resume(before.after.get(&folder).cloned());
                    (folder, queue)
                };
                queues.into_iter().map(resume).collect()
            }
            None => self.list_teams(backlog, &mut bookmarks.value, &read).await?,
        };
        bookmarks.value.after.retain(|folder, _| !queues.contains_key(folder));
        let shares = backlog::take_shares(queues, limits, self.now());
        bookmarks.value.after.extend(shares.bookmarks.clone());
        if bookmarks.value != before {
            store.write_bookmarks(function, &bookmarks).await?;
        }
        Ok(shares)
    }

    /// Each team's folder by itself, several at once: a failure affects only that team.
    async fn list_teams<T: QueueItem>(
        &self,
        backlog: Backlog,
        bookmarks: &mut Bookmarks,
        read: impl Fn(&str, Vec<ListedObject>, bool) -> Vec<T>,
    ) -> Result<Queues<T>, StoreError> {
        let (store, top) = (self.run.store, backlog.as_str());
        let teams_bookmark = top.trim_end_matches('/').to_owned();
        let teams = store.list_team_folders(backlog, bookmarks.after.get(&teams_bookmark).map(String::as_str)).await?;
        let before = bookmarks.clone();
        match teams.stopped_at {
            Some(folder) => drop(bookmarks.after.insert(teams_bookmark, folder)),
            None => drop(bookmarks.after.remove(&teams_bookmark)),
        }
        // Objects outside of all team folders get an answer too.
        let rest = (backlog == Backlog::Inbox).then(|| top.to_owned());
        let lists = stream::iter(teams.items.into_iter().chain(rest)).map(|folder| {
            let bookmark = before.after.get(&folder).cloned();
            async move {
                self.time_left()?;
                let part = store.list_team_part(backlog, &folder, bookmark.as_deref()).await;
                Some((folder, bookmark, part))
            }
        });
        let mut lists = lists.buffered(AT_ONCE).filter_map(std::future::ready).boxed_local();
        let mut queues = Queues::new();
        while let Some((folder, bookmark, part)) = lists.next().await {
            match part {
                Ok(part) => {
                    let waiting = read(&folder, part.items, bookmark.is_some());
                    queues.insert(folder, BacklogQueue { waiting, bookmark, stopped_at: part.stopped_at });
                }
                Err(error) => self.gap(error.gap(self.run.cloud.home())),
            }
        }
        Ok(queues)
    }

    /// Notifies a team that has more than its share, once a day.
    fn notify_of_backlog<T>(&self, backlog: Backlog, limits: ShareLimits, shares: &QueueShares<T>) {
        for folder in shares.bookmarks.keys() {
            let left = shares.left.get(folder).copied().unwrap_or_default();
            tracing::warn!(folder, left, "more entries than one run takes; later runs continue");
            let (what, remedy) = match backlog {
                Backlog::Inbox => ("documents to answer", "delete unneeded ones"),
                Backlog::Active => ("unfinished jobs", "cancel unneeded ones with `curfew cancel`"),
                // Almost all of them are finished.
                Backlog::Jobs => continue,
            };
            let listed = if left == 0 { String::new() } else { format!("; {left} of the listed ones wait") };
            let text = format!(
                "s3://{}/{folder} has more {what} than one run takes, which is {} of a team{listed}. Later runs continue with \
                 them; other teams do not wait. To shorten the wait, {remedy}.",
                self.run.store.bucket_name(),
                limits.team_max,
            );
            let sentence = "Curfew leaves a part of {} to later runs";
            self.notify(self.lasting_notification(backlog, folder, "backlog", (sentence, text)));
        }
    }

    /// A notification about a folder, once a day to its team.
    pub(super) fn lasting_notification(
        &self,
        backlog: Backlog,
        folder: &str,
        topic: &str,
        (sentence, text): (&'static str, String),
    ) -> Notification {
        let team = backlog.team(folder);
        let folder = (HeadlineObject::Folder, folder);
        self.daily_notification(team.as_ref(), folder, (topic, String::new()), (sentence, text))
    }

    /// A notification about an object or a folder of the bucket to its team: once a day, and at once where `what` is another.
    pub(super) fn daily_notification(
        &self,
        team: Option<&TeamName>,
        (object, place): (HeadlineObject, &str),
        (topic, what): (&str, String),
        (sentence, text): (&'static str, String),
    ) -> Notification {
        Notification {
            team: team.map_or_else(|| NO_TEAM.to_owned(), |team| team.as_str().to_owned()),
            severity: Severity::Warning,
            region: self.run.cloud.home().clone(),
            resource: None,
            kind: NotificationKind::State {
                topic: NotificationKey::named(format!("{topic} {place}")),
                what,
                repeat: RepeatPolicy::Daily,
            },
            text: Paragraph::new(&text),
            happened: false,
            mode: None,
            loses: None,
            headline: Headline::new(sentence, object, place),
            facts: NotificationFacts::default(),
        }
    }
}

/// A list by the folders of teams.
fn split<T: QueueItem>(
    backlog: Backlog,
    listed: Vec<ListedObject>,
    read: impl Fn(&str, Vec<ListedObject>, bool) -> Vec<T>,
) -> Queues<T> {
    let mut folders: BTreeMap<String, Vec<ListedObject>> = BTreeMap::new();
    for one in listed {
        let folder = backlog.folder_of(&one.key);
        match folders.get_mut(folder) {
            Some(items) => items.push(one),
            None => drop(folders.insert(folder.to_owned(), vec![one])),
        }
    }
    let read_one = |(folder, items): (String, Vec<ListedObject>)| {
        let waiting = read(&folder, items, false);
        (folder, BacklogQueue::whole(waiting))
    };
    folders.into_iter().map(read_one).collect()
}
