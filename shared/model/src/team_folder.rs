//! The folders of teams in the state bucket.

use std::fmt::Write;

use crate::id::TeamName;

/// The folder of a team under `jobs/`, `attempts/`, `outputs/`, `checkpoints/` and `inbox/`, without a `/`: its name as one part of a key.
///
/// Only letters and digits of any alphabet, and `-`, `_` and `.` stay as they are (Amazon S3 user guide, "Naming Amazon S3 objects"); a
/// name of dots alone could leave the folder.
#[must_use]
pub fn team_folder(team: &TeamName) -> String {
    let name = team.as_str();
    let only_dots = name.chars().all(|letter| letter == '.');
    let mut folder = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_alphanumeric() || matches!(letter, '-' | '_') || (letter == '.' && !only_dots) {
            folder.push(letter);
        } else {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a text cannot fail.
                let _ = write!(folder, "%{byte:02X}");
            }
        }
    }
    folder
}

/// The name that became that folder; `None` if no name can.
#[must_use]
pub fn decode_folder(folder: &str) -> Option<String> {
    let mut parts = folder.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(team: &str, expect: &str) {
        assert_eq!(team_folder(&TeamName::from(team)), expect);
    }

    #[test]
    fn a_team_is_one_folder() {
        check("vision", "vision");
        check("Vision_2-b.eu", "Vision_2-b.eu");
        check("Bildverarbeitung-Köln", "Bildverarbeitung-Köln");
        check("视觉", "视觉");
    }

    #[test]
    fn no_name_leaves_its_folder() {
        check("..", "%2E%2E");
        check("../../config", "..%2F..%2Fconfig");
        check("a/b", "a%2Fb");
        check("a b\n", "a%20b%0A");
        check("100%2F", "100%252F");
    }

    proptest! {
        #[test]
        fn a_folder_says_whose_it_is(team in "\\PC{1,20}|[-./_%a-z ]{1,8}") {
            prop_assert_eq!(decode_folder(&team_folder(&TeamName::new(team.as_str()))), Some(team));
        }
    }
}
