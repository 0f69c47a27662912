//! Names of AWS's regions.

use crate::document::{SLIPS_MAX, slips};
use crate::fault::InvalidValue;
use crate::id::Region;

/// Every region of every partition (`partitions.json` of botocore 1.44, which the SDKs share, 2026-11-24). AWS opens a few in a year, so a
/// command that can ask AWS asks before it refuses one.
const KNOWN_REGIONS: [&str; 48] = [
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-isoe-west-1",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eusc-de-east-1",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "me-west-1",
    "mx-central-1",
    "sa-east-1",
    "sa-west-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-east-1",
    "us-isof-south-1",
    "us-west-1",
    "us-west-2",
];

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
    let near: Vec<&str> = KNOWN_REGIONS.into_iter().filter(|known| Some(distance(known)) == least).collect();
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
        for region in KNOWN_REGIONS {
            check(region, &[], None);
        }
        check("us-central-9", &["us-central-9"], None);
        assert!(KNOWN_REGIONS.is_sorted() && KNOWN_REGIONS.into_iter().all(has_shape));
        assert!(KNOWN_REGIONS.into_iter().all(|region| Partition::find(region).is_some()));
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
