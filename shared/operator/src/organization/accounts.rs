//! Accounts, the role that is assumed in each, and its session.

use std::collections::BTreeSet;

use model::account::AccountId;
use model::fault::{InvalidValue, shortened};
use serde::Serialize;

/// Limit of the accounts of a scan. The largest organizations ask AWS for more than 10,000; several scans with `--accounts` cover those.
pub const ACCOUNTS_MAX: usize = 2_000;

/// Length of a role's name and of a session's (IAM API reference, `CreateRole`; AWS STS API reference, `AssumeRole`).
const NAME_CHARACTERS_MAX: usize = 64;
/// Length of a role's path (IAM API reference, `CreateRole`).
const PATH_CHARACTERS_MAX: usize = 512;
/// Length of an external id (AWS STS API reference, `AssumeRole`).
const EXTERNAL_ID_CHARACTERS_MAX: usize = 1_224;
/// Beginning of the session's name, by which `CloudTrail` of each account tells these calls from others.
const SESSION_PREFIX: &str = "curfew-scan-";
/// The most of a wrong text that an error repeats, in characters.
const REPEATED_MAX: usize = 40;

/// An account of the organization, or one that a person named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedAccount {
    pub account: AccountId,
    /// Its name in the organization; `None` for an account that a person named.
    pub name: Option<String>,
    /// Its state in the organization unless it is active, such as `SUSPENDED`: no role can be assumed there.
    #[serde(rename = "state")]
    pub inactive: Option<String>,
}

/// Reads ids of accounts with commas, blanks or ends of lines between them; `#` begins a comment.
///
/// # Errors
/// If one is no id or is there twice, or there are none or more than [`ACCOUNTS_MAX`].
pub fn parse_accounts(text: &str) -> Result<Vec<ListedAccount>, InvalidValue> {
    let mut seen = BTreeSet::new();
    let words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = words.flat_map(|line| line.split(|letter: char| letter == ',' || letter.is_whitespace()));
    for word in words.filter(|word| !word.is_empty()) {
        let account = AccountId::parse(word)?;
        if seen.len() == ACCOUNTS_MAX {
            return Err(InvalidValue::new(format!("more than {ACCOUNTS_MAX} accounts: scan them in parts")));
        }
        if let Some(twice) = seen.replace(account) {
            return Err(InvalidValue::new(format!("the account {twice} is there twice")));
        }
    }
    if seen.is_empty() {
        return Err(InvalidValue::new("no account is named: write ids of 12 digits, with commas between them"));
    }
    Ok(seen.into_iter().map(|account| ListedAccount { account, name: None, inactive: None }).collect())
}

/// The name of the role that is assumed in each account, with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleName(String);

impl RoleName {
    /// Reads `curfew-look`, `look/curfew-look` or `/look/curfew-look`.
    ///
    /// # Errors
    /// If IAM allows no such name or path.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim_start_matches('/');
        let (path, name) = text.rsplit_once('/').map_or(("", text), |(path, name)| (path, name));
        let is_name = (1..=NAME_CHARACTERS_MAX).contains(&name.len()) && name.chars().all(is_in_name);
        let is_path = path.len() + 2 <= PATH_CHARACTERS_MAX && path.bytes().all(|byte| byte.is_ascii_graphic());
        if is_name && is_path && !path.contains(['*', '?', ':']) {
            return Ok(Self(text.to_owned()));
        }
        let problem = format!("{:?} is no name of a role", shortened(text, REPEATED_MAX));
        Err(InvalidValue::new(format!(
            "{problem}: write letters, digits and +=,.@_-, with its path in front if it has one"
        )))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The ARN of the role in that account.
    #[must_use]
    pub fn arn(&self, partition: &str, account: &AccountId) -> String {
        format!("arn:{partition}:iam::{account}:role/{}", self.0)
    }
}

/// The external id that the role's trust policy asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalId(String);

impl ExternalId {
    /// Reads an external id.
    ///
    /// # Errors
    /// If STS allows no such id.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let is_legal = |letter: char| is_in_name(letter) || matches!(letter, ':' | '/');
        if (2..=EXTERNAL_ID_CHARACTERS_MAX).contains(&text.len()) && text.chars().all(is_legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidValue::new("no external id: write 2 to 1,224 letters, digits and +=,.@:/_-"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The letters of names of roles and sessions (IAM API reference, `CreateRole`: `[\w+=,.@-]+`).
const fn is_in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '+' | '=' | ',' | '.' | '@' | '-')
}

/// The identity that scans: whose accounts' roles it assumes, and under which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    pub partition: String,
    /// The account of the credentials, which needs no role.
    pub account: AccountId,
    pub session_name: String,
}

impl CallerIdentity {
    /// Reads the ARN that `GetCallerIdentity` returns: `arn:aws:sts::111122223333:assumed-role/admin/ada@example.com`.
    ///
    /// # Errors
    /// If it has no such form.
    pub fn from_arn(arn: &str) -> Result<Self, InvalidValue> {
        let unreadable = || InvalidValue::new("STS does not say whose the credentials are");
        let (partition, account) = partition_and_account(arn).ok_or_else(unreadable)?;
        let user = arn.rsplit([':', '/']).next().unwrap_or_default();
        let user = user.chars().filter(|letter| is_in_name(*letter));
        let session_name = SESSION_PREFIX.chars().chain(user).take(NAME_CHARACTERS_MAX).collect();
        Ok(Self { partition: partition.to_owned(), account, session_name })
    }
}

/// Checks the ARN of a session that was asked for in that account: credentials of any other account would put its figures under a wrong name.
///
/// # Errors
/// If it is of another account or partition.
pub fn check_session(arn: &str, partition: &str, asked: &AccountId) -> Result<(), InvalidValue> {
    match partition_and_account(arn) {
        Some((of, account)) if of == partition && account == *asked => Ok(()),
        Some((_, account)) if account != *asked => {
            Err(InvalidValue::new(format!("STS answered with credentials of the account {account}")))
        }
        _ => Err(InvalidValue::new("STS does not say whose the credentials are")),
    }
}

fn partition_and_account(arn: &str) -> Option<(&str, AccountId)> {
    let mut parts = arn.split(':');
    let (prefix, partition) = (parts.next()?, parts.next()?);
    let account = AccountId::parse(parts.nth(2)?).ok()?;
    let is_word = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    (prefix == "arn" && is_word).then_some((partition, account))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> AccountId {
        AccountId::parse(text).unwrap()
    }

    #[test]
    fn accounts_are_read_from_a_list_or_a_file() {
        let read = |text: &str| match parse_accounts(text) {
            Ok(listed) => listed.iter().map(|one| one.account.to_string()).collect::<Vec<_>>().join(" "),
            Err(why) => why.to_string(),
        };
        assert_eq!(read("222222222222,111122223333"), "111122223333 222222222222");
        assert_eq!(read("# ours\n111122223333 # research\r\n\n 222222222222\n"), "111122223333 222222222222");
        assert!(read("").contains("no account is named") && read("# 1\n").contains("no account is named"));
        for wrong in
            ["11112222333", "1111222233334", "11112222333x", "１１１１２２２２３３３３", "arn:aws:iam::1", "\u{1b}[2J"]
        {
            assert!(read(wrong).contains("is no id of an account: write 12 digits"), "{wrong}");
        }
        assert_eq!(read("111122223333,111122223333"), "the account 111122223333 is there twice");
        let many = |count: usize| (0..count).map(|number| format!("{number:012}")).collect::<Vec<_>>().join("\n");
        assert_eq!(parse_accounts(&many(ACCOUNTS_MAX)).unwrap().len(), ACCOUNTS_MAX);
        assert!(read(&many(ACCOUNTS_MAX + 1)).starts_with("more than 2000 accounts"));
    }

    #[test]
    fn a_role_has_a_name_and_perhaps_a_path() {
        let arn = |text: &str| RoleName::parse(text).map(|role| role.arn("aws-cn", &id("111122223333")));
        assert_eq!(arn("curfew-look").unwrap(), "arn:aws-cn:iam::111122223333:role/curfew-look");
        assert_eq!(arn("/a/b/look").unwrap(), "arn:aws-cn:iam::111122223333:role/a/b/look");
        for wrong in [
            "",
            "/",
            "a/",
            "look role",
            "look*",
            "a:b/look",
            "a*/look",
            "ü",
            &"x".repeat(65),
            &format!("{}/x", "p".repeat(511)),
        ] {
            assert!(RoleName::parse(wrong).is_err(), "{wrong}");
        }
        for (text, expect) in [("ab", true), ("a", false), ("a b", false), ("x:y/z", true), (&"x".repeat(1_225), false)]
        {
            assert_eq!(ExternalId::parse(text).is_ok(), expect, "{text}");
        }
    }

    #[test]
    fn the_session_has_the_name_of_its_user() {
        let check = |arn: &str, session: &str| {
            let caller = CallerIdentity::from_arn(arn).unwrap();
            assert_eq!((caller.account, caller.session_name.as_str()), (id("111122223333"), session));
        };
        check("arn:aws:sts::111122223333:assumed-role/admin/ada@example.com", "curfew-scan-ada@example.com");
        check("arn:aws-us-gov:iam::111122223333:user/people/ada lovelace", "curfew-scan-adalovelace");
        check("arn:aws:iam::111122223333:root", "curfew-scan-root");
        check(
            &format!("arn:aws:iam::111122223333:user/{}", "x".repeat(64)),
            &format!("curfew-scan-{}", "x".repeat(52)),
        );
        for wrong in ["", "arn:aws:iam::1:root", "arn::iam::111122223333:root", "x:aws:iam::111122223333:root"] {
            assert!(CallerIdentity::from_arn(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_credentials_of_the_account_that_was_asked_count() {
        let check = |arn: &str, expect: Result<(), &str>| {
            let found = check_session(arn, "aws", &id("111122223333")).map_err(|why| why.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{arn}");
        };
        check("arn:aws:sts::111122223333:assumed-role/look/me", Ok(()));
        check(
            "arn:aws:sts::444455556666:assumed-role/111122223333/111122223333",
            Err("STS answered with credentials of the account 444455556666"),
        );
        check("arn:aws-cn:sts::111122223333:assumed-role/look/me", Err("STS does not say whose the credentials are"));
        check("", Err("STS does not say whose the credentials are"));
    }
}
