//! Records that could not be read.

use store::StoreError;

/// An error that many records share is one warning.
#[derive(Default)]
pub(super) struct UnreadRecords {
    /// The first of each error, and the count.
    refusals: Vec<(StoreError, usize)>,
}

impl UnreadRecords {
    pub(super) fn add(&mut self, refusal: StoreError) {
        match self.refusals.iter_mut().find(|(first, _)| is_alike(first, &refusal)) {
            Some((_, count)) => *count += 1,
            None => self.refusals.push((refusal, 1)),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.refusals.iter().map(|(_, count)| count).sum()
    }

    /// `total`: how many records were to be read.
    pub(super) fn warnings(&self, total: usize) -> Vec<String> {
        let each = self.refusals.iter().map(|(first, count)| {
            let which = if *count == 1 { "" } else { ", the first of them" };
            format!("{count} of {total} records could not be read{which}: {first}")
        });
        each.collect()
    }
}

/// Returns `true` if one remedy fixes both errors. A mistake in a document concerns only that document.
fn is_alike(one: &StoreError, other: &StoreError) -> bool {
    match (one, other) {
        (
            StoreError::Call { action, advice, .. },
            StoreError::Call { action: other_action, advice: other_advice, .. },
        ) => (action, advice) == (other_action, other_advice),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(key: &str) -> StoreError {
        StoreError::call("s3:GetObject", format!("s3://b/{key}"), Some("AccessDenied"), "No")
    }

    #[test]
    fn equal_refusals_are_reported_once() {
        let mut unread = UnreadRecords::default();
        assert_eq!((unread.count(), unread.warnings(3)), (0, Vec::new()));
        unread.add(denied("plans/1"));
        assert_eq!(unread.warnings(3), [format!("1 of 3 records could not be read: {}", denied("plans/1"))]);
        unread.add(denied("plans/2"));
        let too_large = StoreError::TooLarge { address: "s3://b/plans/3".to_owned(), bytes: 2, bytes_max: 1 };
        unread.add(too_large.clone());
        let once = format!("2 of 3 records could not be read, the first of them: {}", denied("plans/1"));
        assert_eq!(unread.warnings(3), [once, format!("1 of 3 records could not be read: {too_large}")]);
        assert_eq!(unread.count(), 3);
    }
}
