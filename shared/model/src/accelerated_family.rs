//! Families of EC2 with accelerators: `data/accelerated_families.csv`.

use std::sync::LazyLock;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_in_order_and_each_has_a_legal_name() {
        assert!(ACCELERATED_FAMILIES.is_sorted_by(|one, next| one.name < next.name));
        let is_legal = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        assert!(ACCELERATED_FAMILIES.iter().all(|family| family.name.chars().all(is_legal)));
    }
}
