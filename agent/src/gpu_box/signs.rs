//! The signs that somebody uses the box, as the machine shows them at one moment.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobs::GPU_BUSY_PERCENT;
use jobs::boxes::{Look, Occupancy, Sign};
use model::moment::before;
use model::time_zone::format_moment_shortly;
use rustix::fs::{Mode, OFlags, open};

use crate::processes::{ProcessAge, has_session_shell};

/// Programs of people that use so many CPUs work.
const BUSY_CPUS: f64 = 0.25;

/// The looks over which the use of CPUs is taken.
const CPU_LOOKS: usize = 5;

const TERMINALS: &str = "/dev/pts";

/// The columns of the kernel's table of connections (Linux kernel, `proc_net_tcp`): the own address, and the state.
const OWN_ADDRESS: usize = 1;
const STATE: usize = 3;
const ESTABLISHED: &str = "01";

/// The signs of one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct UseSigns {
    pub(super) has_gpus: bool,
    /// Utilisation of the busiest GPU in the last minute; `None` if it is unknown.
    pub(super) gpu_percent: Option<f64>,
    /// The CPUs that the programs of people used in the last minutes; `None` if that is unknown.
    pub(super) cpus: Option<f64>,
    pub(super) is_connected: Sign,
    /// The newest input at a terminal.
    pub(super) input_at: Option<Timestamp>,
}

impl UseSigns {
    pub(super) fn to_look(self, at: Timestamp) -> Look {
        let works = Sign::any([self.gpus(), self.cpus()]);
        Look { at, works, is_connected: self.is_connected, input_at: self.input_at }
    }

    fn gpus(self) -> Sign {
        match self.gpu_percent {
            _ if !self.has_gpus => Sign::No,
            Some(percent) => to_sign(percent >= f64::from(GPU_BUSY_PERCENT)),
            None => Sign::Unknown,
        }
    }

    fn cpus(self) -> Sign {
        self.cpus.map_or(Sign::Unknown, |cpus| to_sign(cpus >= BUSY_CPUS))
    }

    /// The reason for which the box is in use, or not, for people.
    pub(super) fn describe(self, occupancy: Occupancy, now: Timestamp) -> String {
        match occupancy {
            Occupancy::Idle(idle_for) => format!("idle since {}", format_moment_shortly(before(now, idle_for), now)),
            Occupancy::Unknown if self.gpus() == Sign::Unknown => {
                "not judged: the use of the GPUs is not known".to_owned()
            }
            Occupancy::Unknown if self.cpus() == Sign::Unknown => {
                "not judged: the use of the CPUs is not known".to_owned()
            }
            Occupancy::Unknown => "not judged: connections are not known".to_owned(),
            Occupancy::InUse => match (self.gpus(), self.cpus(), self.input_at) {
                (Sign::Yes, _, _) => format!("GPU {:.0} %", self.gpu_percent.unwrap_or_default()),
                (_, Sign::Yes, _) => format!("CPU {:.1}", self.cpus.unwrap_or_default()),
                (_, _, Some(at)) => format!("ssh, input {}", format_moment_shortly(at, now)),
                (_, _, None) => "ssh, no input known".to_owned(),
            },
        }
    }
}

const fn to_sign(is_so: bool) -> Sign {
    if is_so { Sign::Yes } else { Sign::No }
}

/// A connection to sshd, or a shell by Session Manager.
pub(super) fn find_connection(port: u16) -> Sign {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| match fs::read_to_string(path) {
        Ok(table) => has_connection(&table, port).map_or(Sign::Unknown, to_sign),
        // A machine without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.ends_with('6') => Sign::No,
        Err(_) => Sign::Unknown,
    });
    Sign::any(tables.into_iter().chain([to_sign(has_session_shell())]))
}

/// `None` if it is no table of connections.
fn has_connection(table: &str, port: u16) -> Option<bool> {
    let mut lines = table.lines();
    lines.next().filter(|head| head.contains("local_address"))?;
    let port = format!(":{port:04X}");
    Some(lines.any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_own = fields.get(OWN_ADDRESS).is_some_and(|address| address.ends_with(&port));
        is_own && fields.get(STATE) == Some(&ESTABLISHED)
    }))
}

/// A terminal that somebody has open.
#[derive(Debug)]
pub(super) struct Terminal {
    path: PathBuf,
    owner: u32,
    /// Its atime, which moves with input alone.
    input_at: Option<Timestamp>,
}

pub(super) fn find_terminals() -> Vec<Terminal> {
    let entries = fs::read_dir(TERMINALS).into_iter().flatten().flatten();
    // Beside them is `ptmx`.
    let numbered = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
    numbered
        .filter_map(|entry| {
            let terminal = entry.metadata().ok()?;
            let input_at = Timestamp::from_second(terminal.atime()).ok();
            Some(Terminal { path: entry.path(), owner: terminal.uid(), input_at })
        })
        .collect()
}

pub(super) fn find_newest_input(terminals: &[Terminal]) -> Option<Timestamp> {
    terminals.iter().filter_map(|terminal| terminal.input_at).max()
}

/// Writes a line to each terminal of people. Root's are those of the machine's own services.
pub(super) fn write_to_terminals(line: &str) {
    for terminal in find_terminals().iter().filter(|terminal| terminal.owner != 0) {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if let Ok(file) = open(&terminal.path, flags, Mode::empty()) {
            // Its owner may be gone, or have stopped it.
            let _ = File::from(file).write_all(format!("\r\n{line}\r\n").as_bytes());
        }
    }
}

/// The use of CPUs over the last looks.
#[derive(Debug, Default)]
pub(super) struct CpuWindow {
    last: Option<(Instant, BTreeMap<ProcessAge, Duration>)>,
    looks: VecDeque<CpuUse>,
}

#[derive(Debug, Clone, Copy)]
struct CpuUse {
    took: Duration,
    used: Duration,
}

impl CpuWindow {
    /// The CPUs that were used, with the CPU times of all processes now. `None` if they are unknown, and at the first look.
    pub(super) fn add(&mut self, at: Instant, times: Option<BTreeMap<ProcessAge, Duration>>) -> Option<f64> {
        let Some(times) = times else {
            *self = Self::default();
            return None;
        };
        let before = self.last.replace((at, times));
        let (Some((then, before)), Some((_, times))) = (before, &self.last) else { return None };
        // A process that was not there has begun since.
        let used =
            times.iter().map(|(process, time)| time.saturating_sub(before.get(process).copied().unwrap_or_default()));
        let used = used.fold(Duration::ZERO, Duration::saturating_add);
        self.looks.push_back(CpuUse { took: at.saturating_duration_since(then), used });
        while self.looks.len() > CPU_LOOKS {
            self.looks.pop_front();
        }
        let sum =
            |part: fn(&CpuUse) -> Duration| self.looks.iter().map(part).fold(Duration::ZERO, Duration::saturating_add);
        let took = sum(|one| one.took);
        (!took.is_zero()).then(|| sum(|one| one.used).as_secs_f64() / took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn connection(line: &str, expect: bool) {
        assert_eq!(has_connection(&format!("{HEAD}{line}\n"), 2222), Some(expect), "{line}");
    }

    #[test]
    fn a_connection_is_established_at_the_own_port() {
        connection(
            "   0: 0100007F:08AE 0100007F:D2A4 01 00000000:00000000 00:00000000 00000000     0        0 1 1",
            true,
        );
        connection(
            "   0: 0000000000000000FFFF00000100007F:08AE 0000000000000000FFFF00000100007F:D2A4 01 0:0 00:0 0 0 0 1",
            true,
        );
        connection(
            "   0: 0100007F:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1",
            false,
        );
        connection(
            "   0: 0100007F:D2A4 0100007F:08AE 01 00000000:00000000 00:00000000 00000000     0        0 1 1",
            false,
        );
        connection(
            "   0: 0100007F:08AE 0100007F:D2A4 06 00000000:00000000 00:00000000 00000000     0        0 1 1",
            false,
        );
        connection("", false);
        assert_eq!(has_connection("", 2222), None);
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-11-02T{text}Z").parse().unwrap()
    }

    const QUIET: UseSigns =
        UseSigns { has_gpus: true, gpu_percent: Some(0.0), cpus: Some(0.0), is_connected: Sign::No, input_at: None };

    fn check(signs: UseSigns, occupancy: Occupancy, works: Sign, expect: &str) {
        let now = at("13:00:00");
        assert_eq!((signs.to_look(now).works, signs.describe(occupancy, now).as_str()), (works, expect));
    }

    #[test]
    fn a_box_says_for_what_it_is_kept() {
        let in_use = |signs, works, expect| check(signs, Occupancy::InUse, works, expect);
        in_use(UseSigns { gpu_percent: Some(91.2), cpus: Some(2.0), ..QUIET }, Sign::Yes, "GPU 91 %");
        in_use(UseSigns { gpu_percent: None, cpus: Some(2.34), ..QUIET }, Sign::Yes, "CPU 2.3");
        in_use(UseSigns { input_at: Some(at("09:00:00")), ..QUIET }, Sign::No, "ssh, input 09:00 UTC");
        in_use(QUIET, Sign::No, "ssh, no input known");
        let idle = Occupancy::Idle(SignedDuration::from_mins(25));
        check(UseSigns { gpu_percent: Some(4.9), cpus: Some(0.2), ..QUIET }, idle, Sign::No, "idle since 12:35 UTC");
        check(UseSigns { has_gpus: false, gpu_percent: None, ..QUIET }, idle, Sign::No, "idle since 12:35 UTC");
        let unknown = |signs, works, expect| check(signs, Occupancy::Unknown, works, expect);
        unknown(UseSigns { gpu_percent: None, ..QUIET }, Sign::Unknown, "not judged: the use of the GPUs is not known");
        unknown(UseSigns { cpus: None, ..QUIET }, Sign::Unknown, "not judged: the use of the CPUs is not known");
        unknown(QUIET, Sign::No, "not judged: connections are not known");
    }

    #[test]
    fn cpus_are_counted_over_five_looks() {
        let begun = Instant::now();
        let mut window = CpuWindow::default();
        let mut add = |minute: u32, times: &[(i32, u64)]| {
            let times = times.iter().map(|(id, seconds)| ((*id, 1), Duration::from_secs(*seconds))).collect();
            window.add(begun + Duration::from_mins(1) * minute, Some(times))
        };
        assert_eq!(add(0, &[(1, 1000)]), None, "it is not known when they were used");
        assert_eq!(add(1, &[(1, 1060)]), Some(1.0));
        // One has ended, and another one has begun.
        assert_eq!(add(2, &[(2, 60)]), Some(1.0));
        for minute in 3..=6 {
            add(minute, &[(2, 60)]);
        }
        assert_eq!(add(7, &[(2, 60)]), Some(0.0));
        assert_eq!(window.add(begun, None), None);
    }
}
