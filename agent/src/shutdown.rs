//! The end of the machine. It is launched so that a shutdown terminates it.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::arguments::SHUTDOWN;
use crate::log::Log;

/// So long a shutdown may take to be accepted.
const ACCEPTED: Duration = Duration::from_secs(30);

/// Where `shutdown` does not do it, by force, and at last without any program's help (Linux kernel, "Magic `SysRq` key").
const BY_FORCE: [&str; 2] = ["poweroff -f", "echo o > /proc/sysrq-trigger"];

/// Ends the machine. Where nothing does, the timer of the machine and `reap-instances` will.
pub(crate) async fn go_dark(log: &Log, command: &str) {
    let forced: &[&str] = if command == SHUTDOWN { &BY_FORCE } else { &[] };
    for line in std::iter::once(command).chain(forced.iter().copied()) {
        let (output, errors) = to_log(log).unwrap_or_else(|_| (Stdio::null(), Stdio::null()));
        let ended = Command::new("/bin/sh").arg("-c").arg(line).stdout(output).stderr(errors).status();
        let problem = match tokio::time::timeout(ACCEPTED, ended).await {
            Ok(Ok(status)) if status.success() => return,
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not end".to_owned(),
        };
        log.write_line(&format!("`{line}` did not end the machine: {problem}"));
    }
}

/// What it says comes into the log: whoever reads the agent's own output may have stopped, and would hold it.
fn to_log(log: &Log) -> io::Result<(Stdio, Stdio)> {
    let (read, write) = io::pipe()?;
    let both = (write.try_clone()?.into(), write.into());
    // Nobody waits for its end: what it began may go on.
    drop(log.follow(read));
    Ok(both)
}
