//! The policy of an account, the verdict of a rule, and the effective mode of a resource.

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use jiff::Timestamp;
use model::ceiling::{AnnouncementTarget, Ceiling};
use model::config::Config;
use model::curfew_tags::CurfewTags;
use model::gang::Gangs;
use model::id::TeamName;
use model::instance::Tags;
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::moment::after;
use model::ownership::{is_owner_mailed, missing_tags, team_of};
use model::rule::ResourceAction;
use model::subscriptions::KnownReaders;
use plan::{Evidence, NotifyOnlyReason};

use crate::job_ownership::JobStates;

/// The account's configuration under the ceiling, with the facts that the rules need.
#[derive(Debug, Clone)]
pub struct Policy {
    pub config: Config,
    pub ceiling: Ceiling,
    pub prices: PriceBook,
    /// The status of the budgets that may stop what runs.
    pub budgets: BudgetStatuses,
    /// The states of the jobs that instances name.
    pub jobs: JobStates,
    /// The instances that work together.
    pub gangs: Gangs,
}

/// The verdict of one rule.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one for each rule of one resource lives at a time")]
pub enum Verdict {
    /// The rule is not violated, or does not apply.
    Compliant,
    /// The evidence is missing: neither a reason to act nor to call off an announcement.
    Unknown,
    Violated(Violation),
}

/// A violated rule and what is due for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    pub evidence: Evidence,
    pub due: DueAction,
    /// Time at which this occurrence began, or will begin, of a rule that is violated again and again: each evening, or each month. An
    /// announcement with an earlier deadline was about an earlier occurrence.
    pub since: Option<Timestamp>,
}

/// The action that is due for a violated rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DueAction {
    /// An action due at once, because its owner set this time.
    AtOnce(ResourceAction, Timestamp),
    /// An action due from this time on, if a run announces it now.
    After(ResourceAction, Timestamp),
    /// Only a notification, and why.
    NotifyOnly(NotifyOnlyReason),
}

/// The tag or setting that decides the mode of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModeSource {
    /// Its own `curfew:mode`.
    Tag,
    /// A schedule tag of its owner.
    OwnersSchedule,
    /// `[untagged] mode`.
    Untagged,
    /// Its team's mode.
    Team(TeamName),
    /// `[sagemaker] mode`.
    SageMaker,
    /// `mode` at the top of the configuration.
    Account,
}

impl Violation {
    /// A violation without earlier occurrences, whose announcements it could be mistaken for.
    #[must_use]
    pub const fn new(evidence: Evidence, due: DueAction) -> Self {
        Self { evidence, due, since: None }
    }
}

impl Policy {
    /// The maximum mode of a resource for what was announced about it to these readers, or was not yet. `owner_tags` name its team.
    pub(crate) fn ceiling_of(
        &self,
        owner_tags: &Tags,
        announced: Option<&AnnouncedAction>,
        readers: &KnownReaders,
    ) -> Mode {
        let team = team_of(owner_tags, &self.config);
        let is_owner_mailed = is_owner_mailed(owner_tags, &self.config);
        let target = AnnouncementTarget { team: team.as_ref(), is_owner_mailed };
        match announced.filter(|announced| announced.mode == Mode::Enforce) {
            Some(announced) => self.ceiling.of_announced(target, readers, announced.at),
            None => self.ceiling.of(target),
        }
    }

    /// The maximum mode of a resource for what ends without an announcement, and so without a mail that SES has accepted.
    pub(crate) fn ceiling_without_announcement(&self, owner_tags: &Tags) -> Mode {
        self.ceiling.of(team_of(owner_tags, &self.config).as_ref())
    }

    /// Time until which Curfew keeps the snapshots of a volume, by the time of the volume's deletion.
    pub(crate) fn snapshots_kept_until(&self, deleted_at: Timestamp) -> Timestamp {
        after(deleted_at, self.config.volumes.keep_snapshots)
    }
}

/// The configured mode of a resource for a reason that Curfew inferred, before the ceiling: its own `curfew:mode`; else, where
/// it lacks a required tag, the account's mode for untagged ones; else its team's; else the account's.
pub(crate) fn configured_mode(curfew_tags: &CurfewTags, tags: &Tags, config: &Config) -> Mode {
    configured_mode_and_its_source(curfew_tags, tags, config).0
}

pub(crate) fn configured_mode_and_its_source(
    curfew_tags: &CurfewTags,
    tags: &Tags,
    config: &Config,
) -> (Mode, ModeSource) {
    if let Some(own) = curfew_tags.mode {
        return (own, ModeSource::Tag);
    }
    if !missing_tags(tags, config).is_empty() {
        return (config.untagged.mode, ModeSource::Untagged);
    }
    let team_mode = team_of(tags, config).and_then(|team| Some((config.team(&team)?.mode?, ModeSource::Team(team))));
    team_mode.unwrap_or((config.mode, ModeSource::Account))
}
