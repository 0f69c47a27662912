//! The configuration of an organization's hub: lines for every account, and lines for single ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::{Config, ConfigError, ConfigNote, DOCUMENT, MISTAKES_MAX, mistakes, notes};
use super::lines::{Lines, is_key};
use crate::account::AccountId;
use crate::document::{DocumentError, HUB_BUDGET_KEY, dotted, located};
use crate::id::TeamName;

const TEAMS: &str = "teams";
const BUDGET: &str = "monthly_budget_usd";

/// The section of single accounts.
const ACCOUNTS: &str = "accounts";

/// The keys and sections that an account decides about itself.
const DECIDES: &str = "decides";

/// The most accounts that share budgets, of all budgets together: each is read and written in every beat of the hub's `enforce-budgets`.
pub const SHARING_ACCOUNTS_MAX: usize = 200;

/// A hub's configuration: that of an account, and besides it `[accounts."<id>"]`, and the accounts that a team's budget spans.
#[derive(Debug, Clone)]
pub struct HubConfig<'t> {
    pub(super) lines: Lines<'t>,
    accounts: BTreeMap<String, AccountLines<'t>>,
    shared_budgets: BTreeMap<TeamName, BTreeSet<AccountId>>,
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
        let shared_budgets = take_shared_budgets(text, &mut tree)?;
        DOCUMENT.read_table::<Config>(text, &tree, &[])?;
        let hub = Self { lines: Lines::new(text, &tree), accounts, shared_budgets };
        hub.check_amounts(text)?;
        Ok(hub)
    }

    /// Reads the hub's document from its bytes.
    ///
    /// # Errors
    /// As [`HubConfig::read`], and where a byte is no UTF-8.
    pub fn read_bytes(document: &'t [u8]) -> Result<Self, ConfigError> {
        Self::read(crate::document::utf8(document)?)
    }

    /// Every mistake of the hub's document: those of each account too.
    #[must_use]
    pub fn mistakes(document: &[u8]) -> Vec<ConfigError> {
        let is_of_hub = |error: &ConfigError| {
            let within = error.key.strip_prefix(ACCOUNTS);
            within.is_some_and(|within| within.is_empty() || within.starts_with('.'))
                || error.key.ends_with(HUB_BUDGET_KEY)
        };
        // No account's configuration has these keys.
        let mut found = mistakes(document);
        found.retain(|error| !is_of_hub(error));
        if let Ok(text) = crate::document::utf8(document) {
            if let Ok(mut tree) = DOCUMENT.parse(text) {
                found.extend(mistakes_of_accounts(text, &tree));
                found.extend(take_shared_budgets(text, &mut tree).err().map(ConfigError::from));
            }
            found.extend(HubConfig::read(text).err());
        }
        found.sort_by(|one, other| (one.line, one.column, &one.key).cmp(&(other.line, other.column, &other.key)));
        found.dedup_by(|one, other| (one.line, &one.key) == (other.line, &other.key));
        found
    }

    /// The legal entries without an effect, or with a smaller one than expected, among the lines for all accounts; none of a document with mistakes.
    #[must_use]
    pub fn notes(document: &[u8]) -> Vec<ConfigNote> {
        let Ok(text) = crate::document::utf8(document) else { return Vec::new() };
        let config = HubConfig::read(text).and_then(|hub| {
            let config: Config = DOCUMENT.read_table("", &hub.lines.into_tree(), &[])?;
            Ok(config)
        });
        config.map(|config| notes(&config, text)).unwrap_or_default()
    }

    /// The accounts that it names.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        self.accounts.keys().map(String::as_str)
    }

    /// The teams whose budget several accounts share, each with these accounts.
    #[must_use]
    pub const fn shared_budgets(&self) -> &BTreeMap<TeamName, BTreeSet<AccountId>> {
        &self.shared_budgets
    }

    /// `true` for the path of a budget that this account shares with others.
    pub(super) fn is_shared_budget(&self, account: &str, path: &[String]) -> bool {
        let [teams, team, key] = path else { return false };
        let accounts = self.shared_budgets.get(team.as_str()).filter(|_| teams == TEAMS && key == BUDGET);
        accounts.is_some_and(|accounts| accounts.iter().any(|sharing| sharing.as_str() == account))
    }

    /// A shared budget has one amount, which all of its accounts have in common.
    fn check_amounts(&self, text: &str) -> Result<(), DocumentError> {
        for (team, accounts) in &self.shared_budgets {
            let path = [TEAMS, team.as_str(), BUDGET].map(str::to_owned);
            let key = dotted(path.iter().map(String::as_str));
            let Some(line) = self.lines.values.get(&path[..]) else {
                let number = self.lines.section(&path[..2]).unwrap_or(1);
                let problem =
                    format!("the accounts of `{HUB_BUDGET_KEY}` have no budget to share: write `{BUDGET}` beside it");
                return Err(DocumentError { line: number, column: 1, key, problem });
            };
            let own_amount = |account: &AccountId| self.accounts.get(account.as_str())?.lines.number(&path);
            let own_amounts = accounts.iter().filter_map(|account| Some((account, own_amount(account)?)));
            if let Some((account, number)) = { own_amounts }.next() {
                let problem = format!(
                    "account {account} shares the budget of line {}, and a shared budget has one amount: remove this line, or the account \
                     from `{HUB_BUDGET_KEY}`",
                    line.number
                );
                return Err(DocumentError {
                    line: number,
                    column: 1,
                    key: format!("{ACCOUNTS}.{account}.{key}"),
                    problem,
                });
            }
        }
        let all: BTreeSet<&AccountId> = self.shared_budgets.values().flatten().collect();
        if all.len() > SHARING_ACCOUNTS_MAX {
            let problem = format!(
                "{} accounts share budgets; {SHARING_ACCOUNTS_MAX} are the most, of all budgets together",
                all.len()
            );
            return Err(located(text, 0, HUB_BUDGET_KEY, &problem));
        }
        Ok(())
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

/// The mistakes of the sections of accounts: of each all, unless one is wrong as a whole.
fn mistakes_of_accounts(text: &str, tree: &DeTable<'_>) -> Vec<ConfigError> {
    let mut found = Vec::new();
    let Some((section, accounts)) = tree.get_key_value(ACCOUNTS) else { return found };
    let DeValue::Table(accounts) = accounts.get_ref() else { return found };
    for (id, lines) in accounts {
        let name: &str = id.get_ref();
        let mut lines = lines.clone();
        let mut left = MISTAKES_MAX;
        while let Some(rest) = left.checked_sub(1) {
            left = rest;
            let Err(error) = read_account(text, (section.span(), id), lines.clone()) else { break };
            let prefix = format!("{}.", dotted([ACCOUNTS, name].into_iter()));
            let plain = format!("{ACCOUNTS}.{name}.");
            let key = error.key.strip_prefix(&prefix).or_else(|| error.key.strip_prefix(&plain)).map(str::to_owned);
            found.push(error);
            let DeValue::Table(table) = lines.get_mut() else { break };
            // What is wrong is taken out, and the rest is read again.
            if !key.is_some_and(|key| take_out(table, &key)) {
                break;
            }
        }
    }
    found
}

/// Takes the entry of that full key out; `false` if there is none.
fn take_out(table: &mut DeTable<'_>, key: &str) -> bool {
    let names: Vec<String> = table.keys().map(|name| name.get_ref().to_string()).collect();
    for name in names {
        let quoted = dotted([name.as_str()].into_iter());
        if quoted == key {
            return table.remove(name.as_str()).is_some();
        }
        let within = key.strip_prefix(&quoted).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(within), Some(DeValue::Table(section))) =
            (within, table.get_mut(name.as_str()).map(Spanned::get_mut))
        {
            return take_out(section, within);
        }
    }
    false
}

/// Takes the lists of accounts out of the sections of teams: they are no keys of an account's configuration.
fn take_shared_budgets(
    text: &str,
    tree: &mut DeTable<'_>,
) -> Result<BTreeMap<TeamName, BTreeSet<AccountId>>, DocumentError> {
    let mut shared = BTreeMap::new();
    let Some(DeValue::Table(teams)) = tree.get_mut(TEAMS).map(Spanned::get_mut) else { return Ok(shared) };
    for (team, section) in teams {
        let DeValue::Table(section) = section.get_mut() else { continue };
        if let Some(list) = section.remove(HUB_BUDGET_KEY) {
            let team = team.get_ref().as_ref();
            let key = dotted([TEAMS, team, HUB_BUDGET_KEY].into_iter());
            shared.insert(TeamName::new(team), read_sharing_accounts(text, &key, &list)?);
        }
    }
    Ok(shared)
}

fn read_sharing_accounts(
    text: &str,
    key: &str,
    list: &Spanned<DeValue<'_>>,
) -> Result<BTreeSet<AccountId>, DocumentError> {
    const LIST: &str = "write a list of the ids of at least two accounts, such as [\"111122223333\", \"444455556666\"]";
    let wrong = |at: usize, problem: &str| located(text, at, key, problem);
    let DeValue::Array(items) = list.get_ref() else { return Err(wrong(list.span().start, LIST)) };
    let mut accounts = BTreeSet::new();
    for item in items {
        let DeValue::String(id) = item.get_ref() else { return Err(wrong(item.span().start, LIST)) };
        let account = AccountId::parse(id).map_err(|problem| wrong(item.span().start, &problem.to_string()))?;
        if !accounts.insert(account) {
            return Err(wrong(item.span().start, &format!("{id} is in the list twice")));
        }
    }
    if accounts.len() < 2 {
        return Err(wrong(list.span().start, LIST));
    }
    Ok(accounts)
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
