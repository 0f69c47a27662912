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

#[cfg(test)]
mod tests {
    use super::*;

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
