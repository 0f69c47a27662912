//! The limits of boxes that the configuration sets, and the judgement of how many a person has up.

use jiff::SignedDuration;
use model::config::{Config, TeamConfig};
use model::foreign_text::{quoted_unless_word, shell_word};
use model::id::TeamName;

use crate::machine_ceiling::Ceiling;

/// The most boxes that a refusal names.
const NAMED_MAX: usize = 5;

/// The lower ones of the limits of the account and of the team: no team exceeds the account's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxLimits {
    pub(crate) per_owner: Ceiling<u32>,
    pub(crate) runtime: Ceiling<SignedDuration>,
    pub(crate) idle_min: SignedDuration,
    pub(crate) idle: Ceiling<SignedDuration>,
    pub(crate) home_gib: Ceiling<u32>,
}

/// A box of a team with a job that holds it, as the documents of `run-jobs` have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxInUse {
    /// `<team>/<name>`.
    pub name: String,
    /// The owner of the job that holds it.
    pub owner: Option<String>,
    /// `true` if that job is over: the box is free once its machine is gone.
    pub is_ending: bool,
}

/// The judgement of another box of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoxAllowance {
    Allowed,
    /// Only once one that is ending is gone.
    Later,
    Refused(TooManyBoxes),
}

/// The boxes of a person that leave no room for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooManyBoxes {
    owner: Option<String>,
    up: Vec<String>,
    limit: Ceiling<u32>,
}

impl BoxLimits {
    /// The limits of a team's boxes; without a team those of the account.
    #[must_use]
    pub fn from_config(config: &Config, team: Option<&TeamName>) -> Self {
        let boxes = &config.boxes;
        let own = team.and_then(|team| Some((team, config.team(team)?)));
        let idle = lower(own, ["idle_max", "box_idle_max"], boxes.idle_max, |team| team.box_idle_max);
        Self {
            per_owner: lower(own, ["per_owner_max", "boxes_per_owner_max"], boxes.per_owner_max, |team| {
                team.boxes_per_owner_max
            }),
            runtime: lower(own, ["runtime_max", "box_runtime_max"], boxes.runtime_max, |team| team.box_runtime_max),
            // A team that shortens the longest below the shortest leaves one length.
            idle_min: boxes.idle_min.min(idle.most),
            idle,
            home_gib: lower(own, ["home_gib_max", "box_home_gib_max"], boxes.home_gib_max, |team| {
                team.box_home_gib_max
            }),
        }
    }

    /// The largest home, in GiB.
    #[must_use]
    pub const fn home_gib_max(&self) -> u32 {
        self.home_gib.most
    }

    /// Judges whether an owner may have one more box up, beside all `others` of the team. Those without an owner count as one person's.
    #[must_use]
    pub fn judge_one_more(&self, owner: Option<&str>, others: &[BoxInUse]) -> BoxAllowance {
        let own = || others.iter().filter(|other| other.owner.as_deref() == owner);
        let is_full = |count: usize| u32::try_from(count).unwrap_or(u32::MAX) >= self.per_owner.most;
        let up: Vec<String> = own().filter(|other| !other.is_ending).map(|other| other.name.clone()).collect();
        if is_full(up.len()) {
            let owner = owner.map(str::to_owned);
            return BoxAllowance::Refused(TooManyBoxes { owner, up, limit: self.per_owner.clone() });
        }
        if is_full(own().count()) { BoxAllowance::Later } else { BoxAllowance::Allowed }
    }
}

impl TooManyBoxes {
    /// The refusal, for the person: the boxes that are up, the limit, and the command that ends one.
    #[must_use]
    pub fn describe(&self) -> String {
        let Ceiling { most, key } = &self.limit;
        let Some(first) = self.up.first() else {
            return format!("{key} of the configuration is {most}, so no box is brought up");
        };
        let of = self
            .owner
            .as_deref()
            .map_or_else(|| "no owner".to_owned(), |owner| format!("the owner {}", quoted_unless_word(owner)));
        let count = self.up.len();
        let named = self.up.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match count.saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (boxes, are) = if count == 1 { ("box", "is") } else { ("boxes", "are") };
        format!(
            "{count} {boxes} of {of} {are} up, {named}{more}, and {key} of the configuration is {most}. End one:  curfew box down {}",
            shell_word(first)
        )
    }
}

fn lower<T: Ord>(
    own: Option<(&TeamName, &TeamConfig)>,
    [account_key, team_key]: [&str; 2],
    most: T,
    of_team: impl Fn(&TeamConfig) -> Option<T>,
) -> Ceiling<T> {
    let account = Ceiling::of_account("boxes", account_key, most);
    let own = own.and_then(|(team, config)| Some(Ceiling::of_team(team, team_key, of_team(config)?)));
    own.filter(|own| own.most < account.most).unwrap_or(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(config: &str) -> BoxLimits {
        BoxLimits::from_config(&Config::read(config).unwrap(), Some(&"vision".into()))
    }

    fn in_use(name: &str, owner: Option<&str>, is_ending: bool) -> BoxInUse {
        BoxInUse { name: format!("vision/{name}"), owner: owner.map(str::to_owned), is_ending }
    }

    fn check(config: &str, owner: Option<&str>, others: &[BoxInUse], expect: &str) {
        let said = match limits(config).judge_one_more(owner, others) {
            BoxAllowance::Refused(refused) => refused.describe(),
            other => format!("{other:?}"),
        };
        assert_eq!(said, expect, "{owner:?} {others:?}");
    }

    #[test]
    fn a_person_has_so_many_up() {
        let ada = Some("ada");
        let others = [in_use("a", ada, false), in_use("b", Some("bob"), false), in_use("c", None, false)];
        check("", ada, &others, "Allowed");
        check("", None, &others, "Allowed");
        let ending = [&others[..], &[in_use("d", ada, true)]].concat();
        check("", ada, &ending, "Later");
        let full = [&others[..], &[in_use("d", ada, false), in_use("e", None, false)]].concat();
        check(
            "",
            ada,
            &full,
            "2 boxes of the owner ada are up, vision/a, vision/d, and `[boxes] per_owner_max` of the configuration is 2. End one:  curfew \
             box down vision/a",
        );
        check(
            "[teams.vision]\nboxes_per_owner_max = 1",
            Some("bob"),
            &full,
            "1 box of the owner bob is up, vision/b, and `[teams.vision] boxes_per_owner_max` of the configuration is 1. End one:  curfew \
             box down vision/b",
        );
        check(
            "",
            None,
            &full,
            "2 boxes of no owner are up, vision/c, vision/e, and `[boxes] per_owner_max` of the configuration is 2. End one:  curfew box \
             down vision/c",
        );
        check(
            "[boxes]\nper_owner_max = 0",
            None,
            &[],
            "`[boxes] per_owner_max` of the configuration is 0, so no box is brought up",
        );
    }

    #[test]
    fn a_refusal_is_short() {
        let others: Vec<BoxInUse> = (0..7).map(|number| in_use(&number.to_string(), Some("a\"\nda"), false)).collect();
        let BoxAllowance::Refused(refused) = limits("").judge_one_more(Some("a\"\nda"), &others) else { panic!() };
        let said = refused.describe();
        assert!(
            said.contains("vision/4 and 2 more,") && !said.contains('\n') && said.contains("the owner \"a' da\""),
            "{said}"
        );
    }

    #[test]
    fn a_team_lowers_what_the_account_allows() {
        let limits = limits(
            "[boxes]\nhome_gib_max = 200\n[teams.vision]\nbox_runtime_max = \"8h\"\nbox_idle_max = \"10m\"\nbox_home_gib_max = 500",
        );
        assert_eq!(
            (limits.runtime.most.as_hours(), limits.runtime.key.as_str()),
            (8, "`[teams.vision] box_runtime_max`")
        );
        assert_eq!((limits.home_gib_max(), limits.home_gib.key.as_str()), (200, "`[boxes] home_gib_max`"));
        assert_eq!((limits.idle_min.as_mins(), limits.idle.most.as_mins()), (10, 10));
    }
}
