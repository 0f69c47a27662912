//! The command line.

use std::path::PathBuf;

use jobs::boxes::SSH_PORT;
use model::fault::InvalidValue;

use crate::world::Pace;

pub(crate) const USAGE: &str = "\
The agent of a Curfew job: runs on the machine that was launched for it, and ends it.

usage: agent [--identity FILE] [--shutdown-command COMMAND] [--hurry N]
             [--disks DIRECTORY] [--box-directory DIRECTORY] [--ssh-port N]

  --identity FILE             who this machine is (/etc/curfew/identity.json)
  --shutdown-command COMMAND  what ends the machine, by sh -c (shutdown -h now)
  --hurry N                   every wait N times shorter, for tests (1)
  --disks DIRECTORY           where the disks are by their ids (/dev/disk/by-id)
  --box-directory DIRECTORY   where the disk of a box is mounted (/var/curfew/box)
  --ssh-port N                the port of a box's sshd on 127.0.0.1 (2222)
";

/// The default command that ends the machine.
pub(crate) const SHUTDOWN: &str = "shutdown -h now";

/// The places of a box on its machine; only tests have others.
#[derive(Debug, Clone)]
pub(crate) struct BoxPlaces {
    pub(crate) disks: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) ssh_port: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) identity: PathBuf,
    pub(crate) shutdown: String,
    pub(crate) pace: Pace,
    pub(crate) places: BoxPlaces,
}

/// The error is for people.
pub(crate) fn read(given: impl IntoIterator<Item = String>) -> Result<Arguments, InvalidValue> {
    let mut arguments = Arguments {
        identity: PathBuf::from("/etc/curfew/identity.json"),
        shutdown: SHUTDOWN.to_owned(),
        pace: Pace(1),
        places: BoxPlaces {
            disks: PathBuf::from("/dev/disk/by-id"),
            directory: PathBuf::from("/var/curfew/box"),
            ssh_port: SSH_PORT,
        },
    };
    let mut given = given.into_iter();
    while let Some(name) = given.next() {
        let value = given
            .next()
            .ok_or_else(|| InvalidValue::new(format!("`{name}` needs a value, or is no argument\n\n{USAGE}")))?;
        match name.as_str() {
            "--identity" => arguments.identity = PathBuf::from(value),
            "--shutdown-command" => arguments.shutdown = value,
            "--hurry" => {
                let times = value.parse().ok().filter(|times| *times > 0);
                let wrong = || InvalidValue::new(format!("--hurry is a whole number from 1 on, not `{value}`"));
                arguments.pace = Pace(times.ok_or_else(wrong)?);
            }
            "--disks" => arguments.places.disks = PathBuf::from(value),
            "--box-directory" => arguments.places.directory = PathBuf::from(value),
            "--ssh-port" => {
                let wrong = |_| InvalidValue::new(format!("--ssh-port is a port, not `{value}`"));
                arguments.places.ssh_port = value.parse().map_err(wrong)?;
            }
            _ => return Err(InvalidValue::new(format!("`{name}` is no argument\n\n{USAGE}"))),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expect: Result<(&str, &str, u32), &str>) {
        let read = read(given.split_whitespace().map(str::to_owned));
        let read = read.map(|read| (read.identity.display().to_string(), read.shutdown, read.pace.0));
        let expect = expect.map(|(identity, shutdown, pace)| (identity.to_owned(), shutdown.to_owned(), pace));
        match (read, expect) {
            (Ok(read), Ok(expect)) => assert_eq!(read, expect),
            (Err(read), Err(expect)) => assert!(read.to_string().contains(expect), "{read}"),
            (read, expect) => panic!("{read:?}, not {expect:?}"),
        }
    }

    #[test]
    fn every_argument_has_a_default() {
        check("", Ok(("/etc/curfew/identity.json", "shutdown -h now", 1)));
        check("--hurry 20 --identity a.json --shutdown-command true", Ok(("a.json", "true", 20)));
    }

    #[test]
    fn a_wrong_argument_is_named() {
        check("--identity", Err("`--identity` needs a value"));
        check("--speed 3", Err("`--speed` is no argument"));
        check("--hurry 0", Err("whole number from 1 on"));
        check("--ssh-port ssh", Err("--ssh-port is a port, not `ssh`"));
    }
}
