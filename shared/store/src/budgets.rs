//! Budgets: one document a holder and month.
//!
//! The beat of `enforce-budgets` and runs that reserve money for jobs write the same document, each over the version that it read. So the
//! loser reads again what the other wrote, and no reservation is lost.

pub(crate) mod list;

use std::fmt::Write;

use billing::budget::{Budget, BudgetHolder};
use model::id::TeamName;

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
        BudgetHolder::Team(team) => format!("budgets/{}/{month}.json", folder(team)),
    }
}

/// A team's name as one part of a key. Only letters and digits of any alphabet, and `-`, `_` and `.` stay as they are (Amazon S3 user
/// guide, "Naming Amazon S3 objects"); a name of dots alone could leave the folder.
pub(crate) fn folder(team: &TeamName) -> String {
    let name = team.as_str();
    let only_dots = name.chars().all(|letter| letter == '.');
    let mut folder = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_alphanumeric() || matches!(letter, '-' | '_') || (letter == '.' && !only_dots) {
            folder.push(letter);
        } else {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a text cannot fail.
                let _ = write!(folder, "%{byte:02X}");
            }
        }
    }
    folder
}

/// The folder of a team under `jobs/`, `attempts/`, `outputs/`, `checkpoints/` and `inbox/`, without a `/`.
#[must_use]
pub fn team_folder(team: &TeamName) -> String {
    folder(team)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(team: &str, expect: &str) {
        assert_eq!(
            budget_key(&BudgetHolder::Team(TeamName::from(team)), "2026-11"),
            format!("budgets/{expect}/2026-11.json")
        );
    }

    #[test]
    fn a_team_is_one_folder() {
        check("vision", "vision");
        check("Vision_2-b.eu", "Vision_2-b.eu");
        check("Bildverarbeitung-Köln", "Bildverarbeitung-Köln");
        check("视觉", "视觉");
    }

    #[test]
    fn nothing_leaves_the_folder_of_the_budgets() {
        check("..", "%2E%2E");
        check("../../config", "..%2F..%2Fconfig");
        check("a/b", "a%2Fb");
        check("a b\n", "a%20b%0A");
        check("100%2F", "100%252F");
    }

    #[test]
    fn the_account_stands_above() {
        assert_eq!(budget_key(&BudgetHolder::Account, "2026-11"), "budgets/2026-11.json");
        check("2026-11.json", "2026-11.json");
    }
}
