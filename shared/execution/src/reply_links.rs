//! Links of announcements, whose documents are written before the message.
//!
//! A link is a convenience. An announcement whose link could not be written goes without, and a gap says why.

use std::time::Duration;

use futures::{StreamExt, stream};
use model::notification_log::Notification;
use model::observation::{Gap, GapKind};
use model::reply_link::{LINK_PATH, LinkDocument, ReplyToken, TOKEN_BYTES};
use notify::ReplyUrls;
use plan::report::Report;
use ports::{CallError, Cloud, Documents};

use crate::{AT_ONCE, Run};

/// The most links that a run writes, each a request to S3: the earliest deadlines get them.
const LINKS_MAX: usize = 50;

/// A bucket that hangs must not take the time in which people are notified.
const LINKS_TIMEOUT: Duration = Duration::from_secs(5);

const PUT: &str = "s3:PutObject";

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Writes a link for each announcement, where the deployment has links.
    pub(crate) async fn write_reply_links(&self, report: &mut Report, notifications: &[Notification]) -> ReplyUrls {
        let Some(base) = &self.channels.reply_url else { return ReplyUrls::new() };
        let mut links = notify::reply_links(report, notifications, &self.channels.topics.teams);
        links.truncate(LINKS_MAX);
        let mut written = ReplyUrls::new();
        let mut gaps = Vec::new();
        let write_all = async {
            let mut writes = stream::iter(&links).map(|link| self.write_reply_link(link)).buffer_unordered(AT_ONCE);
            while let Some(result) = writes.next().await {
                match result {
                    Ok((link, token)) => {
                        let url = format!("{base}{LINK_PATH}{}", token.as_str());
                        written.insert(link.subject(), url);
                    }
                    Err(gap) => gaps.push(gap),
                }
            }
        };
        if tokio::time::timeout(LINKS_TIMEOUT, write_all).await.is_err() {
            gaps.push(CallError::timed_out(PUT, self.cloud.home(), LINKS_TIMEOUT).gap());
        }
        // They fail alike.
        report.gaps.extend(gaps.into_iter().next());
        written
    }

    async fn write_reply_link<'a>(&self, link: &'a LinkDocument) -> Result<(&'a LinkDocument, ReplyToken), Gap> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            let problem = format!("the operating system gives no random bytes: {error}");
            Gap::new(self.cloud.home(), "making a link", problem, GapKind::Part)
        })?;
        let token = ReplyToken::from_bytes(&bytes);
        let written = self.store.write_reply_link(&token.hash(), link, None).await;
        written.map(|()| (link, token)).map_err(|error| error.gap(self.cloud.home()))
    }
}
