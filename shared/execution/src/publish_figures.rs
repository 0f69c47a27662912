//! The hub of an organization: what a run publishes there. Its failure is a gap, and stops nothing.

use std::time::Duration;

use model::account::AccountId;
use model::channels::account_of_topic;
use model::fault::InvalidValue;
use model::observation::{Gap, GapKind};
use ports::{Cloud, Documents, FiguresDocuments};
use report::{AccountFigures, Publisher};

use crate::Run;
use crate::budgets::in_time;

/// One small object. What people are to be told does not wait longer for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes figures, if the account has a hub: only then they are made. `None` while the account has none of the month.
pub(crate) async fn publish_figures(
    run: &Run<'_, impl Cloud, impl Documents + FiguresDocuments>,
    publisher: Publisher,
    figures: impl FnOnce() -> Option<AccountFigures>,
) -> Option<Gap> {
    let figures = run.store.publishes_figures().then(figures).flatten()?;
    let home = run.cloud.home();
    let account = match own_account(run) {
        Ok(account) => account,
        Err(why) => return Some(Gap::new(home, "s3:PutObject", why.to_string(), GapKind::Part)),
    };
    let publish = run.store.publish_figures(publisher, &account, &figures);
    let what = || format!("the figures of {} for the hub", figures.month);
    in_time(Box::pin(publish), TIMEOUT, home, "s3:PutObject", what).await.err()
}

pub(crate) fn own_account<C, D>(run: &Run<'_, C, D>) -> Result<AccountId, InvalidValue> {
    AccountId::parse(&account_of_topic(&run.channels.topics.teams).unwrap_or_default())
}
