//! The holders with a budget in a month, for people.

use billing::budget::BudgetHolder;
use model::id::TeamName;
use model::team_folder::decode_folder;

use crate::{Store, StoreError};

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
    use crate::budgets::budget_key;

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
