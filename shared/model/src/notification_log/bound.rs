//! Notices that fit a document.

use super::NotificationLog;

impl NotificationLog {
    /// The same log in at most this many bytes of JSON, without the least important entries: first the oldest notifications, then undelivered ones,
    /// then marks that are announced again. Losing these repeats messages, or leaves a paragraph to the audit records, and acts on nothing. Entries
    /// that keep Curfew from acting are never dropped: withdrawn marks, and first observations of volumes. `None` if these alone do not fit.
    #[must_use]
    pub fn reduced_to(&self, bytes_max: usize) -> Option<Self> {
        let mut reduced = self.clone();
        let fits = |notices: &Self| serde_json::to_vec(notices).is_ok_and(|json| json.len() <= bytes_max);
        while !fits(&reduced) {
            reduced = reduced.with_less()?;
        }
        Some(reduced)
    }

    /// Without the older half of what is least important; `None` if nothing may go any more.
    fn with_less(mut self) -> Option<Self> {
        if !self.notified.is_empty() {
            self.drop_older_half_of_notified();
        } else if !self.undelivered.is_empty() {
            self.undelivered.drain(..self.undelivered.len().div_ceil(2));
        } else if !self.gaps.is_empty() {
            self.gaps.clear();
        } else if !(self.unwritten_marks.is_empty() && self.shadow_marks.is_empty()) {
            self.unwritten_marks.clear();
            self.shadow_marks.clear();
        } else if !(self.seen_on.is_empty() && self.hosts.is_empty()) {
            self.seen_on.clear();
            self.hosts.clear();
        } else {
            return None;
        }
        Some(self)
    }

    fn drop_older_half_of_notified(&mut self) {
        let mut moments: Vec<_> =
            self.notified.values().flat_map(|topics| topics.values().map(|told| told.at)).collect();
        moments.sort_unstable();
        let Some(newest_dropped) = moments.get(moments.len().saturating_sub(1) / 2).copied() else {
            return self.notified.clear();
        };
        for topics in self.notified.values_mut() {
            topics.retain(|_, told| told.at > newest_dropped);
        }
        self.notified.retain(|_, topics| !topics.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::super::{NotificationEntry, NotificationKey};
    use super::*;
    use crate::id::ResourceId;

    const BYTES_MAX: usize = 100_000;

    fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn volume(number: i64) -> ResourceId {
        ResourceId::from(format!("vol-{number:05}").as_str())
    }

    fn size_of(notices: &NotificationLog) -> usize {
        serde_json::to_vec(notices).unwrap().len()
    }

    /// The number of volumes, each with 50 unreadable tags of 255 characters.
    fn attacked(volumes: i64) -> NotificationLog {
        let text = |number: i64| format!("{number}").repeat(50 * 255);
        let told = |number| {
            BTreeMap::from([(
                NotificationKey::named("unreadable"),
                NotificationEntry::new(moment(number), &text(number)),
            )])
        };
        NotificationLog {
            notified: (0..volumes).map(|number| (volume(number), told(number))).collect(),
            ..NotificationLog::default()
        }
    }

    #[test]
    fn the_notification_of_a_volume_has_one_size_with_any_tags() {
        assert!(size_of(&attacked(500)) < 500 * 200, "{}", size_of(&attacked(500)));
    }

    #[test]
    fn the_oldest_notification_is_dropped_first() {
        let notices = NotificationLog { first_sights: BTreeMap::from([(volume(0), moment(0))]), ..attacked(2000) };
        let reduced = notices.reduced_to(BYTES_MAX).unwrap();
        assert!(size_of(&reduced) <= BYTES_MAX);
        assert!(reduced.notified.contains_key(&volume(1999)) && !reduced.notified.contains_key(&volume(0)));
        assert_eq!(reduced.first_sights, notices.first_sights);
        assert_eq!(reduced.reduced_to(BYTES_MAX), Some(reduced.clone()));
    }

    #[test]
    fn entries_that_prevent_actions_are_never_dropped() {
        let first_sights = (0..5000).map(|number| (volume(number), moment(number))).collect();
        let notices = NotificationLog { first_sights, ..attacked(10) };
        assert_eq!(notices.reduced_to(BYTES_MAX), None);
    }
}
