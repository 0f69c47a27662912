//! Every kind of fault.

use crate::chance::DAY;
use crate::named::named;

/// The longest time with frequent faults.
pub(crate) const BURST_MAX: i64 = 3 * DAY;
/// The longest time without faults, of a mild account and of a harsh one.
pub(crate) const CALM_MAX: [i64; 2] = [20 * DAY, 8 * DAY];

named! {
    Fault {
        RunLost = "run lost",
        RunLate = "run late",
        RunDoubled = "run doubled",
        RunSlow = "run that acts an hour later",
        RunCut = "run cut off",
        RunOutOfTime = "run out of time",
        ConfigurationRefused = "configuration refused",
        NoConfirmedSubscription = "no confirmed subscription",
        SubscriptionsUnknown = "subscriptions unknown",
        LogUnreadable = "notification log unreadable",
        LogUnwritten = "notification log not written",
        LogLost = "notification log lost",
        ListingStale = "listing of an hour ago",
        ListingFailed = "listing failed",
        FactsUnread = "endpoint not looked up",
        ScalingUnread = "scalable targets unread",
        MetricsFailed = "metrics unanswered",
        MetricsPartly = "metrics answered partly",
        MetricsLate = "metrics late",
        BeatsLost = "beats of budgets lost",
        BudgetUnread = "budget unread",
        AuditUnwritten = "audit record not written",
        SecondReadFailed = "second read failed",
        WriteRefused = "write refused",
        WriteResponseLost = "write done, response lost",
        MessageRefused = "message refused",
        MessageResponseLost = "message sent, response lost",
    }
}

impl Fault {
    /// Whether a run cannot notify or remember what it did: it is cut off, or its log is not written or is lost. Of two runs at once each remembers
    /// what it owes.
    pub(crate) const fn is_forgetful(self) -> bool {
        matches!(self, Self::RunCut | Self::LogUnwritten | Self::LogLost)
    }
}
