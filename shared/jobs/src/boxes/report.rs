//! What the agent of a box reports of it in its heartbeat.

use jiff::Timestamp;
use model::fault::one_line;
use serde::{Deserialize, Serialize};

use crate::spec::checks;

/// The longest text of a report, in characters.
const TEXT_CHARACTERS_MAX: usize = 200;

/// A box as its machine sees it: the words of a machine, which only people are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxReport {
    /// Time since which people can log in.
    pub ready_at: Timestamp,
    /// The user that they log in as.
    pub user: String,
    /// The public host key of its sshd, `<type> <base64>`.
    pub host_key: String,
    /// The reason for which it is in use, or not: `GPU 91 %`, `ssh, input 09:00`, `idle since 12:35`.
    pub why: String,
    /// The last time that it was in use.
    pub in_use_at: Timestamp,
    /// `true` if it could not be judged at the last look.
    #[serde(default)]
    pub is_unknown: bool,
    /// Its next end, as far as its agent knows.
    pub ends_at: Timestamp,
    /// The last time that everything written was on the home's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_at: Option<Timestamp>,
}

impl BoxReport {
    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        let short = |text: &str| one_line(text, TEXT_CHARACTERS_MAX);
        Self { user: short(&self.user), host_key: short(&self.host_key), why: short(&self.why), ..self }
    }

    /// The host key as a line of `known_hosts` has it; `None` if it is none, so that nothing else can be written there.
    #[must_use]
    pub fn known_host_key(&self) -> Option<&str> {
        check_key(&self.host_key).then_some(self.host_key.as_str())
    }

    /// The user that people log in as; `None` if that is no name of a user, so that nothing else can be written into a configuration of ssh.
    #[must_use]
    pub fn login_user(&self) -> Option<&str> {
        checks::user(&self.user).is_ok().then_some(self.user.as_str())
    }
}

/// `true` for `ssh-ed25519 <base64>` and nothing more.
fn check_key(key: &str) -> bool {
    let base64 = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    key.strip_prefix("ssh-ed25519 ").is_some_and(|key| (40..=120).contains(&key.len()) && base64(key))
}

/// `true` for the public half of an ed25519 key pair, with or without a comment: no options, and one line.
#[must_use]
pub fn is_public_key(line: &str) -> bool {
    let mut words = line.splitn(3, ' ');
    let key = [words.next(), words.next()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let is_comment = |text: &str| text.len() <= 100 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    check_key(&key) && words.next().is_none_or(is_comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q";

    #[test]
    fn a_key_is_one_line_without_options() {
        assert!(is_public_key(KEY) && is_public_key(&format!("{KEY} ada@laptop")));
        let options = format!("command=\"sh\" {KEY}");
        let second = format!("{KEY} ada\nssh-ed25519 AAAA");
        for wrong in ["", "ssh-rsa AAAAB3NzaC1yc2E", "ssh-ed25519 AAAA", &options, &second] {
            assert!(!is_public_key(wrong), "{wrong}");
        }
    }
}
