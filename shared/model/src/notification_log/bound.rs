//! Notices that fit a document.

use super::NotificationLog;

impl NotificationLog {
    /// Returns the log in at most this many bytes of JSON, without the least important entries: first the oldest notifications, then
    /// undelivered ones, then owners of volumes, then the records themselves. Losing these repeats messages, announces anew with the whole
    /// grace, or leaves a paragraph to the audit records; it acts on nothing.
    #[must_use]
    pub fn reduced_to(&self, bytes_max: usize) -> Option<Self> {
        let mut reduced = self.clone();
        let fits = |notices: &Self| serde_json::to_vec(notices).is_ok_and(|json| json.len() <= bytes_max);
        while !fits(&reduced) {
            reduced = reduced.with_less()?;
        }
        Some(reduced)
    }

    /// Removes the older half of the least important entries; `None` if nothing is left.
    fn with_less(mut self) -> Option<Self> {
        if self.resources.values().any(|record| !record.notified.is_empty()) {
            self.drop_older_half_of_notified();
        } else if !self.undelivered.is_empty() {
            self.undelivered.drain(..self.undelivered.len().div_ceil(2));
        } else if !self.gaps.is_empty() {
            self.gaps.clear();
        } else if !self.hosts.is_empty() {
            self.hosts.clear();
            self.resources.values_mut().for_each(|record| record.last_host = None);
        } else if !self.resources.is_empty() {
            self.resources.clear();
        } else {
            return None;
        }
        self.resources.retain(|_, record| !record.is_empty());
        Some(self)
    }

    fn drop_older_half_of_notified(&mut self) {
        let of_records = self.resources.values().flat_map(|record| record.notified.values());
        let mut moments: Vec<_> = of_records.map(|told| told.at).collect();
        moments.sort_unstable();
        let newest_dropped = moments.get(moments.len().saturating_sub(1) / 2).copied();
        for record in self.resources.values_mut() {
            record.notified.retain(|_, told| newest_dropped.is_some_and(|dropped| told.at > dropped));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::super::{NotificationEntry, NotificationKey, ResourceRecord};
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
        let record = |number| ResourceRecord { notified: told(number), ..ResourceRecord::default() };
        NotificationLog {
            resources: (0..volumes).map(|number| (volume(number), record(number))).collect(),
            ..NotificationLog::default()
        }
    }

    #[test]
    fn the_notification_of_a_volume_has_one_size_with_any_tags() {
        assert!(size_of(&attacked(500)) < 500 * 200, "{}", size_of(&attacked(500)));
    }

    #[test]
    fn the_oldest_notification_is_dropped_first_and_records_stay() {
        let mut log = attacked(2000);
        log.resources.insert("vol-unattached".into(), ResourceRecord::about(moment(0)));
        let reduced = log.reduced_to(BYTES_MAX).unwrap();
        assert!(size_of(&reduced) <= BYTES_MAX);
        assert!(reduced.record(&volume(1999)).is_some() && reduced.record(&volume(0)).is_none());
        assert!(reduced.record(&"vol-unattached".into()).is_some_and(|record| record.is_about(moment(0))));
        assert_eq!(reduced.reduced_to(BYTES_MAX), Some(reduced.clone()));
    }

    #[test]
    fn a_log_of_records_alone_begins_anew() {
        let resources = (0..5000).map(|number| (volume(number), ResourceRecord::about(moment(number)))).collect();
        let log = NotificationLog { resources, ..attacked(10) };
        assert_eq!(log.reduced_to(BYTES_MAX), Some(NotificationLog::default()));
    }
}
