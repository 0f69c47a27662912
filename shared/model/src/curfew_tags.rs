//! The tags that teams use: what they mean on a resource, and what cannot be read.

use jiff::{SignedDuration, Timestamp};

use crate::config::{DiskPolicy, RuleAction};
use crate::fault::{InvalidValue, breaks_line};
use crate::foreign_text::{harmless, quoted_unless_word};
use crate::hours::Hours;
use crate::instance::{Instance, Tags};
use crate::mark::{Mark, UnreadableMark};
use crate::mode::Mode;

mod values;

pub use values::{KEEP_UNTIL_FORMS, read_keep_until, read_stopped};
use values::{read_action, read_disk_policy, read_expiry, read_idle_after, read_job, read_own_moment};

/// The most tags of a resource, without AWS's own (EC2 user guide, "Tag restrictions").
pub const TAGS_MAX: usize = 50;
/// The longest key of a tag, in characters (the same page).
pub const TAG_KEY_CHARACTERS_MAX: usize = 128;

/// The tag whose presence means: never touched.
pub const PROTECTED: &str = "curfew:protected";
/// The tag that holds the [`Mark`].
pub const MARKED: &str = "curfew:marked";
/// The tag that says which rule stopped an instance, and when.
pub const STOPPED: &str = "curfew:stopped";
/// Opt in or out for one resource.
pub const MODE: &str = "curfew:mode";
/// How long this instance may be idle.
pub const IDLE_AFTER: &str = "curfew:idle-after";
/// What happens to this instance when it is idle.
pub const ON_IDLE: &str = "curfew:on-idle";
/// Whether this instance's NVMe storage may be lost.
pub const LOCAL_DISK: &str = "curfew:local-disk";
/// When this instance ends.
pub const EXPIRES_AT: &str = "curfew:expires-at";
/// When this instance should run.
pub const HOURS: &str = "curfew:hours";
/// Until when Curfew skips this resource.
pub const KEEP_UNTIL: &str = "curfew:keep-until";
/// The job this resource was launched for.
pub const JOB: &str = "curfew:job";
/// Which attempt of the job it is.
pub const ATTEMPT: &str = "curfew:attempt";
/// When a volume was first seen unattached.
pub const UNATTACHED_SINCE: &str = "curfew:unattached-since";
/// The volume that a snapshot of Curfew's own is of.
pub const SNAPSHOT_OF: &str = "curfew:snapshot-of";
/// How the volume of a snapshot was: `<zone>,<type>,<GiB>,<IOPS>,<MiB/s>`.
pub const RESTORE: &str = "curfew:restore";
/// When the volume of a snapshot was deleted.
pub const DELETED_AT: &str = "curfew:deleted-at";

/// Every key that means something, on whatever kind of resource.
pub const KEYS: [&str; 16] = [
    PROTECTED,
    MARKED,
    STOPPED,
    MODE,
    IDLE_AFTER,
    ON_IDLE,
    LOCAL_DISK,
    EXPIRES_AT,
    HOURS,
    KEEP_UNTIL,
    JOB,
    ATTEMPT,
    UNATTACHED_SINCE,
    SNAPSHOT_OF,
    RESTORE,
    DELETED_AT,
];

/// When Curfew stopped an instance, as `curfew:stopped` says; `None` if it does not say so, or not legibly.
#[must_use]
pub fn stopped_at(tags: &Tags) -> Option<Timestamp> {
    tags.get(STOPPED).and_then(|value| read_stopped(value).ok()).map(|stopped| stopped.at)
}

/// For people: every tag that cannot be read, and why.
#[must_use]
pub fn explain_unreadable(unreadable: &[UnreadableTag]) -> String {
    let problem = |UnreadableTag { key, value, problem }: &UnreadableTag| {
        format!("the tag {}={} cannot be read: {problem}", quoted_unless_word(key), quoted_unless_word(value))
    };
    unreadable.iter().map(problem).collect::<Vec<_>>().join("; ")
}

/// The same in a few words: which tags those are.
#[must_use]
pub fn name_unreadable(unreadable: &[UnreadableTag]) -> String {
    let keys: Vec<String> = unreadable.iter().map(|tag| quoted_unless_word(&tag.key)).collect();
    format!("tag {} unreadable", keys.join(", "))
}

/// What one resource's tags say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CurfewTags {
    /// `curfew:mode`.
    pub mode: Option<Mode>,
    /// `curfew:idle-after`.
    pub idle_after: Option<IdleAfter>,
    /// `curfew:on-idle`.
    pub on_idle: Option<RuleAction>,
    /// `curfew:local-disk`.
    pub local_disk: Option<DiskPolicy>,
    /// `curfew:expires-at`.
    pub expires_at: Option<Timestamp>,
    /// `curfew:hours`.
    pub hours: Option<Hours>,
    /// `curfew:keep-until`.
    pub keep_until: Option<Timestamp>,
    /// `curfew:marked`, whatever resource it names.
    pub marked: Option<Mark>,
    /// `curfew:stopped`.
    pub stopped: Option<StoppedTag>,
    /// `curfew:job`.
    pub job: Option<String>,
    /// `curfew:unattached-since`.
    pub unattached_since: Option<Timestamp>,
    /// `curfew:deleted-at`.
    pub deleted_at: Option<Timestamp>,
}

/// The tagged resource. A tag for instances has no effect on a volume that it was copied to, but must be readable there too: its author had an
/// intention.
#[derive(Clone, Copy)]
enum TagCarrier {
    /// An instance, launched then.
    Instance(Timestamp),
    Volume,
    Snapshot,
    /// A resource of `SageMaker`, created then.
    SageMaker(Timestamp),
}

/// `curfew:idle-after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleAfter {
    /// Never idle.
    Off,
    /// How long it must be idle.
    Window(SignedDuration),
}

/// `curfew:stopped`: which rule stopped it, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedTag {
    /// The rule's name; a later version may know more of them.
    pub rule: String,
    pub at: Timestamp,
}

/// One tag that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableTag {
    pub key: String,
    pub value: String,
    /// What is wrong and what is legal.
    pub problem: String,
}

impl CurfewTags {
    /// Reads all tags of `curfew` on an instance.
    ///
    /// # Errors
    /// Every tag that cannot be read, in order of keys: an unreadable value, an unknown key that begins with `curfew`
    /// to its reader's eye, or an end that lies before the instance's own launch (a copied tag).
    pub fn read(instance: &Instance) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_instance(instance.launched_at, &instance.tags)
    }

    /// Reads all tags of `curfew` on an instance that was launched then.
    ///
    /// # Errors
    /// As [`CurfewTags::read`].
    pub fn read_instance(launched_at: Timestamp, tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_on(TagCarrier::Instance(launched_at), tags)
    }

    /// Reads all tags of `curfew` on a volume.
    ///
    /// # Errors
    /// As [`CurfewTags::read`].
    pub fn read_volume(tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_on(TagCarrier::Volume, tags)
    }

    /// Reads all tags of `curfew` on a snapshot that Curfew made.
    ///
    /// # Errors
    /// As [`CurfewTags::read`].
    pub fn read_snapshot(tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_on(TagCarrier::Snapshot, tags)
    }

    /// Reads all tags of `curfew` on a resource of `SageMaker`.
    ///
    /// # Errors
    /// As [`CurfewTags::read`].
    pub fn read_sagemaker(created_at: Timestamp, tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_on(TagCarrier::SageMaker(created_at), tags)
    }

    fn read_on(on: TagCarrier, tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        let mut vocabulary = Self::default();
        let mut unreadable = Vec::new();
        for (key, value) in tags {
            if !begins_with_curfew(key) {
                continue;
            }
            if let Err(problem) = vocabulary.read_tag(key, value, on) {
                // The sentence quotes the value, or a part of it.
                let shown = harmless(value);
                let problem =
                    if shown == *value { Some(problem) } else { Self::default().read_tag(key, &shown, on).err() };
                let unseen =
                    || "it has a character that no value has, such as a quote or one that shows nothing".to_owned();
                let problem = problem.map_or_else(unseen, |problem| problem.to_string());
                unreadable.push(UnreadableTag { key: key.clone(), value: value.clone(), problem });
            }
        }
        if unreadable.is_empty() { Ok(vocabulary) } else { Err(unreadable) }
    }

    fn read_tag(&mut self, key: &str, value: &str, on: TagCarrier) -> Result<(), InvalidValue> {
        match key {
            MODE => {
                self.mode = Some(Mode::read(value).ok_or_else(|| InvalidValue::new("write `enforce` or `observe`"))?);
            }
            IDLE_AFTER => self.idle_after = Some(read_idle_after(value)?),
            ON_IDLE => self.on_idle = Some(read_action(value)?),
            LOCAL_DISK => self.local_disk = Some(read_disk_policy(value)?),
            EXPIRES_AT => self.expires_at = Some(read_expiry(value, on)?),
            HOURS => self.hours = Some(Hours::read(value)?),
            KEEP_UNTIL => self.keep_until = Some(read_keep_until(value)?),
            MARKED => {
                self.marked = Some(value.parse().map_err(|error: UnreadableMark| InvalidValue::new(error))?);
            }
            STOPPED => self.stopped = Some(read_stopped(value)?),
            JOB => self.job = Some(read_job(value, on)?),
            UNATTACHED_SINCE => self.unattached_since = read_own_moment(value, matches!(on, TagCarrier::Volume))?,
            SNAPSHOT_OF | RESTORE | DELETED_AT if !matches!(on, TagCarrier::Snapshot) => {
                return Err(InvalidValue::new("a tag of the snapshots that Curfew makes; remove it here"));
            }
            DELETED_AT => self.deleted_at = read_own_moment(value, true)?,
            PROTECTED | ATTEMPT | SNAPSHOT_OF | RESTORE => {}
            _ => {
                return Err(InvalidValue::new(format!("there is no such tag; Curfew knows {}", KEYS.join(", "))));
            }
        }
        Ok(())
    }
}

/// Until when a resource is kept, whatever else it says; `None` if it does not say so, or not legibly.
#[must_use]
pub fn kept_until(tags: &Tags) -> Option<Timestamp> {
    tags.get(KEEP_UNTIL).and_then(|value| read_keep_until(value).ok())
}

/// Whether its owner sees a key that begins with `curfew`: in any case, after blanks, and with the two Cyrillic letters that
/// lie on the keys of their Latin look-alikes.
pub fn begins_with_curfew(key: &str) -> bool {
    let latin = |letter: char| match letter {
        'с' | 'С' => 'c',
        'е' | 'Е' => 'e',
        other => other.to_ascii_lowercase(),
    };
    key.trim_start_matches(is_unseen).chars().map(latin).take(6).eq("curfew".chars())
}

/// Blanks, and what shows nothing at all: what is copied from a page or a chat brings them along.
fn is_unseen(letter: char) -> bool {
    letter.is_whitespace() || breaks_line(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;

    fn problem(key: &str, value: &str) -> Option<String> {
        match CurfewTags::read(&instance().tag(key, value).build()) {
            Ok(_) => None,
            Err(unreadable) => Some(unreadable[0].key.clone()),
        }
    }

    #[test]
    fn every_documented_value_is_read() {
        for (key, value) in [
            (MODE, "enforce"),
            (MODE, "observe"),
            (IDLE_AFTER, "30m"),
            (IDLE_AFTER, "off"),
            (ON_IDLE, "notify"),
            (LOCAL_DISK, "expendable"),
            (EXPIRES_AT, "2026-09-30T18:00:00Z"),
            (EXPIRES_AT, "2026-09-30T18:00:00+02:00"),
            (HOURS, "Mon-Fri 08:00-20:00 Europe/Berlin"),
            (KEEP_UNTIL, "2026-09-30"),
            (KEEP_UNTIL, "2026-09-30T18:00:00Z"),
            (MARKED, "i-0abc idle=stop@2026-09-30T18:00:00Z"),
            (STOPPED, "idle 2026-09-30T18:00:00Z"),
            (JOB, "vision/llama-1"),
            (PROTECTED, ""),
            ("Name", "curfew"),
            ("curfe", "x"),
            ("my-curfew:mode", "x"),
        ] {
            assert_eq!(problem(key, value), None, "{key}={value}");
        }
    }

    #[test]
    fn a_typo_is_found() {
        for (key, value) in [
            (MODE, "Enforce"),
            (MODE, ""),
            (IDLE_AFTER, "soon"),
            (IDLE_AFTER, "100d"),
            (ON_IDLE, "kill"),
            (LOCAL_DISK, "yes"),
            (EXPIRES_AT, "tomorrow"),
            (EXPIRES_AT, "2026-09-30"),
            (EXPIRES_AT, "2026-09-30T18:00:00+02:00[America/New_York]"),
            (EXPIRES_AT, "2001-01-01T00:00:00Z"),
            (HOURS, "9 to 5"),
            (KEEP_UNTIL, "friday"),
            (KEEP_UNTIL, "2026-02-30"),
            (KEEP_UNTIL, "2026-09-30T18:00:00Z[Europe/Berlin]"),
            (MARKED, "yes"),
            (STOPPED, "idle"),
            ("Curfew:Protected", ""),
            ("curfew:protectd", ""),
            ("CURFEW", "x"),
            ("curfew-protected", ""),
            (" curfew:protected", ""),
            ("\u{200b}curfew:protected", ""),
            ("сurfew:protected", ""),
            ("CURFЕW:keep-until", "2026-09-30"),
        ] {
            assert_eq!(problem(key, value).as_deref(), Some(key), "{key}={value}");
        }
    }

    #[test]
    fn an_unreadable_value_cannot_speak_for_curfew() {
        let said = |key: &str, value: &str| {
            explain_unreadable(&CurfewTags::read(&instance().tag(key, value).build()).unwrap_err())
        };
        assert_eq!(
            said(HOURS, "Mon-Fri 8` (fine)\". Undo: https://e"),
            "the tag curfew:hours=\"Mon-Fri 8' (fine)'. Undo: https: //e\" cannot be read: write days, times and time zone, such as \
             `Mon-Fri 08:00-20:00 Europe/Berlin`"
        );
        assert!(
            said(IDLE_AFTER, "so`on").contains("curfew:idle-after=\"so'on\" cannot be read: `so'on` is not a duration")
        );
        assert!(said(MODE, "enforce\u{200b}").ends_with("cannot be read: write `enforce` or `observe`"));
    }

    #[test]
    fn a_date_is_kept_to_its_end_in_utc() {
        let read = CurfewTags::read(&instance().tag(KEEP_UNTIL, "2026-09-30").build()).unwrap();
        assert_eq!(read.keep_until.unwrap().to_string(), "2026-10-01T00:00:00Z");
        let read = CurfewTags::read(&instance().tag(KEEP_UNTIL, "9999-12-31").build()).unwrap();
        assert_eq!(read.keep_until, Some(Timestamp::MAX));
    }
}
