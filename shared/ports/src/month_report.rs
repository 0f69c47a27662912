//! Calls and documents of the report of a month.

use std::collections::BTreeMap;

use billing::ledger::CalendarMonth;
use billing::price::PriceBook;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::config::SeriesNames;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use recommend::GpuOffer;
use recommend::usage::DeviceSamples;
use report::{Mail, MonthFacts};

use crate::{CallError, InstanceCloud, StoreError};

/// AWS calls of the report of a month.
pub trait ReportCloud: InstanceCloud {
    /// Every type of a region with whole NVIDIA GPUs that is sold by the second, except bare metal, by name.
    ///
    /// # Errors
    /// If EC2 does not describe them all.
    async fn gpu_offers(&self, region: &Region) -> Result<Vec<GpuOffer>, CallError>;

    /// The samples of each GPU of these instances of one region, which report by these names, in the last three weeks; and how many series
    /// were left out because there are more than `series_max`.
    ///
    /// # Errors
    /// If a call fails: what was seen in part is no evidence.
    async fn usage_history(
        &self,
        region: &Region,
        instances: &[&Instance],
        names: &SeriesNames,
        until_and_series_max: (Timestamp, usize),
    ) -> Result<(BTreeMap<ResourceId, Vec<DeviceSamples>>, usize), CallError>;

    /// Mails the report to an address, in the home region.
    ///
    /// # Errors
    /// If SES did not accept it, or did not answer.
    async fn mail_report(&self, sender: &str, recipient: &str, mail: &Mail) -> Result<(), CallError>;
}

/// Documents that the report of a month reads, and its own.
pub trait ReportDocuments {
    /// The facts of a month that has begun, in the account's time zone. It always answers: what could not be read is named in
    /// [`MonthFacts::gaps`].
    async fn read_month_facts(
        &self,
        month: CalendarMonth,
        zone: TimeZone,
        prices: PriceBook,
        now: Timestamp,
    ) -> MonthFacts;

    /// Returns `true` if that day has a page.
    ///
    /// # Errors
    /// If S3 refused.
    async fn has_report_page(&self, day: Date) -> Result<bool, StoreError>;

    /// Writes the page of that day, over an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_report_page(&self, day: Date, page: String) -> Result<(), StoreError>;

    /// Writes the page about the whole organization of that day, over an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_organization_page(&self, day: Date, page: String) -> Result<(), StoreError>;

    /// Address of the page of that day: `s3://<bucket>/reports/<yyyy-mm-dd>/report.html`.
    fn report_page_address(&self, day: Date) -> String;

    /// Address of the page about the whole organization of that day: `s3://<bucket>/reports/<yyyy-mm-dd>/organization.html`.
    fn organization_page_address(&self, day: Date) -> String;

    /// Writes the charges of that month in columns of FOCUS, over earlier ones: `exports/<yyyy-mm>/curfew-focus.csv`.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_month_export(&self, month: &CalendarMonth, charges: String) -> Result<(), StoreError>;
}
