//! Records that could not be read.

use std::collections::BTreeMap;

/// The same refusal of many is one warning.
#[derive(Default)]
pub(super) struct UnreadRecords {
    /// By the refusal without its record's key: that key, and the refusal whole.
    refusals: BTreeMap<String, Vec<String>>,
    count: usize,
}

impl UnreadRecords {
    pub(super) fn add(&mut self, key: &str, refusal: &str) {
        self.count += 1;
        // AWS repeats the key in what it says.
        self.refusals.entry(refusal.replace(key, "plans/…")).or_default().push(refusal.to_owned());
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Of so many records that were to be read.
    pub(super) fn warnings(&self, total: usize) -> Vec<String> {
        let each = self.refusals.iter().map(|(of_any, refusals)| {
            let refusal = if let [one] = refusals.as_slice() { one } else { of_any };
            format!("{} of {total} records could not be read: {refusal}", refusals.len())
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(refusals: &[(&str, &str)], total: usize, expect: &[&str]) {
        let mut unread = UnreadRecords::default();
        for (key, refusal) in refusals {
            unread.add(key, refusal);
        }
        assert_eq!(unread.count(), refusals.len());
        assert_eq!(unread.warnings(total), expect);
    }

    #[test]
    fn the_same_refusal_is_said_once_and_another_one_by_itself() {
        check(&[], 3, &[]);
        let denied = "GET s3://b/plans/1 failed: no GetObject on arn:aws:s3:::b/plans/1";
        check(&[("plans/1", denied)], 3, &[&format!("1 of 3 records could not be read: {denied}")]);
        let many = [("plans/1", denied), ("plans/2", &denied.replace("plans/1", "plans/2"))];
        let once =
            "2 of 3 records could not be read: GET s3://b/plans/… failed: no GetObject on arn:aws:s3:::b/plans/…";
        check(&many, 3, &[once]);
        let damaged = "s3://b/plans/3 cannot be understood";
        let other = format!("1 of 3 records could not be read: {damaged}");
        check(&[many[0], many[1], ("plans/3", damaged)], 3, &[once, &other]);
    }
}
