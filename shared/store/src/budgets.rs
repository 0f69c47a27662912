//! Budgets: one document a holder and month.
//!
//! The beat of `enforce-budgets` and runs that reserve money for jobs write the same document, each over the version that it read. So the
//! loser reads again what the other wrote, and no reservation is lost.

use billing::budget::{Budget, BudgetHolder};
use model::id::TeamName;
use model::team_folder::{decode_folder, team_folder};

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

const FOLDER: &str = "budgets/";

/// The most budgets that are listed, of all months: those of 500 teams in 16 years.
const KEYS_MAX: usize = 100_000;

impl Store {
    /// The holders with a budget in that month, `yyyy-mm`. With 500 teams a call lists two months; pages follow each other.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_budgets(&self, month: &str) -> Result<Vec<BudgetHolder>, StoreError> {
        let listed = self.bucket.list(FOLDER, KEYS_MAX).await?;
        Ok(listed.iter().filter_map(|object| holder_of(&object.key, month)).collect())
    }
}

/// `None` for another month, and for a key that Curfew does not write.
fn holder_of(key: &str, month: &str) -> Option<BudgetHolder> {
    let name = key.strip_prefix(FOLDER)?.strip_suffix(".json")?.strip_suffix(month)?;
    if name.is_empty() {
        return Some(BudgetHolder::Account);
    }
    let folder = name.strip_suffix('/').filter(|folder| !folder.is_empty() && !folder.contains('/'))?;
    Some(BudgetHolder::Team(TeamName::new(decode_folder(folder)?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn a_key_says_whose_it_is(team in "\\PC{1,20}|[-./_%a-z ]{1,8}") {
            for holder in [BudgetHolder::Team(TeamName::new(team.as_str())), BudgetHolder::Account] {
                let key = budget_key(&holder, "2026-10");
                prop_assert_eq!(holder_of(&key, "2026-10"), Some(holder), "{}", key);
                prop_assert_eq!(holder_of(&key, "2026-11"), None);
            }
        }

        #[test]
        fn any_key_is_read_or_left(key in "budgets/[-./%0-9a-fA-Fé]{0,12}(/|)2026-10(.json|)") {
            let _ = holder_of(&key, "2026-10");
        }
    }

    #[test]
    fn foreign_objects_stay() {
        for name in
            ["/2026-10.json", "x2026-10.json", "a/b/2026-10.json", "a/2026-10", "a%2/2026-10.json", "%FF/2026-10.json"]
        {
            assert_eq!(holder_of(&format!("{FOLDER}{name}"), "2026-10"), None, "{name}");
        }
    }
}
