//! Names of AWS's regions.

use std::sync::LazyLock;

use crate::document::{SLIPS_MAX, slips};
use crate::fault::InvalidValue;
use crate::id::Region;
use crate::table::embedded_table;

/// Every region of every partition. AWS opens a few in a year, so a command that can ask AWS asks before it refuses one.
static KNOWN_REGIONS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    embedded_table("regions.csv", include_str!("../../../data/regions.csv"), |row| row.text("region"))
});

/// `us-east-1`, `us-gov-west-1`.
#[must_use]
pub fn has_shape(region: &str) -> bool {
    let parts: Vec<&str> = region.split('-').collect();
    let is_word = |part: &&str| part.len() > 1 && part.bytes().all(|byte| byte.is_ascii_lowercase());
    match parts.as_slice() {
        [words @ .., number] => {
            words.len() >= 2
                && words.iter().all(is_word)
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        [] => false,
    }
}

/// `true` if the region is in the list that comes with Curfew.
#[must_use]
pub fn is_known(region: &Region) -> bool {
    KNOWN_REGIONS.contains(&region.as_str())
}

/// Refuses a region that neither the list nor `enabled`, the regions of the account, has.
///
/// # Errors
/// It names the regions that may be meant, or else all.
pub fn check_exists(region: &Region, enabled: &[Region]) -> Result<(), InvalidValue> {
    if is_known(region) || enabled.contains(region) {
        return Ok(());
    }
    let distance = |known: &&str| slips(region.as_str(), known);
    let least = KNOWN_REGIONS.iter().map(distance).min().filter(|least| *least <= SLIPS_MAX);
    let near: Vec<&str> = KNOWN_REGIONS.iter().copied().filter(|known| Some(distance(known)) == least).collect();
    Err(InvalidValue::new(match near.as_slice() {
        [] => format!("there is no region {region}; there are {}", KNOWN_REGIONS.join(", ")),
        near => format!("there is no region {region}; did you mean {}?", near.join(" or ")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;

    fn check(region: &str, enabled: &[&str], expect: Option<&str>) {
        let enabled: Vec<Region> = enabled.iter().map(|region| Region::from(*region)).collect();
        let refusal = check_exists(&region.into(), &enabled).err().map(|refusal| refusal.to_string());
        assert_eq!(refusal.as_deref(), expect, "{region}");
    }

    #[test]
    fn a_region_exists_by_the_list_or_by_the_account() {
        check("us-central-9", &["us-central-9"], None);
    }

    #[test]
    fn the_list_is_sorted_and_each_region_has_a_partition() {
        assert!(KNOWN_REGIONS.is_sorted_by(|one, next| one < next));
        for region in KNOWN_REGIONS.iter() {
            check(region, &[], None);
            assert!(has_shape(region) && Partition::find(region).is_some(), "{region}");
        }
    }

    #[test]
    fn a_slip_of_the_hand_names_what_may_be_meant() {
        check("us-eats-1", &["us-east-1"], Some("there is no region us-eats-1; did you mean us-east-1?"));
        check("us-east-1a", &[], Some("there is no region us-east-1a; did you mean us-east-1?"));
        check("us-east-7", &[], Some("there is no region us-east-7; did you mean us-east-1 or us-east-2?"));
        let far = check_exists(&"nowhere-1".into(), &[]).unwrap_err().to_string();
        assert!(far.starts_with("there is no region nowhere-1; there are af-south-1, ap-east-1, "), "{far}");
    }
}
