//! Values of dimensions. Names of teams come from tags, so anybody who may tag chooses them: each has a form that `CloudWatch` takes, none
//! becomes another one's, and the number of them is bounded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::NO_TEAM;

/// The value for everything that has no series of its own. No name becomes it, because parentheses in names are escaped.
pub const OTHERS: &str = "(others)";

/// The longest value: `CloudWatch` takes 1,024 characters (`CloudWatch` API reference, "Dimension"), and a graph shows fewer.
const LENGTH_MAX: usize = 128;

/// The names that have series of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NamedSeries(BTreeSet<String>);

impl NamedSeries {
    /// The names with the largest weights, `max` at most. One whose price is unknown has no weight, and takes a place that is left.
    pub(super) fn top<'a>(weights: impl IntoIterator<Item = (&'a str, u64)>, max: usize) -> Self {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, weight) in weights {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(weight);
        }
        let mut ranked: Vec<(&str, u64)> = sums.into_iter().collect();
        ranked.sort_by_key(|(name, sum)| (Reverse(*sum), *name));
        Self(ranked.into_iter().filter_map(|(name, _)| dimension_value(name)).take(max).collect())
    }

    /// The value of the dimension for a name; `None` is no team.
    pub(super) fn value(&self, name: Option<&str>) -> String {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return NO_TEAM.to_owned() };
        dimension_value(name).filter(|value| self.0.contains(value)).unwrap_or_else(|| OTHERS.to_owned())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

/// The name with every byte escaped that is no letter, digit, inner blank or one of `-_.+=@/`, as `%C3%BC`. `CloudWatch` takes only ASCII without
/// control characters (API reference, "Dimension"). `None` for a name that is too long for a value of its own.
fn dimension_value(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let mut value = String::new();
    for (place, byte) in bytes.iter().enumerate() {
        let is_inner = place > 0 && place + 1 < bytes.len();
        if byte.is_ascii_alphanumeric() || b"-_.+=@/".contains(byte) || (*byte == b' ' && is_inner) {
            value.push(char::from(*byte));
        } else {
            let _ = write!(value, "%{byte:02X}");
        }
        if value.len() > LENGTH_MAX {
            return None;
        }
    }
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_becomes_a_value_that_cloudwatch_takes() {
        let long = "ü".repeat(30);
        for (name, value) in [
            ("vision", Some("vision")),
            ("computer vision", Some("computer vision")),
            ("(others)", Some("%28others%29")),
            ("(no team)", Some("%28no team%29")),
            ("100%", Some("100%25")),
            ("für:alle\"}", Some("f%C3%BCr%3Aalle%22%7D")),
            ("\n", Some("%0A")),
            (" a ", Some("%20a%20")),
            ("", None),
            (&long, None),
        ] {
            assert_eq!(dimension_value(name).as_deref(), value, "{name:?}");
        }
    }

    #[test]
    fn the_largest_have_series_of_their_own() {
        let weights = [("b", 5), ("a", 5), ("c", 9), ("d", 0), ("e", 1), ("f", 0), ("a", u64::MAX)];
        assert_eq!(NamedSeries::top(weights, 5).values().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
        let named = NamedSeries::top(weights, 3);
        assert_eq!(named.values().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(
            [Some("a"), Some("e"), Some("d"), Some("(others)"), Some(""), None].map(|name| named.value(name)),
            ["a", OTHERS, OTHERS, OTHERS, NO_TEAM, NO_TEAM]
        );
        let spoofed = NamedSeries::top([("(no team)", 1), ("(others)", 1)], 3);
        assert_eq!(
            [Some("(no team)"), None, Some("x")].map(|name| spoofed.value(name)),
            ["%28no team%29", NO_TEAM, OTHERS]
        );
        // A name that is too long takes no place of another.
        let long = "x".repeat(1_000);
        assert_eq!(NamedSeries::top([(&*long, 9), ("a", 1)], 1).value(Some(&long)), OTHERS);
        assert_eq!(NamedSeries::top([(&*long, 9), ("a", 1)], 1).value(Some("a")), "a");
    }

    proptest! {
        #[test]
        fn no_two_names_share_a_value(one in ".{0,12}", other in ".{0,12}") {
            let (first, second) = (dimension_value(&one), dimension_value(&other));
            for value in first.iter().chain(&second) {
                prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
                prop_assert!(value.len() <= LENGTH_MAX && value.trim() == value && !value.starts_with(':'));
                prop_assert!(value != OTHERS && value != NO_TEAM);
            }
            prop_assert!(one == other || first.is_none() || first != second);
        }
    }
}
