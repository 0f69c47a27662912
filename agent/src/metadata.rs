//! The instance metadata. Whoever reads them gets the credentials of the machine's role, so the command may not, unless its job asks for them.
//!
//! A rule of routing refuses the connections of its user, and of all others but root and the services of the image. It needs nothing but `ip`, which every image has for its own network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use jobs::AgentWarningKind;
use model::fault::shortened;
use tokio::process::Command;

use crate::agent::Agent;
use crate::attempt::AssignedJob;
use crate::disk::on_disk;
use crate::user::User;
use crate::world::has_other_metadata;

/// EC2 user guide, "Use the Instance Metadata Service to access instance metadata".
const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];
const PORT: u16 = 80;

/// Timeout of a connection to these addresses, which answer from within the machine's own host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const IP_TIMEOUT: Duration = Duration::from_secs(10);

/// People, and the users that their containers have, begin here. Below are services of the image, such as EC2 Instance Connect, which read the
/// metadata (Linux manual, `login.defs(5)`, `UID_MIN`).
const UID_MIN: u32 = 1000;
/// The number after it is no user (Linux manual, `chown(2)`).
const UID_MAX: u32 = u32::MAX - 1;
/// Priority of the rules, before those of the image. The rule of the kernel for the machine's own addresses is 0.
const PRIORITY: &str = "50";

/// Keeps the user of the command from the metadata, and warns the owner where that fails.
pub(crate) async fn close(agent: &Agent, asked: &AssignedJob, user: &User) {
    if asked.work.metadata {
        return agent.log.write_line("the command has the role of the machine, by the instance metadata");
    }
    agent.log.write_line("the command has no role of AWS: see `[machine] metadata`");
    if has_other_metadata() {
        return;
    }
    if user.uid == 0 && asked.work.container.is_none() {
        return agent.log.write_line("no rule keeps the command from the instance metadata: it runs as root");
    }
    let mut problems = Vec::new();
    for address in ADDRESSES {
        problems.extend(close_address(address, user).await.err().map(|why| format!("{address}: {why}")));
    }
    if !problems.is_empty() {
        let words = format!(
            "the command may read the instance metadata, and act as the role of the machine, though its job does not ask for that: {}",
            problems.join("; ")
        );
        agent.log.write_line(&words);
        agent.warn_owner(AgentWarningKind::Metadata, &words);
    }
}

/// The error is for people.
async fn close_address(address: IpAddr, user: &User) -> Result<(), String> {
    // A machine without IPv6 has no such address.
    if address.is_ipv6() && std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().is_empty() {
        return Ok(());
    }
    add_rule(address, user.uid.clamp(1, UID_MIN)).await?;
    let (owner, to) = (user.file_owner(), SocketAddr::new(address, PORT));
    match on_disk(&owner, move || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).await {
        Ok(_) if user.uid != 0 => Err("they answer in spite of the rule of routing".to_owned()),
        _ => Ok(()),
    }
}

/// `systemd-networkd` removes the rules of others, except those of the protocol `kernel` (systemd, "networkd.conf", `ManageForeignRoutingPolicyRules`).
async fn add_rule(address: IpAddr, first_uid: u32) -> Result<(), String> {
    let (family, to) = (if address.is_ipv4() { "-4" } else { "-6" }, address.to_string());
    let mut command = Command::new("ip");
    command.args([family, "rule", "add", "priority", PRIORITY, "to", &to]);
    command.args(["uidrange", &format!("{first_uid}-{UID_MAX}"), "prohibit", "protocol", "kernel"]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(IP_TIMEOUT, command.output()).await;
    let failed = |error: io::Error| format!("the rule of routing cannot be made: ip: {error}");
    let output = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    // By an earlier start of this agent.
    if output.status.success() || said.contains("File exists") {
        return Ok(());
    }
    Err(format!("the rule of routing cannot be made: ip ended with {}: {}", output.status, shortened(said.trim(), 200)))
}
