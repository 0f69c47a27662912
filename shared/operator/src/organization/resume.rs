//! The file of a scan that can be continued: a line about the scan, and one of each account that it has read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use model::id::Region;
use model::moment::after;
use serde::{Deserialize, Serialize};

use super::{AccountId, AccountSummary};

/// Age up to which a scan is continued: older figures are not those of now.
pub const RESUME_HOURS_MAX: i64 = 24;

/// Version of the file.
pub const RESUME_SCHEMA: u32 = 1;

/// The scan that a file belongs to. Everything that decides about its figures is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeHeader {
    pub schema: u32,
    pub started_at: Timestamp,
    pub partition: String,
    pub role: String,
    pub accounts: BTreeSet<AccountId>,
    pub regions: Vec<Region>,
    pub sagemaker: bool,
    /// Fingerprint of the configuration that judges.
    pub config: u64,
}

impl ResumeHeader {
    /// The part of an earlier scan that differs from this one.
    fn difference(&self, earlier: &Self) -> Option<String> {
        let differences = [
            (earlier.schema != self.schema, "another version of Curfew".to_owned()),
            (earlier.partition != self.partition, format!("the partition {}", earlier.partition)),
            (earlier.role != self.role, format!("the role {}", earlier.role)),
            (earlier.accounts != self.accounts, "other accounts".to_owned()),
            (earlier.regions != self.regions, "other regions".to_owned()),
            (earlier.sagemaker != self.sagemaker, "another choice of --sagemaker".to_owned()),
            (earlier.config != self.config, "another configuration".to_owned()),
        ];
        differences.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
    }
}

/// The part of a file that a scan takes over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResumedScan {
    pub accounts: Vec<AccountSummary>,
    /// Length of the complete lines. What follows is half a line of a scan that was cut off.
    pub whole_bytes: usize,
}

/// The reason why a scan cannot be continued by a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    #[error("line {0} is none of a scan of accounts")]
    Unreadable(usize),
    #[error("it has the account {0} twice, or without having asked for it")]
    Account(AccountId),
    #[error("its scan has {0}")]
    Different(String),
    #[error("its scan began at {0}, not within the last {RESUME_HOURS_MAX} hours")]
    Old(Timestamp),
}

/// A line of the file.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn to_line(entry: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(entry).map(|line| line + "\n")
}

/// Reads the file of an earlier scan; an empty one is of none.
///
/// # Errors
/// If it is not of this scan, too old, or not readable.
pub fn read_resume_file(text: &[u8], scan: &ResumeHeader, now: Timestamp) -> Result<ResumedScan, ResumeError> {
    let whole_bytes = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = text[..whole_bytes].split_inclusive(|byte| *byte == b'\n').enumerate();
    let Some((_, first)) = lines.next() else {
        return if text.is_empty() { Ok(ResumedScan::default()) } else { Err(ResumeError::Unreadable(1)) };
    };
    let earlier: ResumeHeader = serde_json::from_slice(first).map_err(|_| ResumeError::Unreadable(1))?;
    if let Some(what) = scan.difference(&earlier) {
        return Err(ResumeError::Different(what));
    }
    let until = after(earlier.started_at, SignedDuration::from_hours(RESUME_HOURS_MAX));
    if now > until || after(now, SignedDuration::from_hours(1)) < earlier.started_at {
        return Err(ResumeError::Old(earlier.started_at));
    }
    let mut missing = scan.accounts.clone();
    let mut accounts = Vec::new();
    for (place, line) in lines {
        let entry: AccountSummary = serde_json::from_slice(line).map_err(|_| ResumeError::Unreadable(place + 1))?;
        if !missing.remove(&entry.account) {
            return Err(ResumeError::Account(entry.account));
        }
        accounts.push(entry);
    }
    Ok(ResumedScan { accounts, whole_bytes })
}

#[cfg(test)]
mod tests {
    use super::super::AccountTally;
    use super::super::summary::RegionPart;
    use super::*;

    const NOW: &str = "2026-09-01T12:00:00Z";

    fn id(text: &str) -> AccountId {
        AccountId::parse(text).unwrap()
    }

    fn header(role: &str) -> ResumeHeader {
        let accounts = [id("111122223333"), id("444455556666")].into();
        let (started_at, partition, role) = (NOW.parse().unwrap(), "aws".to_owned(), role.to_owned());
        let (schema, regions, sagemaker, config) = (RESUME_SCHEMA, Vec::new(), false, 0);
        ResumeHeader { schema, started_at, partition, role, accounts, regions, sagemaker, config }
    }

    fn summary(account: &str) -> AccountSummary {
        let mut tally = AccountTally::default();
        tally.add(RegionPart::default());
        tally.finish(id(account), Some("\u{1b}[2J\nresearch".to_owned())).unwrap()
    }

    fn file(accounts: &[&str]) -> String {
        let lines = accounts.iter().map(|account| to_line(&summary(account)).unwrap());
        to_line(&header("look")).unwrap() + &lines.collect::<String>()
    }

    fn read(text: &str, scan: &ResumeHeader, at: &str) -> Result<ResumedScan, String> {
        read_resume_file(text.as_bytes(), scan, at.parse().unwrap()).map_err(|why| why.to_string())
    }

    #[test]
    fn a_scan_continues_after_its_last_complete_line() {
        let whole = file(&["111122223333"]);
        let expect = ResumedScan { accounts: vec![summary("111122223333")], whole_bytes: whole.len() };
        assert_eq!(read(&whole, &header("look"), "2026-09-02T11:00:00Z").unwrap(), expect);
        let cut_off = file(&["111122223333", "444455556666"]);
        for end in whole.len()..cut_off.len() {
            assert_eq!(read(&cut_off[..end], &header("look"), NOW).unwrap(), expect, "{end}");
        }
        assert_eq!(read("", &header("look"), NOW).unwrap(), ResumedScan::default());
    }

    #[test]
    fn a_file_of_another_scan_is_refused() {
        let check = |text: &str, scan: ResumeHeader, at: &str, expect: &str| {
            assert_eq!(read(text, &scan, at).unwrap_err(), expect);
        };
        let whole = file(&["111122223333"]);
        check(&whole, header("other"), NOW, "its scan has the role look");
        check(
            &whole,
            ResumeHeader { partition: "aws-cn".to_owned(), ..header("look") },
            NOW,
            "its scan has the partition aws",
        );
        check(
            &whole,
            ResumeHeader { accounts: [id("111122223333")].into(), ..header("look") },
            NOW,
            "its scan has other accounts",
        );
        check(
            &whole,
            ResumeHeader { sagemaker: true, ..header("look") },
            NOW,
            "its scan has another choice of --sagemaker",
        );
        check(&whole, ResumeHeader { config: 7, ..header("look") }, NOW, "its scan has another configuration");
        check(
            &whole,
            ResumeHeader { regions: vec!["us-east-1".into()], ..header("look") },
            NOW,
            "its scan has other regions",
        );
        let old = "its scan began at 2026-09-01T12:00:00Z, not within the last 24 hours";
        check(&whole, header("look"), "2026-09-02T12:00:01Z", old);
        check(&whole, header("look"), "2026-09-01T10:59:59Z", old);
    }

    #[test]
    fn a_damaged_file_is_refused_and_no_account_counts_twice() {
        let check = |text: &str, expect: &str| assert_eq!(read(text, &header("look"), NOW).unwrap_err(), expect);
        check("notes\n", "line 1 is none of a scan of accounts");
        check("a file that is dear to somebody", "line 1 is none of a scan of accounts");
        check(r#"{"schema":1,"findings":[]}"#, "line 1 is none of a scan of accounts");
        check(&(file(&["111122223333"]) + "{}\n"), "line 3 is none of a scan of accounts");
        check(
            &file(&["111122223333", "111122223333"]),
            "it has the account 111122223333 twice, or without having asked for it",
        );
        check(&file(&["777788889999"]), "it has the account 777788889999 twice, or without having asked for it");
    }
}
