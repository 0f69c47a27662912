//! The home of a box on its machine: its disk, and in it the user's home, the host key, and the uid that the files belong to.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jobs::boxes::{BoxState, BoxTerms, MountedHome};

use super::{run, run_well};
use crate::agent::{Agent, StartError};
use crate::notice;
use crate::user::User;
use crate::world::now;

/// Interval at which the agent asks for the volume, and for its disk.
const ASK_EVERY: SignedDuration = SignedDuration::from_secs(2);

/// Timeout for the volume: a home that moves to another zone waits for a snapshot, which may take the better part of an hour.
const HOME_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

const DISK_TIMEOUT: Duration = Duration::from_mins(2);
const FORMAT_TIMEOUT: Duration = Duration::from_mins(10);

/// Timeout for the copy of the image's own home, which is small.
const COPY_TIMEOUT: Duration = Duration::from_mins(20);

/// A program that holds a file open may need a moment to end.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(4);
const UNMOUNT_AGAIN_AFTER: Duration = Duration::from_millis(500);
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

/// The first bytes of a disk, which have to be zero before it is formatted: `blkid` says "nothing found" of an unreadable disk as well.
const CHECKED_BYTES: u64 = 1024 * 1024;

/// A home that is mounted, or about to be.
#[derive(Debug)]
pub(crate) struct BoxHome {
    pub(super) directory: PathBuf,
    pub(super) user_home: PathBuf,
    pub(super) terms: BoxTerms,
    pub(super) state: BoxState,
}

/// The judgement of a disk by `blkid`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signature {
    Absent,
    Found(String),
    Unclear(String),
}

impl BoxHome {
    /// Waits for the volume, mounts it, and puts the user's home on it. `slot` has the home from the first mount on.
    pub(super) async fn mount(agent: &Agent, user: &User, slot: &mut Option<Self>) -> Result<(), StartError> {
        agent.set_activity("waiting for the home");
        let (terms, state, volume, disk) = wait_for_disk(agent).await?;
        agent.set_activity("mounting the home");
        let (directory, user_home) = (agent.places.directory.clone(), PathBuf::from(&user.home));
        let home = slot.insert(Self { directory, user_home, terms, state });
        let failed = |why: String| StartError::broken(format!("the home {} cannot be mounted: {why}", volume.volume));
        home.attach(agent, &volume, &disk, user).await.map_err(failed)
    }

    /// The error is for people.
    async fn attach(&self, agent: &Agent, volume: &MountedHome, disk: &Path, user: &User) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        fs::create_dir_all(&self.directory).map_err(words)?;
        // An earlier start of this agent may have mounted it.
        if !is_mounted(&self.directory) {
            if volume.is_empty {
                format_if_empty(agent, disk).await?;
            }
            run_well("mount", [disk, self.directory.as_path()], DISK_TIMEOUT).await?;
        }
        self.check_uid(user.uid)?;
        let keys = self.directory.join("keys");
        if !keys.is_dir() {
            DirBuilder::new().mode(0o700).create(&keys).map_err(words)?;
        }
        let own = self.directory.join("home");
        if !own.exists() {
            self.copy_image_home(user, &own).await?;
        }
        if !is_mounted(&self.user_home) {
            let words = [Path::new("--bind"), own.as_path(), self.user_home.as_path()];
            run_well("mount", words, DISK_TIMEOUT).await?;
        }
        agent.log.write_line(&format!("mounted the home {} at {}", volume.volume, self.user_home.display()));
        Ok(())
    }

    /// Checks whose the files are, and notes it at the first use. Another uid would have to change the owner of each file, and read all of a volume
    /// that loads lazily.
    fn check_uid(&self, uid: u32) -> Result<(), String> {
        let path = self.directory.join("uid");
        match fs::read_to_string(&path) {
            Ok(noted) if noted.trim() == uid.to_string() => Ok(()),
            Ok(noted) => Err(format!(
                "its files belong to the uid {}, and the user of this machine has {uid}: use the image that it was made with",
                noted.trim()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::write(&path, format!("{uid}\n")).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Copies the home of the image, whole or not at all.
    async fn copy_image_home(&self, user: &User, to: &Path) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let new = to.with_file_name("home.new");
        if new.exists() {
            fs::remove_dir_all(&new).map_err(words)?;
        }
        if !self.user_home.is_dir() {
            fs::create_dir_all(&self.user_home).map_err(words)?;
            chown(&self.user_home, Some(user.uid), Some(user.gid)).map_err(words)?;
        }
        run_well("cp", [Path::new("-a"), self.user_home.as_path(), new.as_path()], COPY_TIMEOUT).await?;
        fs::rename(&new, to).map_err(words)
    }

    /// Writes all that is written to the disk; the time of that.
    pub(super) async fn sync(&self, agent: &Agent) -> Option<Timestamp> {
        let (directory, at) = (self.directory.clone(), now());
        let syncing =
            tokio::task::spawn_blocking(move || rustix::fs::syncfs(File::open(directory)?).map_err(io::Error::from));
        let problem = match tokio::time::timeout(SYNC_TIMEOUT, syncing).await {
            Ok(Ok(Ok(()))) => {
                agent.set_status(|status| {
                    status.gpu_box.iter_mut().for_each(|report| report.synced_at = Some(at));
                });
                // The message about the end of the box says when that was.
                agent.hasten_heartbeat();
                return Some(at);
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the disk did not answer".to_owned(),
        };
        agent.log.write_line(&format!("the home is not synced: {problem}"));
        None
    }

    /// Syncs and unmounts it, after the programs that use it.
    pub(super) async fn release(&self, agent: &Agent) {
        let synced_at = self.sync(agent).await;
        for path in [&self.user_home, &self.directory] {
            if let Err(why) = unmount(path).await {
                let words = format!("{} is still in use, and is unmounted as soon as it is not: {why}", path.display());
                agent.log.write_line(&words);
                let _ = run("umount", [Path::new("-l"), path.as_path()], DISK_TIMEOUT).await;
            }
        }
        if let Some(at) = synced_at {
            agent.log.write_line(&format!("the home was synced at {at:.0}"));
        }
    }
}

type FoundHome = (BoxTerms, BoxState, MountedHome, PathBuf);

/// Waits until the control plane has attached the volume to this machine, and the kernel has its disk.
async fn wait_for_disk(agent: &Agent) -> Result<FoundHome, StartError> {
    let (job, begun) = (&agent.identity.job, Instant::now());
    // Without an answer any machine will do: the disk is at one only.
    let machine = notice::get(&notice::client(), notice::INSTANCE_ID).await.ok().flatten();
    let mut why = String::new();
    while begun.elapsed() < agent.pace.wait(HOME_TIMEOUT) {
        let now_why = match agent.store().read_box_state(job).await {
            Ok(Some((terms, state))) => match state.home.clone() {
                Some(home) if machine.as_ref().is_none_or(|machine| home.machine.as_str() == machine) => {
                    let name = disk_name(home.volume.as_str());
                    let name = name.ok_or_else(|| StartError::broken(format!("`{}` is no volume", home.volume)))?;
                    let disk = agent.places.disks.join(name);
                    if disk.exists() {
                        return Ok((terms, state, home, disk));
                    }
                    format!("{} is not there", disk.display())
                }
                _ => "it is not attached yet".to_owned(),
            },
            Ok(None) => "state.json has no box".to_owned(),
            Err(error) => error.to_string(),
        };
        if now_why != why {
            agent.log.write_line(&format!("waits for the home: {now_why}"));
            why = now_why;
        }
        agent.pace.sleep(ASK_EVERY).await;
    }
    let minutes = HOME_TIMEOUT.as_mins();
    Err(StartError::broken(format!("the machine did not get the home of the box within {minutes} minutes: {why}")))
}

/// The name of a volume's disk: its NVMe serial number is its id (EBS user guide, "Map Amazon EBS volumes to NVMe device names"), and udev names the
/// link by model and serial number (systemd, `60-persistent-storage.rules`).
fn disk_name(volume: &str) -> Option<String> {
    let id = volume.strip_prefix("vol-")?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| format!("nvme-Amazon_Elastic_Block_Store_vol{id}"))
}

/// Formats a disk in which nothing was ever written. Whatever is not known to be empty is not formatted.
async fn format_if_empty(agent: &Agent, disk: &Path) -> Result<(), String> {
    let words = ["-p", "-o", "value", "-s", "TYPE"].map(Path::new);
    let output = run("blkid", words.into_iter().chain([disk]), DISK_TIMEOUT).await?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match judge_signature(output.status.code(), &said, &errors) {
        Signature::Found(_) => return Ok(()),
        Signature::Unclear(why) => return Err(format!("it may hold data, so it is not formatted: {why}")),
        Signature::Absent => {}
    }
    if !begins_with_zeros(disk).map_err(|error| format!("{}: {error}", disk.display()))? {
        return Err("its first bytes are not zero, so it may hold data, and is not formatted".to_owned());
    }
    agent.log.write_line(&format!("formats the new disk {}", disk.display()));
    run_well("mkfs.ext4", [Path::new("-q"), disk], FORMAT_TIMEOUT).await
}

/// Linux manual, `blkid(8)`, "EXIT STATUS": 2 without any output means that nothing was found, 8 that the result is ambivalent.
fn judge_signature(code: Option<i32>, said: &str, errors: &str) -> Signature {
    match (code, said.trim(), errors.trim()) {
        (Some(2), "", "") => Signature::Absent,
        (Some(0), found, _) if !found.is_empty() => Signature::Found(found.to_owned()),
        (code, said, errors) => {
            let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
            Signature::Unclear(format!("blkid ended with {code}: {said} {errors}").trim_end().to_owned())
        }
    }
}

fn begins_with_zeros(disk: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(disk)?.take(CHECKED_BYTES).read_to_end(&mut bytes)?;
    Ok(!bytes.is_empty() && bytes.iter().all(|byte| *byte == 0))
}

async fn unmount(path: &Path) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let done = run_well("umount", [path], DISK_TIMEOUT).await;
        if done.is_ok() || !is_mounted(path) || begun.elapsed() >= UNMOUNT_TIMEOUT {
            return done.or_else(|why| if is_mounted(path) { Err(why) } else { Ok(()) });
        }
        tokio::time::sleep(UNMOUNT_AGAIN_AFTER).await;
    }
}

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| has_mount(&mounts, path))
}

/// Linux manual, `proc_pid_mountinfo(5)`: the fifth field is the mount point.
fn has_mount(mounts: &str, path: &Path) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_id_of_its_volume() {
        let name = disk_name("vol-0123456789abcdef0");
        assert_eq!(name.as_deref(), Some("nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"));
        for wrong in ["vol-", "0123", "vol-../sda", "vol-1 -F"] {
            assert_eq!(disk_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_disk_without_a_signature_is_formatted() {
        assert_eq!(judge_signature(Some(2), "\n", ""), Signature::Absent);
        assert_eq!(judge_signature(Some(0), "ext4\n", ""), Signature::Found("ext4".to_owned()));
        let unclear = [
            (Some(0), "", ""),
            (Some(2), "", "Input/output error"),
            (Some(2), "ext4", ""),
            (Some(8), "", ""),
            (None, "", ""),
        ];
        for (code, said, errors) in unclear {
            assert!(matches!(judge_signature(code, said, errors), Signature::Unclear(_)), "{code:?} {said} {errors}");
        }
    }

    #[test]
    fn only_zeros_are_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let check = |bytes: &[u8], expect| {
            let disk = scratch.path().join("disk");
            fs::write(&disk, bytes).unwrap();
            assert_eq!(begins_with_zeros(&disk).unwrap(), expect);
        };
        check(&[0; 4096], true);
        check(&[0, 0, 1], false);
        check(&[], false);
        assert!(begins_with_zeros(&scratch.path().join("absent")).is_err());
    }

    #[test]
    fn a_mount_point_is_the_whole_path() {
        let mounts = "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 30 259:1 / /var/curfew/box rw - ext4 /dev/nvme1n1 rw\n";
        assert!(has_mount(mounts, Path::new("/var/curfew/box")) && !has_mount(mounts, Path::new("/var/curfew")));
    }
}
