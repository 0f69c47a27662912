//! The configuration of ssh by which `ssh my-box` finds a box: `~/.ssh/curfew/config` and its `known_hosts`, and the line that includes it.
//!
//! A value of a machine or a document goes into a line only after a check of its own, and a path only if no character of it means something to
//! ssh (`ssh_config(5)`).

use jobs::JobName;
use jobs::boxes::{BoxReport, SSH_PORT};
use model::fault::InvalidValue;
use model::foreign_text::shell_word;
use model::id::{ResourceId, TeamName};
use model::image_source::check_id;
use model::team_folder::team_folder;

/// The line of `~/.ssh/config`. A relative path is below `~/.ssh`.
pub const INCLUDE: &str = "Include curfew/config";

/// The first line of a new file.
const HEADER: &str = "# Written by `curfew box up`, a block for each box. Changes are lost.";

/// One box that people can log in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxHost<'a> {
    pub team: &'a TeamName,
    pub name: &'a JobName,
    pub instance: &'a ResourceId,
    pub report: &'a BoxReport,
    /// `~/.ssh/curfew` as an absolute path.
    pub folder: &'a str,
    /// Path of `curfew`, and the options by which it finds this deployment.
    pub command: &'a [String],
}

/// The name of the files of a box's key, without `.pub`.
#[must_use]
pub fn key_file(team: &TeamName, name: &JobName) -> String {
    format!("{}.{}", team_folder(team), name.as_str())
}

/// The name of a box in `known_hosts`. ssh compares it in lower case.
#[must_use]
pub fn known_host(team: &TeamName, name: &JobName) -> String {
    format!("curfew-{}-{}", team_folder(team), name.as_str()).to_lowercase()
}

impl BoxHost<'_> {
    /// The block of this box.
    ///
    /// # Errors
    /// The value that cannot be written into it.
    pub fn to_block(&self) -> Result<String, InvalidValue> {
        let Self { team, name, instance, report, folder, command } = self;
        check_id(instance.as_str(), "i", "an instance")?;
        let user = report.login_user();
        let user =
            user.ok_or_else(|| InvalidValue::new(format!("the machine names {:?}, which is no user", report.user)))?;
        let folder = checked_path(folder)?;
        if command.iter().any(|word| word.contains(char::is_control)) {
            return Err(InvalidValue::new("the path of curfew, or an option, has a control character"));
        }
        let words = command.iter().map(String::as_str);
        let named = format!("{team}/{}", name.as_str());
        let words: Vec<String> = words.chain(["box", "connect", &named]).map(shell_word).collect();
        let proxy = words.join(" ").replace('%', "%%");
        let key = key_file(team, name).replace('%', "%%");
        let (name, known_host) = (name.as_str(), known_host(team, name));
        Ok(format!(
            "Host {name}\n  HostName {instance}\n  User {user}\n  Port {SSH_PORT}\n  IdentityFile \"{folder}/{key}\"\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile \"{folder}/known_hosts\"\n  HostKeyAlias {known_host}\n  StrictHostKeyChecking yes\n  ServerAliveInterval 15\n  \
             ServerAliveCountMax 4\n  ProxyCommand {proxy}\n"
        ))
    }

    /// The line of `known_hosts`.
    ///
    /// # Errors
    /// If the machine names no host key.
    pub fn to_known_host(&self) -> Result<String, InvalidValue> {
        let key = self.report.known_host_key();
        let key = key.ok_or_else(|| InvalidValue::new("the machine names a host key that is none of type ed25519"))?;
        Ok(format!("{} {key}", known_host(self.team, self.name)))
    }
}

/// Returns the path, if ssh reads it as it is between quotes.
fn checked_path(path: &str) -> Result<&str, InvalidValue> {
    let is_special = |letter: char| letter.is_control() || matches!(letter, '"' | '\\' | '%' | '$');
    if path.contains(is_special) {
        return Err(InvalidValue::new(format!(
            "{path:?} has a character that means something to ssh; set HOME to another path"
        )));
    }
    Ok(path)
}

/// `~/.ssh/curfew/config` with this block for the box of that name, in place of an earlier one.
#[must_use]
pub fn with_block(config: &str, name: &JobName, block: &str) -> String {
    let host = format!("Host {}", name.as_str());
    let mut is_replaced = false;
    let keeps = |line: &&str| {
        if line.starts_with("Host ") {
            is_replaced = *line == host;
        }
        !is_replaced
    };
    let kept: Vec<&str> = config.lines().filter(keeps).collect();
    let kept = if kept.is_empty() { HEADER.to_owned() } else { kept.join("\n") };
    format!("{}\n\n{block}", kept.trim_end())
}

/// `known_hosts` with this line, in place of an earlier one of the same name. The second value is `true` if that had another key.
#[must_use]
pub fn with_known_host(known: &str, line: &str) -> (String, bool) {
    let name = line.split(' ').next().unwrap_or_default();
    let (same, others): (Vec<&str>, Vec<&str>) =
        known.lines().partition(|known| known.split(' ').next().unwrap_or_default() == name);
    let lines: Vec<&str> = others.into_iter().chain([line]).collect();
    (lines.join("\n") + "\n", same.iter().any(|same| *same != line))
}

/// `~/.ssh/config` with [`INCLUDE`] as its first line; `None` if it includes the file already. Below `Host` it would hold for that host alone.
#[must_use]
pub fn with_include(config: &str) -> Option<String> {
    let lines = config.lines().map(str::trim);
    let word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let mut globals = lines.take_while(|line| !matches!(word(line).as_str(), "host" | "match"));
    let includes = |line: &str| {
        let named = line.split_whitespace().skip(1).map(|path| path.trim_matches('"'));
        word(line) == "include"
            && named.into_iter().any(|path| path == "curfew/config" || path.ends_with("/.ssh/curfew/config"))
    };
    (!globals.any(includes)).then(|| format!("{INCLUDE}\n\n{config}"))
}

#[cfg(test)]
mod tests {
    use model::fixture::{NOW, time};

    use super::*;

    const HOST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q";

    fn report() -> BoxReport {
        BoxReport {
            ready_at: time(NOW),
            user: "ubuntu".to_owned(),
            host_key: HOST_KEY.to_owned(),
            why: String::new(),
            in_use_at: time(NOW),
            is_unknown: false,
            ends_at: time(NOW),
            synced_at: None,
        }
    }

    fn block(team: &str, instance: &str, report: &BoxReport, folder: &str) -> Result<String, InvalidValue> {
        let command = ["/opt/my tools/curfew", "--profile", "100%"].map(str::to_owned);
        let (team, name, instance) = (&team.into(), &JobName::read("my-box").unwrap(), &instance.into());
        BoxHost { team, name, instance, report, folder, command: &command }.to_block()
    }

    #[test]
    fn a_block_has_all_that_ssh_needs() {
        let block = block("a b", "i-0123456789abcdef0", &report(), "/home/ada/.ssh/curfew").unwrap();
        let expect = "Host my-box
  HostName i-0123456789abcdef0
  User ubuntu
  Port 2222
  IdentityFile \"/home/ada/.ssh/curfew/a%%20b.my-box\"
  IdentitiesOnly yes
  UserKnownHostsFile \"/home/ada/.ssh/curfew/known_hosts\"
  HostKeyAlias curfew-a%20b-my-box
  StrictHostKeyChecking yes
  ServerAliveInterval 15
  ServerAliveCountMax 4
  ProxyCommand '/opt/my tools/curfew' --profile '100%%' box connect 'a b/my-box'
";
        assert_eq!(block, expect);
    }

    #[test]
    fn no_value_of_a_machine_becomes_another_line() {
        let (machine, home) = ("i-0123456789abcdef0", "/home/ada/.ssh/curfew");
        let user = BoxReport { user: "a\nProxyCommand sh".to_owned(), ..report() };
        assert!(block("vision", machine, &user, home).is_err());
        assert!(block("vision", "i-1\nUser root", &report(), home).is_err());
        for home in ["/home/a\"b", "/home/%h", "/home/${X}", "/home/a\nb"] {
            assert!(block("vision", machine, &report(), home).is_err(), "{home}");
        }
        let key = BoxReport { host_key: format!("{HOST_KEY}\n* {HOST_KEY}"), ..report() };
        let (team, name, instance) = (&"vision".into(), &JobName::read("b").unwrap(), &machine.into());
        let host = |report| BoxHost { team, name, instance, report, folder: home, command: &[] }.to_known_host();
        assert!(host(&key).is_err());
        assert_eq!(host(&report()).unwrap(), format!("curfew-vision-b {HOST_KEY}"));
    }

    #[test]
    fn a_box_has_one_block_and_one_line() {
        let (one, other) = (JobName::read("my-box").unwrap(), JobName::read("my-box2").unwrap());
        let first = with_block("", &one, "Host my-box\n  User a\n");
        assert_eq!(first, format!("{HEADER}\n\nHost my-box\n  User a\n"));
        let both = with_block(&first, &other, "Host my-box2\n  User b\n");
        let again = with_block(&both, &one, "Host my-box\n  User c\n");
        assert_eq!(again, format!("{HEADER}\n\nHost my-box2\n  User b\n\nHost my-box\n  User c\n"));
        assert_eq!(with_known_host("a 1\nb 2\n", "a 3"), ("b 2\na 3\n".to_owned(), true));
        assert_eq!(with_known_host("a 1\n", "a 1"), ("a 1\n".to_owned(), false));
        assert_eq!(with_known_host("", "a 1"), ("a 1\n".to_owned(), false));
    }

    #[test]
    fn a_configuration_includes_the_boxes_once_and_at_its_top() {
        let own = "Host *\n  ForwardAgent no\n";
        let included = with_include(own).unwrap();
        assert_eq!(included, format!("Include curfew/config\n\n{own}"));
        assert_eq!(with_include(&included), None);
        assert_eq!(with_include("# mine\ninclude \"~/.ssh/curfew/config\" other\n"), None);
        assert!(with_include("Host x\n  Include curfew/config\n").is_some());
        assert_eq!(with_include("").as_deref(), Some("Include curfew/config\n\n"));
    }
}
