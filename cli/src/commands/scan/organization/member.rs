//! One account of a scan of many.

use std::cell::RefCell;
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument};
use cloud::operator::{AssumedRole, assume_role};
use cloud::{CallError, CallErrorKind};
use execution::catch_bug;
use futures::{StreamExt as _, stream};
use model::config::Config;
use model::fault::shortened;
use model::observation::{Gap, Observation};
use operator::organization::{AccountSummary, AccountTally, ListedAccount};
use store::Store;

use super::RefusedAccount;
use crate::command_error::describe_call_error;
use crate::commands::scan::region::RegionScan;
use crate::commands::scan::{REGIONS_AT_ONCE_MAX, build_policy};
use crate::context::CommandContext;
use crate::world;

/// Timeout of an account: 17 regions are three turns of six at once, each of which may take the five minutes of a list. It ends before the
/// credentials of the account do.
const ACCOUNT_TIMEOUT: Duration = Duration::from_mins(20);
/// Length of the reason of a refusal, in characters.
const REASON_MAX: usize = 400;

/// The settings of a scan of many accounts, and the list prices that it has learned.
pub(super) struct MemberScan<'a> {
    context: &'a CommandContext,
    role: AssumedRole<'a>,
    config: &'a Config,
    /// The bucket of the scanning account. What it says about jobs is about that account alone.
    store: Option<&'a Store>,
    /// The Price List answers every account the same, so what one account needed is known for the next.
    prices: RefCell<PriceDocument>,
    /// The first gap of the Price List, without which the tables count.
    price_gap: RefCell<Option<Gap>>,
    sagemaker: bool,
}

impl<'a> MemberScan<'a> {
    pub(super) fn new(
        context: &'a CommandContext,
        role: AssumedRole<'a>,
        config: &'a Config,
        store: Option<&'a Store>,
        known_prices: PriceDocument,
        sagemaker: bool,
    ) -> Self {
        let (prices, price_gap) = (RefCell::new(known_prices), RefCell::default());
        Self { context, role, config, store, prices, price_gap, sagemaker }
    }

    /// The known prices, and the first gap of the Price List.
    pub(super) fn into_prices(self) -> (PriceDocument, Option<Gap>) {
        (self.prices.into_inner(), self.price_gap.into_inner())
    }

    /// Scans an account. Whatever happens there is about that account alone.
    pub(super) async fn scan_account(&self, listed: ListedAccount) -> Result<AccountSummary, RefusedAccount> {
        let ListedAccount { account, name, .. } = listed.clone();
        let reason = match tokio::time::timeout(ACCOUNT_TIMEOUT, catch_bug(self.read_account(listed))).await {
            Ok(Ok(Ok(summary))) => return Ok(summary),
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(bug)) => bug.to_string(),
            Err(_) => format!("no complete answer within {} minutes", ACCOUNT_TIMEOUT.as_secs() / 60),
        };
        Err(RefusedAccount { account, name, reason: shortened(&reason, REASON_MAX) })
    }

    /// A denial is mostly about the role, and STS says the same whether it is missing or trusts somebody else.
    fn describe_refusal(&self, error: &CallError) -> String {
        match error.kind {
            CallErrorKind::Denied { by_organisation: false } => format!(
                "the role {} is missing there, or these credentials may not assume it (docs/organization.md): {}",
                self.role.role.as_str(),
                error.message
            ),
            _ => describe_call_error(error),
        }
    }

    async fn read_account(&self, listed: ListedAccount) -> Result<AccountSummary, String> {
        let ListedAccount { account, name, .. } = listed;
        let own = account == self.role.caller.account;
        let assumed;
        let aws = if own {
            &self.context.aws
        } else {
            let connection = assume_role(&self.context.aws, self.role, &account).await;
            assumed = connection.map_err(|error| self.describe_refusal(&error))?;
            &assumed
        };
        let now = world::clock();
        let mut known_prices = self.prices.borrow().clone();
        if !own {
            // Each account has names of its own for the zones (EC2 user guide, "Availability Zone IDs").
            known_prices.spot.clear();
        }
        let prices = PriceBook::from_document(known_prices.clone(), &self.config.prices, now);
        let policy = build_policy(self.config.clone(), prices);
        let look = RegionScan {
            store: self.store.filter(|_| own),
            policy: &policy,
            known_prices: &known_prices,
            sagemaker: self.sagemaker,
            now,
            price_list: Some(&self.context.aws),
        };
        let Observation { items: regions, gaps } = cloud::regions(aws, self.config).await;
        let mut tally = AccountTally::default();
        tally.add_gaps(gaps);
        let looks = regions.into_iter().map(|region| look.scan_region(aws, region));
        let mut looks = pin_stream(looks);
        while let Some(mut region) = looks.next().await {
            self.prices.borrow_mut().merge(std::mem::take(&mut region.prices).cacheable(now));
            if let Some(gap) = region.price_gaps.pop() {
                self.price_gap.borrow_mut().get_or_insert(gap);
            }
            tally.add(region.into_part());
        }
        tally.finish(account, name)
    }
}

fn pin_stream<F: Future>(looks: impl Iterator<Item = F>) -> impl futures::Stream<Item = F::Output> + Unpin {
    Box::pin(stream::iter(looks).buffer_unordered(REGIONS_AT_ONCE_MAX))
}
