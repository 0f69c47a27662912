//! The tags that teams use: what they mean on a resource, and what cannot be read.

use jiff::{SignedDuration, Timestamp};

use crate::config::{DiskPolicy, RuleAction};
use crate::fault::{InvalidValue, breaks_line};
use crate::foreign_text::{harmless, quoted_unless_word};
use crate::hours::Hours;
use crate::instance::{Instance, Tags};
use crate::mode::Mode;

mod values;

pub use values::{KEEP_UNTIL_FORMS, read_keep_until};
use values::{read_action, read_expiry, read_idle_after, read_job};

/// The most tags of a resource, without AWS's own (EC2 user guide, "Tag restrictions").
pub const TAGS_MAX: usize = 50;
/// The longest key of a tag, in characters (the same page).
pub const TAG_KEY_CHARACTERS_MAX: usize = 128;

/// The tag whose presence means: never touched.
pub const PROTECTED: &str = "curfew:protected";
/// The label that shows the earliest announced action, a [`Mark`](crate::mark::Mark).
pub const MARKED: &str = "curfew:marked";
/// The label that shows which rule stopped an instance, and when.
pub const STOPPED: &str = "curfew:stopped";
/// Opt in or out for one resource.
pub const MODE: &str = "curfew:mode";
/// The tag that limits the idle time of this instance.
pub const IDLE_AFTER: &str = "curfew:idle-after";
/// The tag with the action on this instance when it is idle.
pub const ON_IDLE: &str = "curfew:on-idle";
/// The tag that allows or forbids the loss of this instance's NVMe storage.
pub const LOCAL_DISK: &str = "curfew:local-disk";
/// The tag with the time at which this instance ends.
pub const EXPIRES_AT: &str = "curfew:expires-at";
/// The tag with the hours in which this instance should run.
pub const HOURS: &str = "curfew:hours";
/// The tag with the time until which Curfew skips this resource.
pub const KEEP_UNTIL: &str = "curfew:keep-until";
/// The job this resource was launched for.
pub const JOB: &str = "curfew:job";
/// The tag with the number of the attempt of the job.
pub const ATTEMPT: &str = "curfew:attempt";
/// The label that shows which box a volume or a snapshot is the home of, `<team>/<name>`.
pub const BOX: &str = "curfew:box";
/// The label that shows when a volume was first seen unattached.
pub const UNATTACHED_SINCE: &str = "curfew:unattached-since";
/// The label that shows which volume a snapshot of Curfew's own is of.
pub const SNAPSHOT_OF: &str = "curfew:snapshot-of";
/// The label with the properties of a snapshot's volume: `<zone>,<type>,<GiB>,<IOPS>,<MiB/s>`.
pub const RESTORE: &str = "curfew:restore";
/// The label that shows when the volume of a snapshot was deleted.
pub const DELETED_AT: &str = "curfew:deleted-at";

/// Every key that means something, on whatever kind of resource.
pub const KEYS: [&str; 17] = [
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
    BOX,
    UNATTACHED_SINCE,
    SNAPSHOT_OF,
    RESTORE,
    DELETED_AT,
];

/// The labels that Curfew writes for people and for IAM. No rule believes one: anybody may have written it. `curfew undo` offers what
/// `curfew:restore` says, and a person decides.
pub const LABELS: [&str; 7] = [MARKED, STOPPED, BOX, UNATTACHED_SINCE, SNAPSHOT_OF, RESTORE, DELETED_AT];

/// `true` if these labels can be written beside a resource's tags. AWS's own tags do not count (EC2 user guide, "Tag restrictions").
#[must_use]
pub fn has_room(tags: &Tags, labels: &[&str]) -> bool {
    let own = tags.keys().filter(|key| !key.starts_with("aws:")).count();
    let new = labels.iter().filter(|label| !tags.contains_key(**label)).count();
    new == 0 || own.saturating_add(new) <= TAGS_MAX
}

/// Explains to people every tag that cannot be read, each with its problem.
#[must_use]
pub fn explain_unreadable(unreadable: &[UnreadableTag]) -> String {
    let problem = |UnreadableTag { key, value, problem }: &UnreadableTag| {
        format!("the tag {}={} cannot be read: {problem}", quoted_unless_word(key), quoted_unless_word(value))
    };
    unreadable.iter().map(problem).collect::<Vec<_>>().join("; ")
}

/// Names the unreadable tags to people, in a few words.
#[must_use]
pub fn name_unreadable(unreadable: &[UnreadableTag]) -> String {
    let keys: Vec<String> = unreadable.iter().map(|tag| quoted_unless_word(&tag.key)).collect();
    format!("tag {} unreadable", keys.join(", "))
}

/// Settings in one resource's tags.
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
    /// `curfew:job`.
    pub job: Option<String>,
}

/// The tagged resource. A tag for instances has no effect on a volume that it was copied to, but must be readable there too: its author had an
/// intention.
#[derive(Clone, Copy)]
enum TagCarrier {
    /// An instance, launched then.
    Instance(Timestamp),
    Volume,
    /// A resource of `SageMaker`, created then.
    SageMaker(Timestamp),
}

/// `curfew:idle-after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleAfter {
    /// Never idle.
    Off,
    /// The time for which it must be idle.
    Window(SignedDuration),
}

/// One tag that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableTag {
    pub key: String,
    pub value: String,
    /// The mistake, and the legal values.
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

    /// Reads all tags of `curfew` on a volume or a snapshot.
    ///
    /// # Errors
    /// As [`CurfewTags::read`].
    pub fn read_volume(tags: &Tags) -> Result<Self, Vec<UnreadableTag>> {
        Self::read_on(TagCarrier::Volume, tags)
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
            LOCAL_DISK => self.local_disk = Some(DiskPolicy::read(value)?),
            EXPIRES_AT => self.expires_at = Some(read_expiry(value, on)?),
            HOURS => self.hours = Some(Hours::read(value)?),
            KEEP_UNTIL => self.keep_until = Some(read_keep_until(value)?),
            JOB => self.job = Some(read_job(value, on)?),
            PROTECTED | ATTEMPT => {}
            label if LABELS.contains(&label) => {}
            _ => {
                return Err(InvalidValue::new(format!("there is no such tag; Curfew knows {}", KEYS.join(", "))));
            }
        }
        Ok(())
    }
}

/// Returns the time until which a resource is kept, whatever its other tags say; `None` if it has no such tag, or no legible one.
#[must_use]
pub fn kept_until(tags: &Tags) -> Option<Timestamp> {
    tags.get(KEEP_UNTIL).and_then(|value| read_keep_until(value).ok())
}

/// `true` if an owner sees a key that begins with `curfew`: in upper or lower case, after blanks, and with the two Cyrillic letters that
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
            (LOCAL_DISK, "24h"),
            (EXPIRES_AT, "2026-09-30T18:00:00Z"),
            (EXPIRES_AT, "2026-09-30T18:00:00+02:00"),
            (HOURS, "Mon-Fri 08:00-20:00 Europe/Berlin"),
            (KEEP_UNTIL, "2026-09-30"),
            (KEEP_UNTIL, "2026-09-30T18:00:00Z"),
            (MARKED, "idle=stop@2026-09-30T18:00:00Z"),
            (MARKED, "yes"),
            (STOPPED, "+999999-01-01"),
            (SNAPSHOT_OF, "vol-0abc"),
            (DELETED_AT, "9999-12-31T23:59:59Z"),
            (UNATTACHED_SINCE, "-009999-01-01T00:00:00Z"),
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
            (EXPIRES_AT, "9998-01-01T00:00:00Z"),
            (HOURS, "9 to 5"),
            (KEEP_UNTIL, "friday"),
            (KEEP_UNTIL, "2026-02-30"),
            (KEEP_UNTIL, "0206-09-30"),
            (KEEP_UNTIL, "2026-09-30T18:00:00Z[Europe/Berlin]"),
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
        let kept = |value: &str| kept_until(&Tags::from([(KEEP_UNTIL.to_owned(), value.to_owned())]));
        assert_eq!(kept("2026-09-30").unwrap().to_string(), "2026-10-01T00:00:00Z");
        for for_ever in ["9001-01-01", "9999-12-31", "9999-12-31T23:59:59Z"] {
            assert_eq!(kept(for_ever), Some(Timestamp::MAX), "{for_ever}");
        }
    }
}
