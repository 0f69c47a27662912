//! Ownership of a resource, by the tags that the account's configuration names.

use crate::config::Config;
use crate::fault::breaks_line;
use crate::id::TeamName;
use crate::instance::Tags;

/// Length of an address before its `@`, in bytes (RFC 5321, section 4.5.3.1.1).
const LOCAL_PART_MAX: usize = 64;

/// `true` if a text can be a team's name: not blank, without invisible blanks at its ends, and without control characters, which no tag of
/// a machine may have.
#[must_use]
pub fn is_team(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains(char::is_control)
}

/// The requirements of [`is_team`], for people to read.
pub const TEAM_NAME_RULE: &str =
    "the name of a team is not blank, and has no blanks at its ends and no control characters";

/// The required tags that are missing. A blank value is no value.
#[must_use]
pub fn missing_tags(tags: &Tags, config: &Config) -> Vec<String> {
    config.tags.required.iter().filter(|key| value_of(tags, key).is_none()).cloned().collect()
}

/// The value of a tag, unless it is blank.
#[must_use]
pub fn value_of<'a>(tags: &'a Tags, key: &str) -> Option<&'a str> {
    tags.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// The team of a resource, by the account's team tag; `None` also where no team can be called so.
#[must_use]
pub fn team_of(tags: &Tags, config: &Config) -> Option<TeamName> {
    value_of(tags, &config.tags.team).filter(|team| is_team(team)).map(TeamName::from)
}

/// The owner of a resource, by the account's owner tag.
#[must_use]
pub fn owner_of(tags: &Tags, config: &Config) -> Option<String> {
    value_of(tags, &config.tags.owner).map(str::to_owned)
}

/// The sender of mails to owners.
///
/// Anybody who may tag a resource writes its owner tag. So a mail goes to the domain of the sender alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerSender {
    address: String,
}

impl OwnerSender {
    /// The sender, if owners are mailed.
    #[must_use]
    pub fn from_config(config: &Config) -> Option<Self> {
        let address = config.report.sender.clone().filter(|_| config.notify.owners)?;
        Some(Self { address })
    }

    /// The address that mails are sent from.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns `true` if an owner is mailed: the value of the owner tag is a plain address of the sender's domain.
    #[must_use]
    pub fn mails(&self, owner: &str) -> bool {
        let domain = |address: &str| address.rsplit_once('@').map(|(_, domain)| domain.to_ascii_lowercase());
        let is_plain = |name: &str| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
            (1..=LOCAL_PART_MAX).contains(&name.len()) && name.bytes().all(is_legal)
        };
        let name = owner.rsplit_once('@').map(|(name, _)| name);
        name.is_some_and(is_plain) && domain(owner) == domain(&self.address)
    }
}

/// Returns `true` if the owner of a resource with these tags is mailed.
#[must_use]
pub fn is_owner_mailed(tags: &Tags, config: &Config) -> bool {
    let sender = OwnerSender::from_config(config);
    sender.is_some_and(|sender| owner_of(tags, config).is_some_and(|owner| sender.mails(&owner)))
}

/// The keys with a value that differ from this one only to a program: in case, by blanks, or by letters that look alike.
#[must_use]
pub fn near_misses<'a>(tags: &'a Tags, wanted: &str) -> Vec<&'a str> {
    let reading = folded(wanted);
    let is_near = |(key, value): &(&'a String, &String)| {
        key.as_str() != wanted && !value.trim().is_empty() && folded(key) == reading
    };
    tags.iter().filter(is_near).map(|(key, _)| key.as_str()).collect()
}

/// The key as its reader takes it: in lower case, without blanks, and with Latin letters for their look-alikes.
fn folded(key: &str) -> String {
    let latin = |letter: char| match letter {
        'а' | 'α' => 'a',
        'в' | 'β' => 'b',
        'с' => 'c',
        'е' | 'ε' => 'e',
        'н' | 'η' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' | 'μ' => 'm',
        'ո' | 'ν' => 'n',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'ѡ' | 'ω' | 'ԝ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'υ' => 'y',
        'ａ'..='ｚ' => char::from_u32(u32::from(letter).saturating_sub(0xfee0)).unwrap_or(letter),
        other => other,
    };
    let seen = key.chars().filter(|letter| !(letter.is_whitespace() || breaks_line(*letter)));
    seen.flat_map(char::to_lowercase).map(latin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_of_the_senders_domain_is_mailed() {
        let sender = |text: &str| OwnerSender::from_config(&Config::read(text).unwrap());
        let sending = "[notify]\nowners = true\n[report]\nsender = \"curfew@Example.com\"";
        let mails = |owner: &str| sender(sending).is_some_and(|sender| sender.mails(owner));
        for owner in ["ada@example.com", "ada.lovelace+gpu@EXAMPLE.com"] {
            assert!(mails(owner), "{owner}");
        }
        for owner in [
            "ada",
            "ada@example.org",
            "ada@mail.example.com",
            "@example.com",
            "ada@eve.example@example.com",
            "ada <ada@example.com>",
            "ada,eve@example.com",
            "ada@example.com ",
            "ada@example.com\r\nBcc: eve@example.com",
            "",
        ] {
            assert!(!mails(owner), "{owner}");
        }
        assert!(!mails(&format!("{}@example.com", "a".repeat(65))));
        assert_eq!(sender("[notify]\nowners = true"), None);
        assert_eq!(sender("[report]\nsender = \"curfew@example.com\""), None);
    }

    fn check_team(value: &str, expect: Option<&str>) {
        let config = Config::default();
        let tags = Tags::from([(config.tags.team.clone(), value.to_owned())]);
        assert_eq!(team_of(&tags, &config), expect.map(TeamName::from), "{value:?}");
        assert_eq!(missing_tags(&tags, &config).contains(&config.tags.team), value.trim().is_empty(), "{value:?}");
    }

    #[test]
    fn a_tag_names_a_team() {
        check_team("vision", Some("vision"));
        check_team(" Bild Köln ", Some("Bild Köln"));
        check_team(" ", None);
    }

    /// The tag is there all the same: the resource does not count as untagged.
    #[test]
    fn a_tag_with_a_control_character_names_no_team() {
        for value in ["vis\nion", "vis\tion", "vis\u{1b}ion", "vis\u{9b}ion"] {
            check_team(value, None);
        }
    }

    #[test]
    fn a_near_miss_looks_like_the_required_key() {
        let near = |key: &str, value: &str| {
            let tags = Tags::from([(key.to_owned(), value.to_owned())]);
            near_misses(&tags, "Team").len()
        };
        for key in ["team", "TEAM", "Team ", " Te am", "\u{200b}Team", "Тeam", "Теам", "Ｔｅａｍ"] {
            assert_eq!(near(key, "vision"), 1, "{key:?}");
        }
        for (key, value) in [("Team", "vision"), ("team", " "), ("Teams", "x"), ("Owner", "x")] {
            assert_eq!(near(key, value), 0, "{key:?}");
        }
    }
}
