//! The budget of a month that is over.

use jiff::Timestamp;
use model::config::OverBudget;

use super::{Budget, BudgetVerdict};

impl Budget {
    /// Returns `true` if this document still has to be closed for the month that ended at that moment: some beat saw the month, and none
    /// its end.
    #[must_use]
    pub fn is_open(&self, ended: Timestamp) -> bool {
        self.as_of.is_some_and(|as_of| as_of < ended)
    }

    /// Returns the document of a month that is over: without a forecast, and without consequences.
    #[must_use]
    pub fn as_past(&self) -> Self {
        Self {
            verdict: self.verdict.min(BudgetVerdict::Notify),
            over_budget: self.over_budget.map(|_| OverBudget::Notify),
            forecast_usd: None,
            remedy: Vec::new(),
            ..self.clone()
        }
    }
}
