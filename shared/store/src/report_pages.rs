//! The pages of reports, one a day, and the charges of each month.

use billing::ledger::CalendarMonth;
use jiff::civil::Date;

use crate::bucket::WriteCondition;
use crate::{Store, StoreError};

const HTML: &str = "text/html; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";

fn page_key(day: Date) -> String {
    format!("reports/{day}/report.html")
}

impl Store {
    /// Returns `true` if that day has a page.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn has_report_page(&self, day: Date) -> Result<bool, StoreError> {
        self.bucket.has(&page_key(day)).await
    }

    /// Writes the page of that day, over an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_report_page(&self, day: Date, page: String) -> Result<(), StoreError> {
        self.bucket.put_as(HTML, &page_key(day), page.into_bytes(), WriteCondition::None).await.map(drop)
    }

    /// Writes the charges of that month in columns of FOCUS, over earlier ones: `exports/<yyyy-mm>/curfew-focus.csv`.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_month_export(&self, month: &CalendarMonth, charges: String) -> Result<(), StoreError> {
        let key = format!("exports/{month}/curfew-focus.csv");
        self.bucket.put_as(CSV, &key, charges.into_bytes(), WriteCondition::None).await.map(drop)
    }

    /// Address of the page of that day: `s3://<bucket>/reports/<yyyy-mm-dd>/report.html`.
    #[must_use]
    pub fn report_page_address(&self, day: Date) -> String {
        self.bucket.address(&page_key(day))
    }
}
