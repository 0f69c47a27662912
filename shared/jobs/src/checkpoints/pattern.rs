//! Patterns of `[checkpoint] include` and `exclude`. The matcher is our own because `**.pt` crosses directories here and `[`, `{` and `\`
//! are plain characters: `globset` reads such a `**` as `*`, `glob` refuses it, and both give brackets a meaning.

use model::fault::InvalidValue;

/// The longest pattern, in bytes: what is compared with it takes as many steps as both have bytes, multiplied.
const PATTERN_BYTES_MAX: usize = 200;

/// Returns `true` if a path in the checkpoint directory matches a pattern, or lies below a path that does: `*` is any part of a name, `?`
/// one character of it, and `**` any part of a path.
#[must_use]
pub fn matches_pattern(pattern: &str, path: &str) -> bool {
    let starts = std::iter::once(path.len()).chain(path.match_indices('/').map(|(at, _)| at));
    let pattern: Vec<char> = pattern.trim_end_matches('/').chars().collect();
    starts.map(|end| &path[..end]).any(|part| matches_whole(&pattern, &part.chars().collect::<Vec<_>>()))
}

/// Matches a whole text. One character of the pattern after the other, it tracks which characters of the text the pattern reaches.
fn matches_whole(pattern: &[char], text: &[char]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((first, after)) = rest.split_first() {
        let crosses = *first == '*' && after.first() == Some(&'*');
        let mut next = vec![false; text.len() + 1];
        if *first == '*' {
            let mut open = false;
            for (at, slot) in next.iter_mut().enumerate() {
                open = reached[at] || (open && (crosses || text[at - 1] != '/'));
                *slot = open;
            }
        } else {
            for at in 0..text.len() {
                let fits = if *first == '?' { text[at] != '/' } else { text[at] == *first };
                next[at + 1] = reached[at] && fits;
            }
        }
        reached = next;
        rest = if crosses { &after[1..] } else { after };
    }
    reached[text.len()]
}

/// Checks that a text is a pattern.
///
/// # Errors
/// What is wrong with it.
pub fn check_pattern(pattern: &str) -> Result<(), InvalidValue> {
    let inside = pattern.split('/').all(|name| !matches!(name, "" | "." | "..")) || pattern.is_empty();
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX || !inside || pattern.chars().any(char::is_control) {
        return Err(InvalidValue::new(format!(
            "{pattern:?} is no pattern; write a path in the checkpoint directory of at most {PATTERN_BYTES_MAX} bytes, such as `best.pt`, \
             `wandb` or `logs/*.csv`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, paths: &[&str], others: &[&str]) {
        assert_eq!(check_pattern(pattern), Ok(()), "{pattern}");
        for path in paths {
            assert!(matches_pattern(pattern, path), "{pattern} {path}");
        }
        for path in others {
            assert!(!matches_pattern(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_takes_names_and_all_that_lies_below_them() {
        check("wandb", &["wandb", "wandb/run/a"], &["wandb2", "a/wandb", "wand"]);
        check("*.pt", &["a.pt", ".pt", "a.b.pt"], &["a/b.pt", "a.ptx"]);
        check("**.pt", &["a.pt", "a/b.pt"], &["a.ptx"]);
        check("**/last.pt", &["train/weights/last.pt"], &["last.pt2", "train/last.pth"]);
        check(
            "logs/?/*-step.csv",
            &["logs/1/a-step.csv"],
            &["logs/12/a-step.csv", "logs/1/step.csv", "logs///-step.csv"],
        );
        check("größe-?", &["größe-ü"], &["größe-"]);
    }

    #[test]
    fn a_path_out_of_the_directory_is_no_pattern() {
        for pattern in ["", "/etc", "a//b", "../a", "a/..", "./a", "a\nb"] {
            assert!(check_pattern(pattern).is_err(), "{pattern:?}");
        }
        assert!(check_pattern(&"a".repeat(201)).is_err());
    }
}
