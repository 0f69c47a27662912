//! The box's own sshd: on 127.0.0.1 alone, with one key that opens it and a host key that lives as long as the home.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::home::BoxHome;
use super::{run, run_well};
use crate::agent::{Agent, StartError};
use crate::processes::find_listener;
use crate::user::User;
use crate::variables::VariableMap;
use crate::world::find_program;

/// Directories of `sshd` that are not in the path of every service.
const DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The directory that Debian's sshd needs while it runs (`sshd(8)`, "FILES").
const RUN_DIRECTORY: &str = "/run/sshd";

const AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(5);
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
const KEY_TIMEOUT: Duration = Duration::from_mins(1);

/// Variables that sshd and the login set, and the one by which a later start of the agent would take the programs of people for leftovers of its own.
const OMITTED: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "CURFEW_ATTEMPT"];

/// An sshd that is ready to begin.
pub(super) struct LoginServer {
    program: PathBuf,
    config: PathBuf,
    port: u16,
    /// `<type> <base64>`.
    pub(super) host_key: String,
    /// The process, while it runs.
    pub(super) process: Cell<Option<Pid>>,
}

/// The sshd of the image.
pub(super) fn find_sshd() -> Result<PathBuf, StartError> {
    find_program("sshd", &DIRECTORIES).ok_or_else(|| StartError::Impossible {
        code: StartError::NOT_FOUND,
        why: "the image of the machine has no sshd, so nobody could log in: name an image with openssh-server by machine.ami".to_owned(),
    })
}

impl LoginServer {
    /// Writes its keys and its configuration.
    pub(super) async fn prepare(
        agent: &Agent,
        home: &BoxHome,
        user: &User,
        variables: &VariableMap,
    ) -> Result<Self, StartError> {
        let failed = |why: String| StartError::broken(format!("people cannot log in: {why}"));
        let program = find_sshd()?;
        let host_key_file = home.directory.join("keys/ssh_host_ed25519_key");
        let host_key = make_host_key(&host_key_file).await.map_err(failed)?;
        let (config, keys) = (agent.state.join("sshd_config"), agent.state.join("authorized_keys"));
        let settings =
            SshdSettings { port: agent.places.ssh_port, host_key: &host_key_file, keys: &keys, user: &user.name };
        let (text, omitted) = settings.to_config(variables);
        if !omitted.is_empty() {
            let omitted = omitted.join(", ");
            agent.log.write_line(&format!("a login does not get these variables, which have several lines: {omitted}"));
        }
        let written = write_file(&keys, &format!("{}\n", home.terms.public_key), 0o644);
        let written = written.and_then(|()| write_file(&config, &text, 0o600));
        written.map_err(|error| failed(error.to_string()))?;
        // One of an earlier start of this agent would keep the port.
        if let Some(earlier) = find_listener(&config.display().to_string()) {
            let _ = kill_process(earlier, Signal::TERM);
        }
        Ok(Self { program, config, port: settings.port, host_key, process: Cell::new(None) })
    }

    /// Runs it, and again whenever it ends. It is killed with this future; the logins that it has made stay.
    pub(super) async fn serve(&self, agent: &Agent) -> Infallible {
        loop {
            let ended = match self.begin(agent) {
                Ok(mut child) => child.wait().await,
                Err(error) => Err(error),
            };
            self.process.set(None);
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            agent.log.write_line(&format!("sshd has ended ({how}), and begins again"));
            agent.pace.sleep(AGAIN_AFTER).await;
        }
    }

    fn begin(&self, agent: &Agent) -> io::Result<Child> {
        // Where it cannot be made, sshd says so.
        let _ = DirBuilder::new().recursive(true).mode(0o755).create(RUN_DIRECTORY);
        let (read, write) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command.args(["-D", "-e", "-f"]).arg(&self.config);
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).process_group(0).kill_on_drop(true);
        let child = command.spawn()?;
        drop(command);
        drop(agent.log.follow(read));
        self.process.set(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        Ok(child)
    }

    /// Waits until it takes connections.
    pub(super) async fn wait_until_open(&self) -> Result<(), StartError> {
        let begun = Instant::now();
        while begun.elapsed() < OPEN_TIMEOUT {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(OPEN_AGAIN_AFTER).await;
        }
        Err(StartError::broken(format!(
            "nobody can log in: sshd takes no connection on port {}; its log says why",
            self.port
        )))
    }
}

/// Makes the host key once in the life of the home. Returns its public half.
async fn make_host_key(file: &Path) -> Result<String, String> {
    if !file.exists() {
        let new = file.with_extension("new");
        for leftover in [new.clone(), new.with_extension("new.pub")] {
            let _ = fs::remove_file(leftover);
        }
        let words = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"].map(Path::new);
        run_well("ssh-keygen", words.into_iter().chain([new.as_path()]), KEY_TIMEOUT).await?;
        fs::rename(&new, file).map_err(|error| error.to_string())?;
    }
    let output = run("ssh-keygen", [Path::new("-y"), Path::new("-f"), file], KEY_TIMEOUT).await?;
    let line = String::from_utf8_lossy(&output.stdout);
    let key: Vec<&str> = line.split_whitespace().take(2).collect();
    if output.status.success() && key.len() == 2 {
        Ok(key.join(" "))
    } else {
        Err(format!("the host key of the box cannot be read: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // It may be one of an earlier start, with another mode.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}

/// What is different from box to box.
struct SshdSettings<'a> {
    port: u16,
    host_key: &'a Path,
    keys: &'a Path,
    user: &'a str,
}

impl SshdSettings<'_> {
    /// The configuration (`sshd_config(5)`), and the variables that cannot be in it. Without PAM a user without a password could not log in.
    fn to_config(&self, variables: &BTreeMap<String, String>) -> (String, Vec<String>) {
        let Self { port, host_key, keys, user } = self;
        let (host_key, keys) = (host_key.display(), keys.display());
        let given = || variables.iter().filter(|(name, _)| !OMITTED.contains(&name.as_str()));
        let fits = |value: &str| !value.contains(|letter: char| letter.is_control() && letter != '\t');
        let mut words = given().filter(|(_, value)| fits(value)).map(|(name, value)| to_word(name, value)).peekable();
        // All in one line: of two lines the first one counts.
        let variables = words.peek().is_some().then(|| format!("SetEnv {}\n", words.collect::<Vec<_>>().join(" ")));
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\nAuthorizedKeysFile {keys}\nAllowUsers {user}\n\
             PermitRootLogin no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes yes\nUsePAM yes\n\
             ClientAliveInterval 60\nClientAliveCountMax 5\nSubsystem sftp internal-sftp\n{}",
            variables.unwrap_or_default()
        );
        (config, given().filter(|(_, value)| !fits(value)).map(|(name, _)| name.clone()).collect())
    }
}

/// A quoted word of a configuration file (OpenSSH, `argv_split` in `misc.c`).
fn to_word(name: &str, value: &str) -> String {
    format!("\"{name}={}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> (String, Vec<String>) {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (host_key, keys) = (Path::new("/box/keys/key"), Path::new("/etc/curfew/authorized_keys"));
        SshdSettings { port: 2222, host_key, keys, user: "ubuntu" }.to_config(&variables)
    }

    #[test]
    fn only_the_key_of_the_box_opens_it_and_only_from_the_machine_itself() {
        let (text, _) = config(&[]);
        for line in [
            "Port 2222",
            "ListenAddress 127.0.0.1",
            "AllowUsers ubuntu",
            "PasswordAuthentication no",
            "PermitRootLogin no",
        ] {
            assert!(text.lines().any(|one| one == line), "{text}");
        }
        assert!(text.contains("\nAuthorizedKeysFile /etc/curfew/authorized_keys\n") && !text.contains("SetEnv"));
    }

    #[test]
    fn a_login_has_the_variables_in_one_line() {
        let (text, omitted) =
            config(&[("A", "1 2"), ("B", "say \"\\n\""), ("HOME", "/"), ("KEY", "a\nPermitRootLogin yes")]);
        assert!(text.ends_with("\nSetEnv \"A=1 2\" \"B=say \\\"\\\\n\\\"\"\n"), "{text}");
        assert_eq!(omitted, ["KEY"]);
    }
}
