//! Sizes for people.

/// `0.5 KiB`, `12.0 MiB`, `2.5 GiB`.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
pub fn format_bytes(bytes: impl TryInto<u64>) -> String {
    let (mut size, mut unit) = (bytes.try_into().unwrap_or(u64::MAX) as f64 / 1024.0, "KiB");
    for larger in ["MiB", "GiB", "TiB"] {
        if size >= 1024.0 {
            (size, unit) = (size / 1024.0, larger);
        }
    }
    format!("{size:.1} {unit}")
}

/// Decimal gigabytes in few digits: `250 GB`, `7.6 TB`, `30 TB`.
#[must_use]
pub fn format_gigabytes_shortly(gigabytes: u64) -> String {
    let tenths = gigabytes.saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        _ if gigabytes < 1000 => format!("{gigabytes} GB"),
        (terabytes @ ..10, tenth @ 1..) => format!("{terabytes}.{tenth} TB"),
        (terabytes @ ..10, _) => format!("{terabytes} TB"),
        _ => format!("{} TB", gigabytes.saturating_add(500) / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigabytes_have_two_digits_from_a_terabyte_on() {
        let check = |gigabytes: u64, expect: &str| assert_eq!(format_gigabytes_shortly(gigabytes), expect);
        check(0, "0 GB");
        check(250, "250 GB");
        check(999, "999 GB");
        check(1000, "1 TB");
        check(7600, "7.6 TB");
        check(9999, "10 TB");
        check(30_400, "30 TB");
    }

    #[test]
    fn a_size_has_the_largest_unit_that_fits() {
        let check = |bytes: u64, expect: &str| assert_eq!(format_bytes(bytes), expect);
        check(0, "0.0 KiB");
        check(1023 * 1024, "1023.0 KiB");
        check(1024 * 1024, "1.0 MiB");
        check(5 << 29, "2.5 GiB");
        check(u64::MAX, "16777216.0 TiB");
    }
}
