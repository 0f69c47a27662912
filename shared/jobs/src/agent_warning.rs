//! The agent's warnings to the job's owner during an attempt. The heartbeat carries them, because a log is rarely read in time.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use model::fault::one_line;
use model::notification_log::REPEAT_AFTER;
use serde::{Deserialize, Serialize};

use crate::node_gang::Node;

/// The longest words of one warning, in characters: they come from a machine, and several have to fit a message.
const WORDS_MAX: usize = 500;

/// A condition is reported after it has lasted so long: a rename, or a read during a write, is over by then.
pub const STANDS_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Time for which an event is reported: people are notified of a lasting condition once a day ([`REPEAT_AFTER`]), and of an event once.
const HAPPENED_FOR: SignedDuration = SignedDuration::from_hours(REPEAT_AFTER.as_hours() - 1);

/// Its kind. People are notified of each kind at most once a day, even if the figures change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentWarningKind {
    /// A checkpoint was damaged, or the command failed on an unverified one, and the attempt resumed from an older one, or began at zero.
    Damaged,
    /// A checkpoint takes longer to upload than an interruption leaves.
    TooLarge,
    /// No name in the checkpoint directory is that of a checkpoint.
    NoCheckpoint,
    /// An entry that looks like a checkpoint is not kept.
    NotKept,
    /// Old checkpoints cannot be deleted.
    NotPruned,
    /// Steps come after a higher one was kept.
    Overtaken,
    /// Data without a number goes with no checkpoint.
    LeftOut,
    /// The name of a checkpoint has several numbers, and none with a key.
    AmbiguousStep,
    /// The checkpoint directory is gone, or cannot be looked at.
    Directory,
    /// The disk is nearly full.
    Disk,
    /// The command can read the instance metadata, though its job does not ask for them.
    Metadata,
    /// The work shows no sign of life.
    Stalled,
    /// The command ended at the signal that announced the loss of its machine, and saved nothing.
    LostAtSignal,
    /// The command has ended, and left processes behind that were killed.
    LeftRunning,
    /// The log says that NCCL uses TCP, on a machine with EFA.
    NoEfa,
    /// A GPU of the machine does not work.
    Gpu,
    /// Nobody uses the box, so it ends soon.
    BoxIdle,
    /// Whether anybody uses the box cannot be judged.
    BoxUnknown,
    /// The agent had to give up. The exit record says so, and no heartbeat.
    Broken,
    /// A kind that only another version of the agent knows.
    #[serde(other)]
    Other,
}

impl AgentWarningKind {
    /// Its name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::TooLarge => "too-large",
            Self::NoCheckpoint => "no-checkpoint",
            Self::NotKept => "not-kept",
            Self::NotPruned => "not-pruned",
            Self::Overtaken => "overtaken",
            Self::LeftOut => "left-out",
            Self::AmbiguousStep => "ambiguous-step",
            Self::Directory => "directory",
            Self::Disk => "disk",
            Self::Metadata => "metadata",
            Self::Stalled => "stalled",
            Self::LostAtSignal => "lost-at-signal",
            Self::LeftRunning => "left-running",
            Self::NoEfa => "no-efa",
            Self::Gpu => "gpu",
            Self::BoxIdle => "box-idle",
            Self::BoxUnknown => "box-unknown",
            Self::Broken => "broken",
            Self::Other => "other",
        }
    }

    /// Returns `true` if this warning of one attempt is a different one from that of the previous attempt.
    #[must_use]
    pub const fn is_of_attempt(self) -> bool {
        matches!(self, Self::Damaged | Self::LeftRunning | Self::Gpu | Self::Broken)
    }
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentWarning {
    pub kind: AgentWarningKind,
    /// The text for the job's owner.
    pub words: String,
}

impl AgentWarning {
    /// One, in words that fit.
    #[must_use]
    pub fn new(kind: AgentWarningKind, words: &str) -> Self {
        Self { kind, words: one_line(words, WORDS_MAX) }
    }

    /// The warning of a node of a gang, which it names.
    #[must_use]
    pub fn of_node(&self, node: Node) -> Self {
        Self::new(self.kind, &format!("node {node}: {}", self.words))
    }

    /// The warnings of an untrusted document: one of each kind, in words that fit.
    #[must_use]
    pub fn sanitize(all: &[Self]) -> Vec<Self> {
        let by_kind: BTreeMap<AgentWarningKind, &str> = all.iter().map(|one| (one.kind, one.words.as_str())).collect();
        by_kind.into_iter().map(|(kind, words)| Self::new(kind, words)).collect()
    }
}

/// The warnings that an agent has found, one of each kind. Moments are counted from the beginning of the attempt, whatever clocks are set
/// to.
#[derive(Debug, Clone, Default)]
pub struct AgentWarnings(BTreeMap<AgentWarningKind, ActiveWarning>);

#[derive(Debug, Clone)]
struct ActiveWarning {
    words: String,
    /// Moments at which the warning was found first and last.
    first: SignedDuration,
    last: SignedDuration,
    /// Time between `first` and `last` from which on the warning is reported.
    stands_after: SignedDuration,
    /// Moment from which on the warning is no longer reported.
    until: SignedDuration,
}

impl AgentWarnings {
    /// Reports an event at once, and for most of a day. Answers whether it is the first of its kind.
    pub fn add_event(&mut self, kind: AgentWarningKind, words: &str, at: SignedDuration) -> bool {
        let (is_new, stands_after, until) =
            (self.reported_text(kind, at).is_none(), SignedDuration::ZERO, at.saturating_add(HAPPENED_FOR));
        self.0.insert(kind, ActiveWarning { words: words.to_owned(), first: at, last: at, stands_after, until });
        is_new
    }

    /// Reports a condition, as observed at that moment, once it has lasted so long, until it is over.
    pub fn set_condition(
        &mut self,
        kind: AgentWarningKind,
        words: &str,
        stands_after: SignedDuration,
        at: SignedDuration,
    ) {
        let first = self.0.get(&kind).map_or(at, |found| found.first);
        let words = words.to_owned();
        self.0.insert(kind, ActiveWarning { words, first, last: at, stands_after, until: SignedDuration::MAX });
    }

    /// Removes a condition that no longer holds.
    pub fn clear(&mut self, kind: AgentWarningKind) {
        self.0.remove(&kind);
    }

    /// The warnings of a heartbeat at that moment.
    #[must_use]
    pub fn to_report(&self, at: SignedDuration) -> Vec<AgentWarning> {
        self.0.keys().filter_map(|kind| Some(AgentWarning::new(*kind, self.reported_text(*kind, at)?))).collect()
    }

    fn reported_text(&self, kind: AgentWarningKind, at: SignedDuration) -> Option<&str> {
        let stands =
            |found: &&ActiveWarning| found.last.saturating_sub(found.first) >= found.stands_after && at < found.until;
        self.0.get(&kind).filter(stands).map(|found| found.words.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: i64) -> SignedDuration {
        SignedDuration::from_mins(minutes)
    }

    /// Compares the words of all warnings that are reported at that minute.
    #[track_caller]
    fn check(warnings: &AgentWarnings, minute: i64, expect: &[&str]) {
        let reported = warnings.to_report(minutes(minute));
        assert_eq!(reported.iter().map(|one| one.words.as_str()).collect::<Vec<_>>(), expect, "at minute {minute}");
    }

    #[test]
    fn an_event_is_reported_at_once_and_for_less_than_a_day() {
        let mut warnings = AgentWarnings::default();
        assert!(warnings.add_event(AgentWarningKind::Damaged, "step 15", minutes(3)));
        check(&warnings, 3, &["step 15"]);
        check(&warnings, 3 + 23 * 60 - 1, &["step 15"]);
        check(&warnings, 3 + 23 * 60, &[]);
        assert!(!warnings.add_event(AgentWarningKind::Damaged, "step 10", minutes(4)), "it is reported already");
        check(&warnings, 4, &["step 10"]);
        assert!(warnings.add_event(AgentWarningKind::TooLarge, "9 GiB", minutes(5)));
        check(&warnings, 5, &["step 10", "9 GiB"]);
    }

    #[test]
    fn a_condition_is_reported_once_it_lasts_until_it_is_fixed() {
        let mut warnings = AgentWarnings::default();
        let mut look = |minute, expect: &[&str]| {
            warnings.set_condition(AgentWarningKind::Disk, &format!("{minute} MiB"), STANDS_AFTER, minutes(minute));
            check(&warnings, minute, expect);
            warnings.clone()
        };
        look(0, &[]);
        look(1, &[]);
        look(2, &["2 MiB"]);
        let mut warnings = look(90, &["90 MiB"]);
        check(&warnings, 7 * 24 * 60, &["90 MiB"]);
        warnings.clear(AgentWarningKind::Disk);
        check(&warnings, 90, &[]);
        // What comes again has to stand again.
        warnings.set_condition(AgentWarningKind::Disk, "again", STANDS_AFTER, minutes(91));
        check(&warnings, 91, &[]);
    }

    #[test]
    fn a_momentary_condition_is_not_reported_later() {
        let mut warnings = AgentWarnings::default();
        warnings.set_condition(
            AgentWarningKind::NotKept,
            "it was changed while it was uploaded",
            STANDS_AFTER,
            minutes(1),
        );
        check(&warnings, 60, &[]);
    }

    #[test]
    fn words_of_a_machine_are_limited() {
        let all: Vec<AgentWarning> = (0..1000)
            .map(|number| AgentWarning { kind: AgentWarningKind::Disk, words: "x".repeat(number) })
            .chain([AgentWarning { kind: AgentWarningKind::Damaged, words: "step 15".to_owned() }])
            .collect();
        let warnings = AgentWarning::sanitize(&all);
        assert_eq!(
            warnings.iter().map(|one| one.kind).collect::<Vec<_>>(),
            [AgentWarningKind::Damaged, AgentWarningKind::Disk]
        );
        assert_eq!(
            warnings.last().map(|one| one.words.chars().count()),
            Some(WORDS_MAX + 1),
            "and a sign that there was more"
        );
    }

    #[test]
    fn a_kind_has_a_name_and_an_unknown_one_is_another() {
        use AgentWarningKind::{
            AmbiguousStep, Broken, Damaged, Directory, Disk, Gpu, LeftOut, LeftRunning, LostAtSignal, NoCheckpoint,
            NoEfa, NotKept, NotPruned, Other, Overtaken, Stalled, TooLarge,
        };
        for kind in [
            Damaged,
            TooLarge,
            NoCheckpoint,
            NotKept,
            NotPruned,
            Overtaken,
            LeftOut,
            AmbiguousStep,
            Directory,
            Disk,
            Stalled,
            LostAtSignal,
            LeftRunning,
            NoEfa,
            Gpu,
            Broken,
            Other,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        let later: AgentWarning = serde_json::from_str(r#"{"kind": "on-fire", "words": "it burns"}"#).unwrap();
        assert_eq!(later.kind, Other);
    }
}
