//! The inputs besides AWS: the clock and its zone, variables, and the command itself.

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

#[expect(clippy::disallowed_methods, reason = "this is the one place of the command")]
pub(crate) fn clock() -> Timestamp {
    Timestamp::now()
}

/// The value of a variable, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the command")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The time zone of this computer: by `TZ`, a name or a rule of POSIX, else by `/etc/localtime`. `None` if it is unknown.
pub(crate) fn time_zone() -> Option<TimeZone> {
    if let Some(named) = variable("TZ") {
        let name = named.trim_start_matches(':');
        return TimeZone::get(name).or_else(|_| TimeZone::posix(name)).ok();
    }
    let bytes = std::fs::read("/etc/localtime").ok()?;
    TimeZone::tzif("Local", &bytes).ok()
}

/// The home of the person, an absolute path.
pub(crate) fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The path of this command.
pub(crate) fn executable() -> Option<PathBuf> {
    std::env::current_exe().ok()
}
