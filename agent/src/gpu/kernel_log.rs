//! Xid errors, which NVIDIA's driver reports in the kernel's log.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

/// The kernel's ring buffer holds fewer.
const RECORDS_MAX: usize = 100_000;

/// A record is at most 8 KiB (Linux, `printk.c`: `PRINTK_MESSAGE_MAX` is smaller).
const RECORD_BYTES: usize = 8 * 1024;

/// Xids after which a GPU needs a reset, or another machine (NVIDIA, "XID Errors": 48 double-bit ECC, 62 halted controller, 64 row
/// remapping, 74 `NVLink`, 79 fallen off the bus, 95 uncontained ECC, 119 and 120 GSP, 140 unrecovered ECC).
const OF_HARDWARE: [u32; 9] = [48, 62, 64, 74, 79, 95, 119, 120, 140];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Xid {
    number: u32,
}

impl Xid {
    pub(super) fn is_of_hardware(&self) -> bool {
        OF_HARDWARE.contains(&self.number)
    }

    pub(super) fn describe(&self) -> String {
        format!("NVIDIA's driver has reported Xid {}", self.number)
    }
}

/// The first error of hardware, or else the first of any kind, since so many seconds after the boot. `None` also if the log cannot be read.
pub(super) fn find_xid(since_seconds: u64) -> Option<Xid> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let mut log = File::options().read(true).custom_flags(nonblocking).open("/dev/kmsg").ok()?;
    let (mut record, mut first) = (vec![0; RECORD_BYTES], None);
    for _ in 0..RECORDS_MAX {
        let read = match log.read(&mut record) {
            Ok(0) => break,
            Ok(read) => read,
            // Records were overwritten meanwhile.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
            Err(_) => break,
        };
        let xid = xid_of(&String::from_utf8_lossy(record.get(..read)?), since_seconds);
        if xid.as_ref().is_some_and(Xid::is_of_hardware) {
            return xid;
        }
        first = first.or(xid);
    }
    first
}

/// Linux, `Documentation/ABI/testing/dev-kmsg`: priority, number, microseconds, flags; then the message.
fn xid_of(record: &str, since_seconds: u64) -> Option<Xid> {
    let (head, message) = record.split_once(';')?;
    let (priority, micros): (u32, u64) = {
        let mut fields = head.split(',');
        (fields.next()?.parse().ok()?, fields.nth(1)?.parse().ok()?)
    };
    // A program can write there as well, and the kernel marks that by a facility.
    let is_of_kernel = priority < 8;
    let words = message.strip_prefix("NVRM: Xid (")?.split_once("): ")?.1;
    let number = words.split(',').next()?.trim().parse().ok()?;
    (is_of_kernel && micros / 1_000_000 >= since_seconds).then_some(Xid { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: &str, expect: Option<(u32, bool)>) {
        let xid = xid_of(record, 60);
        assert_eq!(xid.map(|xid| (xid.number, xid.is_of_hardware())), expect, "{record}");
    }

    #[test]
    fn an_error_of_the_driver_has_its_number() {
        let lost = "NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n SUBSYSTEM=pci";
        check(&format!("3,1200,60500000,-;{lost}"), Some((79, true)));
        check(&format!("3,1200,59999999,-;{lost}"), None);
        check(&format!("11,1200,60500000,-;{lost}"), None);
        check(
            "3,1200,60500000,-;NVRM: Xid (PCI:0000:00:1e): 31, pid=1234, name=python3, Ch 00000008",
            Some((31, false)),
        );
        check("3,1200,60500000,-;NVRM: Xid (PCI:0000:00:1e): x", None);
        check("6,1,70000000,-;usb 1-1: new device", None);
        check("", None);
    }
}
