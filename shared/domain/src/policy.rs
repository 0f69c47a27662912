//! The policies: what is done to whom, and why. One file per rule; each begins with what the rule means.

pub mod claim;
pub mod expired;
pub mod explain;
mod follow;
pub mod hours;
pub mod idle;
pub mod instances;
pub mod lifetime;
pub mod orphaned;
pub mod over_budget;
mod settle;
pub mod untagged;
pub mod volumes;

use jiff::Timestamp;

use crate::budget::Standings;
use crate::config::{Config, DiskPolicy, RuleAction};
use crate::id::TeamName;
use crate::instance::{Instance, Purchase, Tags};
use crate::mode::Mode;
use crate::plan::{Because, OnlyTold};
use crate::price::PriceBook;
use crate::rule::{Ending, Rule};
use crate::usage::Usage;
use crate::vocabulary::Vocabulary;

use claim::{Claim, Jobs};

/// What the account wants: its configuration, under the function's own ceiling, and what things cost.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The account's configuration.
    pub config: Config,
    /// What no resource's mode exceeds: `CURFEW_MODE`, and observe where nobody listens.
    pub ceiling: Mode,
    /// What things cost.
    pub prices: PriceBook,
    /// Where budgets stand, of those by which instances may be stopped.
    pub budgets: Standings,
    /// What the states of the jobs say that instances name.
    pub jobs: Jobs,
}

/// One instance with everything a rule may look at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The instance; it runs.
    pub instance: &'a Instance,
    /// What its tags say.
    pub says: &'a Vocabulary,
    /// What it has been doing.
    pub usage: &'a Usage,
    /// The configuration.
    pub config: &'a Config,
    /// Where budgets stand.
    pub budgets: &'a Standings,
    /// Whose it is, as far as jobs go.
    pub claim: Claim<'a>,
    /// When it is.
    pub now: Timestamp,
}

/// What one rule finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The rule holds, or does not apply.
    Kept,
    /// Nobody can say: neither a reason to act nor to forget an announcement.
    Unknown,
    /// The rule is broken.
    Broken(Broken),
}

/// A broken rule and what is due for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// The evidence.
    pub because: Because,
    /// What is due.
    pub due: Due,
}

/// What is due for a broken rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Due {
    /// At once: its owner wrote the moment down.
    Now(Ending, Timestamp),
    /// From that moment on, if it is first announced now.
    From(Ending, Timestamp),
    /// A message, and why nothing more.
    Tell(OnlyTold),
}

/// What says in which mode a resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModeFrom {
    /// Its own `curfew:mode`.
    Tag,
    /// Its owner wrote the end down.
    OwnersOwnEnd,
    /// `[untagged] mode`.
    Untagged,
    /// Its team's mode.
    Team(TeamName),
    /// `mode` at the top of the configuration.
    Account,
}

impl Subject<'_> {
    /// The team, by the account's team tag; `None` where the tag is absent or blank.
    #[must_use]
    pub fn team(self) -> Option<TeamName> {
        team_of(&self.instance.tags, self.config)
    }

    /// The required tags it lacks. A blank value is no value.
    #[must_use]
    pub fn missing_tags(self) -> Vec<String> {
        missing_tags(&self.instance.tags, self.config)
    }

    /// The effective mode for a rule, before the ceiling.
    ///
    /// Its own `curfew:mode`; else, for an end that its owner wrote down, enforce; else, where it lacks a required tag,
    /// the account's mode for untagged ones; else its team's; else the account's. A budget is enforced no more than its holder's
    /// own mode.
    #[must_use]
    pub fn mode(self, rule: Rule) -> Mode {
        self.mode_and_its_source(rule).0
    }

    fn mode_and_its_source(self, rule: Rule) -> (Mode, ModeFrom) {
        if self.says.mode.is_none() && rule.is_owners_own() {
            return (Mode::Enforce, ModeFrom::OwnersOwnEnd);
        }
        // Its tags were copied from a job, or were meant for one, `curfew:mode=enforce` too: they opt nothing in, only out.
        let is_stranger =
            matches!(self.claim, Claim::Stranger(_)) && !rule.is_owners_own() && self.says.mode != Some(Mode::Observe);
        // Also once the tags are there: what was announced for their lack is called off in the mode it was announced in.
        if (self.says.mode.is_none() || is_stranger) && rule == Rule::Untagged {
            return (self.config.untagged.mode, ModeFrom::Untagged);
        }
        let (mode, from) = if is_stranger {
            (self.config.untagged.mode, ModeFrom::Untagged)
        } else {
            effective_mode_and_its_source(self.says, &self.instance.tags, self.config)
        };
        match over_budget::mode(self).filter(|_| rule == Rule::OverBudget) {
            Some((of_budget, whose)) if of_budget < mode => (of_budget, whose),
            _ => (mode, from),
        }
    }

    /// What may be done where a rule wants `action`: the milder thing where the instance cannot be stopped, where
    /// stopping saves nothing, or where it would lose NVMe storage that is to be kept.
    fn feasible(self, action: RuleAction, local_disk: DiskPolicy) -> Result<Ending, OnlyTold> {
        let ending = match action {
            RuleAction::Notify => return Err(OnlyTold::Configured),
            RuleAction::Stop => Ending::Stop,
            RuleAction::Terminate => Ending::Terminate,
        };
        match self.instance.purchase {
            Purchase::SpotPersistent => return Err(OnlyTold::PersistentSpot),
            Purchase::SpotUnknown => return Err(OnlyTold::SpotRequestUnknown),
            Purchase::OnDemand | Purchase::SpotOneTime | Purchase::CapacityBlock => {}
        }
        if ending == Ending::Stop && self.cannot_be_stopped() {
            return Err(OnlyTold::CannotBeStopped);
        }
        if self.instance.prepaid.is_some() {
            return Err(OnlyTold::SavesNothing);
        }
        if self.instance.machine.instance_storage_gb > 0 && local_disk == DiskPolicy::Keep {
            return Err(OnlyTold::LocalDisk);
        }
        Ok(ending)
    }

    /// EC2 user guide, "Stop and start Amazon EC2 instances": neither one-time Spot nor instance-store roots.
    fn cannot_be_stopped(self) -> bool {
        self.instance.root_on_instance_storage || self.instance.purchase == Purchase::SpotOneTime
    }

    /// Only an owner's own `curfew:local-disk=keep` speaks to other rules than idle.
    fn own_local_disk(self) -> DiskPolicy {
        self.says.local_disk.unwrap_or(DiskPolicy::Expendable)
    }
}

/// The effective mode of a resource for a reason that Curfew inferred, before the ceiling: its own `curfew:mode`; else, where
/// it lacks a required tag, the account's mode for untagged ones; else its team's; else the account's.
fn effective_mode(says: &Vocabulary, tags: &Tags, config: &Config) -> Mode {
    effective_mode_and_its_source(says, tags, config).0
}

fn effective_mode_and_its_source(says: &Vocabulary, tags: &Tags, config: &Config) -> (Mode, ModeFrom) {
    if let Some(own) = says.mode {
        return (own, ModeFrom::Tag);
    }
    if !missing_tags(tags, config).is_empty() {
        return (config.untagged.mode, ModeFrom::Untagged);
    }
    let of_team = team_of(tags, config).and_then(|team| Some((config.team(&team)?.mode?, ModeFrom::Team(team))));
    of_team.unwrap_or((config.mode, ModeFrom::Account))
}

/// The required tags that are missing. A blank value is no value.
fn missing_tags(tags: &Tags, config: &Config) -> Vec<String> {
    config.tags.required.iter().filter(|key| value_of(tags, key).is_none()).cloned().collect()
}

/// The value of a tag, unless it is blank.
pub(crate) fn value_of<'a>(tags: &'a Tags, key: &str) -> Option<&'a str> {
    tags.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// The team of a resource, by the account's team tag.
#[must_use]
pub fn team_of(tags: &Tags, config: &Config) -> Option<TeamName> {
    value_of(tags, &config.tags.team).map(TeamName::from)
}

/// The owner of a resource, by the account's owner tag.
#[must_use]
pub fn owner_of(tags: &Tags, config: &Config) -> Option<String> {
    value_of(tags, &config.tags.owner).map(str::to_owned)
}
