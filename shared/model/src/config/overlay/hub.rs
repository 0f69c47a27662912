//! The configuration of an organization's hub: lines for every account, and lines for single ones.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::{Config, ConfigError, DOCUMENT};
use super::lines::{Lines, is_key};
use crate::document::{DocumentError, located};

/// The section of single accounts.
const ACCOUNTS: &str = "accounts";

/// The keys and sections that an account decides about itself.
const DECIDES: &str = "decides";

/// A hub's configuration: that of an account, and besides it `[accounts."<id>"]`.
#[derive(Debug, Clone)]
pub struct HubConfig<'t> {
    pub(super) lines: Lines<'t>,
    accounts: BTreeMap<String, AccountLines<'t>>,
}

/// The hub's lines about one account.
#[derive(Debug, Clone)]
struct AccountLines<'t> {
    lines: Lines<'t>,
    decides: Vec<Vec<String>>,
}

impl<'t> HubConfig<'t> {
    /// Reads the hub's document.
    ///
    /// # Errors
    /// On the first unknown key, wrong type or impossible value, with its line, column and key.
    pub fn read(text: &'t str) -> Result<Self, ConfigError> {
        let mut tree = DOCUMENT.parse(text)?;
        let accounts = take_accounts(text, &mut tree)?;
        DOCUMENT.read_table::<Config>(text, &tree, &[])?;
        Ok(Self { lines: Lines::new(text, &tree), accounts })
    }

    /// Reads the hub's document from its bytes.
    ///
    /// # Errors
    /// As [`HubConfig::read`], and where a byte is no UTF-8.
    pub fn read_bytes(document: &'t [u8]) -> Result<Self, ConfigError> {
        Self::read(crate::document::utf8(document)?)
    }

    /// The accounts that it names.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        self.accounts.keys().map(String::as_str)
    }

    /// The lines for this account: its own ones count before those for all.
    pub(super) fn lines_for(&self, account: &str) -> Lines<'t> {
        let account_lines = self.accounts.get(account).map(|account| account.lines.clone());
        self.lines.clone().with(account_lines.unwrap_or_default())
    }

    /// `true` if the hub leaves this key to the account.
    pub(super) fn leaves(&self, account: &str, path: &[String]) -> bool {
        self.accounts.get(account).is_some_and(|account| account.decides.iter().any(|key| path.starts_with(key)))
    }
}

fn take_accounts<'t>(text: &'t str, tree: &mut DeTable<'t>) -> Result<BTreeMap<String, AccountLines<'t>>, ConfigError> {
    let Some((key, accounts)) = tree.remove_entry(ACCOUNTS) else { return Ok(BTreeMap::new()) };
    let DeValue::Table(accounts) = accounts.into_inner() else {
        let problem = "write a table for each account, such as [accounts.\"123456789012\"]";
        return Err(located(text, key.span().start, ACCOUNTS, problem).into());
    };
    let read = |(id, lines): (Spanned<_>, Spanned<_>)| {
        let account = read_account(text, (key.span(), &id), lines)?;
        Ok((id.into_inner().to_string(), account))
    };
    accounts.into_iter().map(read).collect()
}

fn read_account<'t>(
    text: &'t str,
    (section, id): (Range<usize>, &Spanned<std::borrow::Cow<'t, str>>),
    lines: Spanned<DeValue<'t>>,
) -> Result<AccountLines<'t>, ConfigError> {
    let name = id.get_ref().as_ref();
    let key = format!("{ACCOUNTS}.{name}");
    let wrong = |at: usize, key: &str, problem: &str| ConfigError::from(located(text, at, key, problem));
    if name.len() != 12 || !name.bytes().all(|digit| digit.is_ascii_digit()) {
        let problem = format!("{name:?} is not the id of an account; write its 12 digits in quotes");
        return Err(wrong(id.span().start, &key, &problem));
    }
    let DeValue::Table(mut lines) = lines.into_inner() else {
        return Err(wrong(id.span().start, &key, "write a table of keys and values"));
    };
    let decides = match lines.remove(DECIDES) {
        Some(list) => read_decides(text, &format!("{key}.{DECIDES}"), &list)?,
        None => Vec::new(),
    };
    DOCUMENT.read_table::<Config>(text, &lines, &[(name, id.span()), (ACCOUNTS, section)])?;
    Ok(AccountLines { lines: Lines::new(text, &lines), decides })
}

fn read_decides(text: &str, key: &str, list: &Spanned<DeValue<'_>>) -> Result<Vec<Vec<String>>, DocumentError> {
    const LIST: &str = "write a list of keys and sections, such as [\"idle.window\", \"limits\"]";
    let DeValue::Array(items) = list.get_ref() else { return Err(located(text, list.span().start, key, LIST)) };
    let read = |item: &Spanned<DeValue<'_>>| {
        let wrong = |problem: &str| located(text, item.span().start, key, problem);
        let DeValue::String(name) = item.get_ref() else { return Err(wrong(LIST)) };
        is_key(name).ok_or_else(|| wrong(&format!("{name:?} is neither a key nor a section of a configuration")))
    };
    items.iter().map(read).collect()
}
