//! Families of instance types: those with accelerators, and those that AWS retires.

use std::sync::LazyLock;

use crate::id::TypeName;
use crate::table::embedded_table;

/// A family of instance types, such as `g5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceleratedFamily {
    pub name: &'static str,
    /// Reason why the table of machines does not have it; `None` if it does.
    pub not_in_machines: Option<&'static str>,
}

/// Every family, in the order of the names.
pub static ACCELERATED_FAMILIES: LazyLock<Vec<AcceleratedFamily>> = LazyLock::new(|| {
    let text = include_str!("../../../data/accelerated_families.csv");
    embedded_table("accelerated_families.csv", text, |row| {
        Ok(AcceleratedFamily { name: row.text("family")?, not_in_machines: row.optional_text("not_in_machines")? })
    })
});

impl AcceleratedFamily {
    /// Returns the family of that name; `None` if it has no accelerators.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ACCELERATED_FAMILIES.iter().find(|family| family.name == name).copied()
    }
}

/// A family that AWS no longer sells, or asks its users to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredFamily {
    /// Such as `p3`.
    pub family: &'static str,
    /// Day by which AWS asked its users to leave, where it named one.
    pub left_by: Option<&'static str>,
    /// AWS's advice, such as `newer G types`.
    pub successors: &'static str,
}

static FAMILIES: LazyLock<Vec<RetiredFamily>> = LazyLock::new(|| {
    let text = include_str!("../../../data/retired_families.csv");
    embedded_table("retired_families.csv", text, |row| {
        Ok(RetiredFamily {
            family: row.text("family")?,
            left_by: row.optional_text("left_by")?,
            successors: row.text("successors")?,
        })
    })
});

impl RetiredFamily {
    /// The retired family of a type; `None` if none is known.
    #[must_use]
    pub fn of_type(instance_type: &TypeName) -> Option<&'static Self> {
        let family = instance_type.as_str().split('.').next()?;
        FAMILIES.iter().find(|retired| retired.family == family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_in_order_and_each_has_a_legal_name() {
        assert!(ACCELERATED_FAMILIES.is_sorted_by(|one, next| one.name < next.name));
        let is_legal = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        assert!(ACCELERATED_FAMILIES.iter().all(|family| family.name.chars().all(is_legal)));
    }

    #[test]
    fn the_family_of_a_type_is_the_part_before_its_size() {
        let found = |name: &str| RetiredFamily::of_type(&name.into()).map(|retired| retired.family);
        assert_eq!(["p3.2xlarge", "p2.xlarge", "g3s.xlarge"].map(found), [Some("p3"), Some("p2"), Some("g3s")]);
        assert_eq!(["p3dn.24xlarge", "g5.xlarge", "g6e.xlarge", ""].map(found), [None; 4]);
        let is_day = |day: &str| day.parse::<jiff::civil::Date>().is_ok();
        assert!(FAMILIES.iter().all(|retired| retired.left_by.is_none_or(is_day)));
    }
}
