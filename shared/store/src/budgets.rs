//! Budgets: one document a holder and month.
//!
//! The beat of `enforce-budgets` and whoever reserves money for a job write the same document, each over the version that it
//! read. So whoever loses reads again what the other wrote, and no reservation is lost.

pub(crate) mod list;

use std::fmt::Write;

use domain::budget::{Budget, Holder};
use domain::id::TeamName;

use crate::{Store, StoreError, Versioned};

/// Whoever loses so often does not lose to another run. Of 40 jobs that reserve at once each loses to some.
const UPDATE_TRIES_MAX: u32 = 10;

impl Store {
    /// Where a budget stands in that month, `yyyy-mm`; an absent document is one of which nothing is known.
    ///
    /// # Errors
    /// Where the document could not be read, or is none of ours.
    pub async fn read_budget(&self, holder: &Holder, month: &str) -> Result<Versioned<Budget>, StoreError> {
        self.read(&budget_key(holder, month)).await
    }

    /// Writes where a budget stands over the object whose `ETag` was `last`; `None` where there was none.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_budget(
        &self,
        holder: &Holder,
        month: &str,
        budget: &Budget,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&budget_key(holder, month), budget, last).await.map(drop)
    }

    /// Changes a budget by what is there now, and again by what another run wrote in the meantime. `change` may refuse, and
    /// then nothing is written; nor is what it leaves as it was.
    ///
    /// # Errors
    /// The outer ones as [`Store::read_budget`] and [`Store::write_budget`]; the inner one is that of `change`.
    pub async fn update_budget<T, E>(
        &self,
        holder: &Holder,
        month: &str,
        mut change: impl FnMut(&mut Budget) -> Result<T, E>,
    ) -> Result<Result<T, E>, StoreError> {
        let mut tries = 1..UPDATE_TRIES_MAX;
        loop {
            let Versioned { value: before, etag } = self.read_budget(holder, month).await?;
            let mut after = before.clone();
            let changed = change(&mut after);
            if changed.is_err() || after == before {
                return Ok(changed);
            }
            match self.write_budget(holder, month, &after, etag.as_deref()).await {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return written.map(|()| changed),
            }
        }
    }
}

fn budget_key(holder: &Holder, month: &str) -> String {
    match holder {
        Holder::Account => format!("budgets/{month}.json"),
        Holder::Team(team) => format!("budgets/{}/{month}.json", folder(team)),
    }
}

/// A team's name as one part of a key. Of what a tag may hold only letters and digits, of any alphabet, and `-`, `_` and `.`
/// stay as they are (Amazon S3 user guide, "Naming Amazon S3 objects"); a name of dots alone would be a way through folders.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(team: &str, expect: &str) {
        assert_eq!(
            budget_key(&Holder::Team(TeamName::from(team)), "2026-11"),
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
        assert_eq!(budget_key(&Holder::Account, "2026-11"), "budgets/2026-11.json");
        check("2026-11.json", "2026-11.json");
    }
}
