//! The shutdown of the machine, which terminates it: it is launched that way.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::arguments::SHUTDOWN;
use crate::log::Log;

/// The timeout until `shutdown` is accepted.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// If `shutdown` fails: by force, and at last without any program (Linux kernel, "Magic `SysRq` key").
const BY_FORCE: [&str; 2] = ["poweroff -f", "echo o > /proc/sysrq-trigger"];

/// Ends the machine. If that fails, the machine's timer or `reap-instances` ends it.
pub(crate) async fn go_dark(log: &Log, command: &str) {
    let forced: &[&str] = if command == SHUTDOWN { &BY_FORCE } else { &[] };
    for line in std::iter::once(command).chain(forced.iter().copied()) {
        let (output, errors) = to_log(log).unwrap_or_else(|_| (Stdio::null(), Stdio::null()));
        let ended = Command::new("/bin/sh").arg("-c").arg(line).stdout(output).stderr(errors).status();
        let problem = match tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await {
            Ok(Ok(status)) if status.success() => return,
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not end".to_owned(),
        };
        log.write_line(&format!("`{line}` did not end the machine: {problem}"));
    }
}

/// Its output goes to the log: the agent's own output could block it.
fn to_log(log: &Log) -> io::Result<(Stdio, Stdio)> {
    let (read, write) = io::pipe()?;
    let both = (write.try_clone()?.into(), write.into());
    // It does not wait for its end, because its children may keep running.
    drop(log.follow(read));
    Ok(both)
}
