//! Budgets: one document a holder and month.
//!
//! The beat of `enforce-budgets` and runs that reserve money for jobs write the same document, each over the version that it read. So the
//! loser reads again what the other wrote, and no reservation is lost.

pub(crate) mod list;

use billing::budget::{Budget, BudgetHolder};
use model::team_folder::team_folder;

use crate::document::{StoredDocument, is_at_home};
use crate::{BudgetDocuments, Store, StoreError, Versioned};

impl BudgetDocuments for Store {
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Result<Versioned<Budget>, StoreError> {
        let key = budget_key(holder, month);
        let read = self.read::<Budget>(&key).await?;
        let Budget { team, month: says, as_of, .. } = &read.value;
        let is_of_team = match holder {
            BudgetHolder::Account => team.is_none(),
            // A document with only a reservation names no team.
            BudgetHolder::Team(of) => team.as_ref().map_or(as_of.is_none(), |team| team == of),
        };
        let holder_name = team.as_ref().map_or("the account", |team| team.as_str());
        let is = is_of_team && (says.is_empty() || says == month);
        is_at_home(is, format_args!("{holder_name} in {says}"), &self.bucket.address(&key), Budget::IF_LOST)?;
        Ok(read)
    }

    async fn write_budget(
        &self,
        holder: &BudgetHolder,
        month: &str,
        budget: &Budget,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&budget_key(holder, month), budget, last).await.map(drop)
    }
}

fn budget_key(holder: &BudgetHolder, month: &str) -> String {
    match holder {
        BudgetHolder::Account => format!("budgets/{month}.json"),
        BudgetHolder::Team(team) => format!("budgets/{}/{month}.json", team_folder(team)),
    }
}

#[cfg(test)]
mod tests {
    use model::id::TeamName;

    use super::*;

    fn check(team: &str, expect: &str) {
        assert_eq!(
            budget_key(&BudgetHolder::Team(TeamName::from(team)), "2026-11"),
            format!("budgets/{expect}/2026-11.json")
        );
    }

    #[test]
    fn nothing_leaves_the_folder_of_the_budgets() {
        check("vision", "vision");
        check("../../config", "..%2F..%2Fconfig");
    }

    #[test]
    fn the_account_stands_above() {
        assert_eq!(budget_key(&BudgetHolder::Account, "2026-11"), "budgets/2026-11.json");
        check("2026-11.json", "2026-11.json");
    }
}
