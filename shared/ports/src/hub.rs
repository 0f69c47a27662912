//! Documents of an organization's hub: what each account publishes there, and what the hub reads of it.

use billing::ledger::CalendarMonth;
use model::account::AccountId;
use report::{AccountExport, AccountFigures, Publisher};

use crate::StoreError;

/// The hub as an account sees it: it writes its own figures, and reads nothing.
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
}
