//! The files below `~/.ssh` by which `ssh` finds a box and opens it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jobs::boxes::BoxReport;
use jobs::boxes::report::is_public_key;
use model::foreign_text::shell_word;
use model::id::ResourceId;
use operator::box_ssh::{BoxHost, INCLUDE, key_file, with_block, with_include, with_known_host};

use super::find::BoxId;
use crate::command_error::CommandError;
use crate::context::CommandContext;
use crate::{screen, world};

/// Only their owner reads them.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The folder `~/.ssh/curfew`.
pub(super) struct SshFolder {
    ssh: PathBuf,
    path: PathBuf,
}

impl SshFolder {
    /// Finds the folder, and makes it if it is absent.
    ///
    /// # Errors
    /// If there is no home, or it cannot be made.
    pub(super) fn open() -> Result<Self, CommandError> {
        let home = world::home().ok_or_else(|| CommandError::new("HOME is not set to an absolute path; set it"))?;
        let ssh = home.join(".ssh");
        let path = ssh.join("curfew");
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&path);
        made.map_err(|error| cannot("made", &path, &error))?;
        Ok(Self { ssh, path })
    }

    /// The public key of a box; its pair is made at the first time, and kept.
    ///
    /// # Errors
    /// If it cannot be made, or is none.
    pub(super) fn make_key(&self, id: &BoxId) -> Result<String, CommandError> {
        let key = self.key(id);
        if !key.exists() {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", id.name.as_str(), "-f"])
                .arg(&key)
                .stdin(Stdio::null())
                .output();
            let made = made.map_err(|error| match error.kind() {
                ErrorKind::NotFound => CommandError::with(
                    "the key of the box cannot be made: there is no program `ssh-keygen`",
                    "install the client of OpenSSH, which brings it",
                ),
                _ => CommandError::new(format!("ssh-keygen cannot be run: {error}")),
            })?;
            if !made.status.success() {
                let said = String::from_utf8_lossy(&made.stderr);
                return Err(CommandError::new(format!("ssh-keygen made no key {}: {}", key.display(), said.trim())));
            }
        }
        self.read_key(id).ok_or_else(|| {
            let key = shell_word(&key.to_string_lossy());
            CommandError::with(
                format!("{key}.pub is no public key of type ed25519"),
                format!("write it again:  ssh-keygen -y -f {key} > {key}.pub"),
            )
        })
    }

    /// The public key of a box; `None` if this computer has none.
    pub(super) fn read_key(&self, id: &BoxId) -> Option<String> {
        let text = fs::read_to_string(format!("{}.pub", self.key(id).display())).ok()?;
        Some(text.trim().to_owned()).filter(|line| is_public_key(line))
    }

    /// Writes what ssh needs to reach a box that is up. Its block and its line replace those of its last time.
    ///
    /// # Errors
    /// If a value of the machine does not belong there, or a file cannot be written.
    pub(super) fn write(
        &self,
        context: &CommandContext,
        id: &BoxId,
        instance: &ResourceId,
        report: &BoxReport,
    ) -> Result<(), CommandError> {
        let executable = world::executable().and_then(|path| path.to_str().map(str::to_owned));
        let command = [vec![executable.unwrap_or_else(|| "curfew".to_owned())], context.options()].concat();
        let folder = self.path.to_str().ok_or_else(|| CommandError::new("HOME is no text in UTF-8"))?;
        let BoxId { team, name } = id;
        let host = BoxHost { team, name, instance, report, folder, command: &command };
        let cannot =
            |why| CommandError::new(format!("the configuration of ssh for {} is not written: {why}", id.full()));
        let (block, line) = (host.to_block().map_err(cannot)?, host.to_known_host().map_err(cannot)?);
        let (config, known_hosts) = (self.path.join("config"), self.path.join("known_hosts"));
        let (known, has_other_key) = with_known_host(&read(&known_hosts)?, &line);
        if has_other_key {
            screen::warn(format!("the host key of {} is another one than last time", id.full()));
        }
        replace(&known_hosts, &known, FILE_MODE)?;
        replace(&config, &with_block(&read(&config)?, name, &block), FILE_MODE)?;
        let own = self.ssh.join("config");
        if let Some(included) = with_include(&read(&own)?) {
            // A link leads to the file of somebody's dotfiles, which is to stay one.
            let own = fs::canonicalize(&own).unwrap_or(own);
            let mode = fs::metadata(&own).map_or(FILE_MODE, |facts| facts.permissions().mode());
            replace(&own, &included, mode)?;
            screen::progress(format!("wrote `{INCLUDE}` at the top of {}", own.display()));
        }
        Ok(())
    }

    fn key(&self, id: &BoxId) -> PathBuf {
        self.path.join(key_file(&id.team, &id.name))
    }
}

/// The text of a file; empty if it is absent.
fn read(path: &Path) -> Result<String, CommandError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| cannot("read", path, &error)),
    }
}

/// Writes a file beside it and renames that one, so that ssh never reads half a file.
fn replace(path: &Path, text: &str, mode: u32) -> Result<(), CommandError> {
    let beside = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let open = || OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside);
    let written =
        open().and_then(|mut file: File| file.write_all(text.as_bytes())).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        cannot("written", path, &error)
    })
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(format!("{} cannot be {verb}: {error}", path.display()))
}
