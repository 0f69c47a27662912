//! Mounts an input by Mountpoint for Amazon S3, `mount-s3`, which stays as a process of root until the directory is unmounted.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jobs::InputSpec;
use model::fault::shortened;
use tokio::process::Command;

use crate::agent::{Agent, StartError};
use crate::directory::make;
use crate::user::User;

const PROGRAM: &str = "mount-s3";

/// Timeout of the program, which returns after it has queried S3.
const MOUNT_TIMEOUT: Duration = Duration::from_mins(1);

const OUTPUT_CHARACTERS_MAX: usize = 500;

/// An input that is mounted as long as this exists.
#[derive(Debug)]
pub(crate) struct MountedInput(PathBuf);

impl Drop for MountedInput {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// Returns `true` if a process of this name serves a mounted input, and so is no process of the command.
pub(crate) fn is_mount(name: &str) -> bool {
    name == PROGRAM
}

pub(super) async fn mount(agent: &Arc<Agent>, input: &InputSpec, user: &User) -> Result<MountedInput, StartError> {
    let (to, owner) = (PathBuf::from(&input.to), user.file_owner());
    let words = |why: &str| format!("the input {} cannot be mounted at {}: {why}", input.from, input.to);
    let failed = |why: String| StartError::broken(words(&why));
    let refused = |error: io::Error| StartError::from_io(agent, &error, words(&error.to_string()));
    // By an earlier start of this agent.
    if fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| is_mounted(&mounts, &input.to)) {
        unmount(&to);
    }
    let place = to.clone();
    let made = tokio::task::spawn_blocking(move || {
        make(&place, &owner)?;
        // Root would mount wherever a link leads.
        if place.canonicalize()?.components().eq(place.components()) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::NotADirectory, "there is a link in its path"))
        }
    });
    made.await.map_err(io::Error::other).and_then(|made| made).map_err(refused)?;
    let folder = input.from.folder();
    let mut command = Command::new(PROGRAM);
    command.arg(&input.from.bucket).arg(&to).args(["--read-only", "--allow-other"]);
    if !folder.is_empty() {
        command.arg("--prefix").arg(folder);
    }
    // Not a pipe: the process that stays would hold it open.
    let mut output = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(agent.state.join("mount-s3.log"))
        .map_err(|error| failed(error.to_string()))?;
    let streams = output.try_clone().and_then(|out| Ok((out, output.try_clone()?)));
    let (out, errors) = streams.map_err(|error| failed(error.to_string()))?;
    command.stdin(Stdio::null()).stdout(out).stderr(errors).kill_on_drop(true);
    match tokio::time::timeout(MOUNT_TIMEOUT, command.status()).await {
        Ok(Ok(status)) if status.success() => {
            agent.log.write_line(&format!("mounted {} at {}", input.from, input.to));
            Ok(MountedInput(to))
        }
        Ok(Ok(status)) => {
            let wrote = read_output(&mut output);
            let why = format!("{PROGRAM} ended with {status}: {wrote}");
            Err(if is_final(&wrote) { StartError::cannot_run(words(&why)) } else { failed(why) })
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(StartError::Impossible {
            code: StartError::NOT_FOUND,
            why: format!(
                "the input {} is to be mounted, and the image of the machine has no {PROGRAM}: install Mountpoint for Amazon S3 in an image and \
                 name it by machine.ami, or leave out `mode = \"mount\"`",
                input.from
            ),
        }),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("{PROGRAM} did not answer: {}", read_output(&mut output)))),
    }
}

/// True if the next machine would get the same answer of S3, as Mountpoint words it (mountpoint-s3-client, `ObjectClientError`).
fn is_final(wrote: &str) -> bool {
    ["Forbidden", "Access Denied", "bucket does not exist"].iter().any(|one| wrote.contains(one))
}

fn read_output(output: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = output.seek(SeekFrom::Start(0)).and_then(|_| output.take(4096).read_to_end(&mut bytes));
    if read.is_err() || bytes.is_empty() {
        return "it wrote nothing".to_owned();
    }
    shortened(String::from_utf8_lossy(&bytes).trim(), OUTPUT_CHARACTERS_MAX)
}

/// Even if a process still has a file of it open.
fn unmount(path: &Path) {
    // The machine is about to go in any case.
    let _ = std::process::Command::new("umount")
        .arg("-l")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Returns `true` if Mountpoint is mounted at that path: Linux manual, `proc_pid_mountinfo(5)`, and its name there.
fn is_mounted(mounts: &str, path: &str) -> bool {
    mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.nth(4) == Some(path.trim_end_matches('/')) && line.contains(" mountpoint-s3 ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_own_mount_is_unmounted() {
        let mounts = "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 30 0:50 / /data ro,nosuid - fuse mountpoint-s3 ro,allow_other\n\
                      41 30 8:2 / /scratch rw - xfs /dev/nvme1n1 rw\n";
        let check = |path: &str, expect| assert_eq!(is_mounted(mounts, path), expect, "{path}");
        check("/data", true);
        check("/data/", true);
        check("/scratch", false);
        check("/data/vision", false);
    }
}
