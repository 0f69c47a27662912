//! The budget of a month that is over.

use jiff::Timestamp;
use model::config::OverBudget;

use super::{Budget, BudgetVerdict};

impl Budget {
    /// Whether the month that ended at that moment is still to be closed in this document: some beat knew the month, and none
    /// its end.
    #[must_use]
    pub fn is_open(&self, ended: Timestamp) -> bool {
        self.as_of.is_some_and(|as_of| as_of < ended)
    }

    /// For a month that is over: without a forecast, and without consequences.
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
