//! Everything that can go wrong.

use crate::chance::{DAY, HOUR};
use crate::named::named;

/// The longest storm.
pub(crate) const STORM_MAX: i64 = 12 * HOUR;
/// The longest calm between two storms, of a mild climate and of a nasty one.
pub(crate) const CALM_MAX: [i64; 2] = [7 * DAY, 2 * DAY];

named! {
    /// Every kind of fault.
    Fault {
        RunLost = "run lost",
        RunLate = "run late",
        RunDoubled = "run doubled",
        RunSlow = "run that acts a tick later",
        RunCut = "run cut off",
        RunOutOfTime = "run out of time",
        ConfigurationRefused = "configuration refused",
        NobodyListens = "nobody listens",
        AudienceUnknown = "nobody can say who listens",
        NoticesUnreadable = "notices unreadable",
        NoticesUnwritten = "notices not written",
        NoticesLost = "notices lost",
        ListingStale = "listing a tick old",
        ListingFailed = "listing failed",
        SpotUnread = "Spot request unread",
        ActivityUnreadable = "activity unreadable",
        ActivityUnwritten = "activity not written",
        ActivityLost = "activity lost",
        MetricsFailed = "metrics unanswered",
        MetricsPartly = "metrics answered partly",
        SeriesUnlisted = "series unlisted",
        SampleMissing = "sample missing",
        SampleLate = "sample late",
        BeatsLost = "beats of budgets lost",
        BudgetUnread = "budget unread",
        JobUnread = "state of a job unread",
        AuditUnwritten = "audit record not written",
        SecondLookFailed = "second look failed",
        WriteRefused = "write refused",
        WriteUnheard = "write done unheard",
        StartFell = "start came to nothing",
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
