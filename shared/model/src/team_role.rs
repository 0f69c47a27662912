//! The names of a team's role, and of the stack that makes it.

use sha2::{Digest, Sha256};

use crate::digest::to_hex;
use crate::fault::InvalidValue;
use crate::foreign_text::shell_word;
use crate::id::TeamName;

/// Every instance profile, and role, that Curfew makes for one team begins so.
pub const TEAM_ROLE_PREFIX: &str = "curfew-job-";

/// IAM user guide, "IAM and AWS STS quotas": a role's name has at most 64 characters; the prefix takes 11.
const TEAM_CHARACTERS_MAX: usize = 64 - TEAM_ROLE_PREFIX.len();

/// The hex digits of the hash that replaces the end of a long name.
const HASH_DIGITS: usize = 20;

/// The name of a team's role, and of its instance profile: `curfew-job-<team>`, and never that of another team.
///
/// `a` to `z`, digits, `.`, `_` and `-` stand for themselves. Every other character is `=` and two hex digits: IAM ignores case in names (IAM user
/// guide, "IAM and AWS STS quotas"), so `Vision` is `curfew-job-=56ision`. A name that would be too long ends in `==` and a hash of the whole,
/// which no other spelling contains.
///
/// # Errors
/// Why there is none: a name with letters beyond ASCII. `CloudFormation` writes a `?` for them, which a policy would take for any letter.
pub fn team_role(team: &TeamName) -> Result<String, InvalidValue> {
    let name = team.as_str();
    if !name.is_ascii() || name.is_empty() {
        return Err(InvalidValue::new(format!(
            "the team {name:?} can have no role of its own: its name has letters beyond ASCII, which a policy cannot name safely. Call the \
             team something else; or make a role under the path /curfew/ by hand, allow it under [teams.<name>] instance_profiles, and name \
             it under [machine] instance_profile"
        )));
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    let spelled: String = name
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("={byte:02x}") })
        .collect();
    if spelled.len() <= TEAM_CHARACTERS_MAX {
        return Ok(format!("{TEAM_ROLE_PREFIX}{spelled}"));
    }
    let begin: String = spelled.chars().take(TEAM_CHARACTERS_MAX - HASH_DIGITS - 2).collect();
    let hash = to_hex(&Sha256::digest(name.as_bytes())[..HASH_DIGITS / 2]);
    Ok(format!("{TEAM_ROLE_PREFIX}{begin}=={hash}"))
}

/// The name of the `CloudFormation` stack that makes a team's role. It takes letters, digits and hyphens only: of another name it is the
/// part that it takes, and a hash of the whole.
#[must_use]
pub fn team_stack_name(team: &TeamName) -> String {
    let name = team.as_str();
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if name.chars().all(is_plain) && name.len() <= TEAM_CHARACTERS_MAX {
        return format!("curfew-team-{name}");
    }
    let begin: String = name.chars().filter(char::is_ascii_alphanumeric).take(TEAM_CHARACTERS_MAX).collect();
    format!("curfew-team-{begin}-{}", to_hex(&Sha256::digest(name.as_bytes())[..6]))
}

/// The command that makes a team's role, as a shell takes it.
#[must_use]
pub fn create_team_command(team: &TeamName) -> String {
    format!("curfew team create {}", shell_word(team.as_str()))
}

/// The command that lets a team's role read a bucket, or a folder or an object of it: `s3://bucket/path`.
#[must_use]
pub fn grant_read_command(team: &TeamName, address: &str) -> String {
    format!("{} --read {}", create_team_command(team), shell_word(address))
}

/// The command that lets a team's role read a secret or a parameter.
#[must_use]
pub fn grant_secret_command(team: &TeamName, arn: &str) -> String {
    format!("{} --secret-arn {}", create_team_command(team), shell_word(arn))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn team(name: &str) -> TeamName {
        TeamName::new(name)
    }

    fn check_name(name: &str, expect: &str) {
        assert_eq!(team_role(&team(name)).unwrap(), expect);
    }

    #[test]
    fn a_team_has_a_role_of_its_name() {
        check_name("vision", "curfew-job-vision");
        check_name("vision-x_2.eu", "curfew-job-vision-x_2.eu");
        check_name("Vision", "curfew-job-=56ision");
        check_name("computer vision", "curfew-job-computer=20vision");
        check_name("a=b*?${x}/'", "curfew-job-a=3db=2a=3f=24=7bx=7d=2f=27");
        check_name(&"a".repeat(53), &format!("curfew-job-{}", "a".repeat(53)));
        check_name(&"a".repeat(54), "curfew-job-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa==a3f01b6939256127582a");
        for none in ["Köln", "视觉", ""] {
            assert!(team_role(&team(none)).unwrap_err().to_string().contains("no role of its own"), "{none}");
        }
    }

    #[test]
    fn a_stack_has_the_name_of_its_team_if_possible() {
        assert_eq!(team_stack_name(&team("vision-x")), "curfew-team-vision-x");
        assert_eq!(team_stack_name(&team("computer vision")), "curfew-team-computervision-c1c77e5bab22");
    }

    #[test]
    fn the_command_is_one_that_a_shell_takes() {
        let command = |name: &str| create_team_command(&team(name));
        assert_eq!(command("vision-x"), "curfew team create vision-x");
        assert_eq!(command("computer vision"), "curfew team create 'computer vision'");
        assert_eq!(command("a'; rm -rf ~"), "curfew team create 'a'\\''; rm -rf ~'");
    }

    proptest! {
        #[test]
        fn no_two_teams_have_one_role(names in prop::collection::btree_set("[ -~]{1,70}|[a-cA-C=]{1,4}|a{50,56}", 2..20)) {
            let roles: BTreeSet<String> =
                names.iter().map(|name| team_role(&team(name)).unwrap().to_ascii_lowercase()).collect();
            prop_assert_eq!(roles.len(), names.len());
            for role in roles {
                prop_assert!(role.len() <= 64);
                prop_assert!(role.chars().all(|one| one.is_ascii_alphanumeric() || "+=,.@-_".contains(one)));
            }
        }
    }
}
