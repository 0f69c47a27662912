//! Everything that can go wrong.

use crate::chance::DAY;
use crate::named::named;

/// The longest storm.
pub(crate) const STORM_MAX: i64 = 3 * DAY;
/// The longest calm between two storms, of a mild climate and of a nasty one.
pub(crate) const CALM_MAX: [i64; 2] = [30 * DAY, 8 * DAY];

named! {
    /// Every kind of fault.
    Fault {
        RunLost = "run lost",
        RunLate = "run late",
        RunDoubled = "run doubled",
        RunSlow = "run that acts an hour later",
        RunCut = "run cut off",
        RunOutOfTime = "run out of time",
        ConfigurationRefused = "configuration refused",
        NobodyListens = "nobody listens",
        AudienceUnknown = "nobody can say who listens",
        NoticesUnreadable = "notices unreadable",
        NoticesUnwritten = "notices not written",
        NoticesLost = "notices lost",
        VolumesStale = "volumes of an hour ago",
        SnapshotsStale = "snapshots of an hour ago",
        VolumeUnlisted = "volume missing in the list",
        ListingFailed = "listing failed",
        JobUnread = "job unread",
        UseUnanswered = "use unanswered",
        UsePartly = "use answered partly",
        AuditUnwritten = "audit record not written",
        SecondLookFailed = "second look failed",
        WriteRefused = "write refused",
        WriteUnheard = "write done unheard",
        DateRefused = "deleted-at not written",
        SnapshotFailed = "snapshot came to nothing",
        MessageRefused = "message refused",
        MessageUnheard = "message sent unheard",
    }
}

impl Fault {
    /// Whether a run cannot tell or remember what it did: it is cut off, or its memory is not written or is lost. Of two runs at once
    /// each remembers what it owes.
    pub(crate) const fn is_forgetful(self) -> bool {
        matches!(self, Self::RunCut | Self::NoticesUnwritten | Self::NoticesLost)
    }
}
