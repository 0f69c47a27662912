//! Documents of an organization's hub: what each account publishes there, and what the hub reads of it.

use billing::budget::BudgetSums;
use billing::ledger::CalendarMonth;
use model::account::AccountId;
use report::{AccountExport, AccountFigures, Publisher};

use crate::StoreError;

/// The hub as an account sees it: it writes its own figures, and reads the sums that are made for it.
pub trait FiguresDocuments {
    /// Returns `true` if the account publishes its figures.
    fn publishes_figures(&self) -> bool;

    /// Writes the account's figures, over earlier ones of that function and month.
    ///
    /// # Errors
    /// If S3 refused, or there is no hub.
    async fn publish_figures(
        &self,
        publisher: Publisher,
        account: &AccountId,
        figures: &AccountFigures,
    ) -> Result<(), StoreError>;

    /// Sums of the budgets that this account shares with others, as they are; `None` if there are none of that month, `yyyy-mm`.
    ///
    /// # Errors
    /// If S3 refused, the document is too large or cannot be read, or there is no hub.
    async fn read_budget_sums(&self, account: &AccountId, month: &str) -> Result<Option<BudgetSums>, StoreError>;
}

/// The hub as its own account sees it.
pub trait HubDocuments {
    /// The name of its bucket.
    fn hub_bucket(&self) -> &str;

    /// The accounts that have ever published anything.
    ///
    /// # Errors
    /// If S3 refused, or there are more than an organization has.
    async fn list_publishers(&self) -> Result<Vec<AccountId>, StoreError>;

    /// Figures that a function of an account has published about a month, as they are: [`AccountFigures::checked`] says whether they count. `None` if
    /// it has published none.
    ///
    /// # Errors
    /// If S3 refused, or the document is too large or cannot be read.
    async fn read_figures(
        &self,
        publisher: Publisher,
        account: &AccountId,
        month: &CalendarMonth,
    ) -> Result<Option<AccountFigures>, StoreError>;

    /// Writes a file for other tools, over an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_hub_export(&self, export: AccountExport) -> Result<(), StoreError>;

    /// Writes the sums of shared budgets for the account that they are of, over earlier ones of that month.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_budget_sums(&self, sums: &BudgetSums) -> Result<(), StoreError>;
}

/// The hub of an account that has none.
#[derive(Debug, Clone, Copy)]
pub enum NoHub {}

impl HubDocuments for NoHub {
    fn hub_bucket(&self) -> &str {
        match *self {}
    }

    async fn list_publishers(&self) -> Result<Vec<AccountId>, StoreError> {
        match *self {}
    }

    async fn read_figures(
        &self,
        _: Publisher,
        _: &AccountId,
        _: &CalendarMonth,
    ) -> Result<Option<AccountFigures>, StoreError> {
        match *self {}
    }

    async fn write_hub_export(&self, _: AccountExport) -> Result<(), StoreError> {
        match *self {}
    }

    async fn write_budget_sums(&self, _: &BudgetSums) -> Result<(), StoreError> {
        match *self {}
    }
}
