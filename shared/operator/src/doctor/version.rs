//! The versions of the command, of the stack and of the documents in the state bucket. **They fit** if and only if command and stack have the
//! same version but for its last number, and each document has the schema that the command reads.

use serde::Serialize;

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "version";

/// The output of the stack that states its version.
pub const OUTPUT: &str = "Version";

/// A kind of document in the state bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DocumentSchema {
    /// Its key in the bucket.
    pub key: String,
    /// Its schema; `None` if there is no such document yet.
    pub found: Option<u32>,
    /// The schema that this command reads.
    pub known: u32,
}

/// A version such as `0.1.0`, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Numbers {
    major: u32,
    minor: u32,
}

/// Judges the version of a stack by that of the command; `stack` is its output `Version`.
#[must_use]
pub fn check_stack(command: &str, stack: Option<&str>) -> Option<DoctorFinding> {
    let Some(stack) = stack else {
        let found = format!("the stack does not state its version, so it is older than {command}, or unknown");
        return Some(DoctorFinding::unknown("stack", found, "deploy it again, from the version of the command"));
    };
    let (Some(ours), Some(theirs)) = (numbers(command), numbers(stack)) else {
        let found = format!("its version {stack:?} cannot be compared with {command}, that of the command");
        return Some(DoctorFinding::unknown("stack", found, "deploy it again, from the version of the command"));
    };
    match theirs.cmp(&ours) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(DoctorFinding::warning(
            "stack",
            format!("it is too old: version {stack}, and the command has {command}"),
            "deploy the version of the command",
        )),
        std::cmp::Ordering::Greater => Some(DoctorFinding::warning(
            "command",
            format!("it is too old: version {command}, and the stack has {stack}"),
            "install the version of the stack",
        )),
    }
}

/// Judges the documents of the state bucket.
#[must_use]
pub fn check_schemas(documents: &[DocumentSchema]) -> Vec<DoctorFinding> {
    let judge = |DocumentSchema { key, found, known }: &DocumentSchema| {
        let found = (*found)?;
        let (problem, remedy) = match found.cmp(known) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => ("a newer Curfew wrote it", "install the version of the stack"),
            std::cmp::Ordering::Less => ("an older Curfew wrote it", "deploy the version of the command"),
        };
        let found = format!("its schema is {found}, and the command reads {known}: {problem}");
        Some(DoctorFinding::warning(key, found, remedy))
    };
    documents.iter().filter_map(judge).collect()
}

/// The first two numbers of three.
fn numbers(version: &str) -> Option<Numbers> {
    let mut parts = version.split(['-', '+']).next()?.split('.').map(str::parse::<u32>);
    let numbers = Numbers { major: parts.next()?.ok()?, minor: parts.next()?.ok()? };
    parts.next()?.ok()?;
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingSeverity;

    fn check(command: &str, stack: Option<&str>, expect: Option<(FindingSeverity, &str)>) {
        let finding = check_stack(command, stack);
        let found = finding.as_ref().map(|finding| (finding.severity, finding.at.as_str()));
        assert_eq!(found, expect, "{command} {stack:?}: {finding:?}");
    }

    #[test]
    fn the_last_number_may_differ() {
        check("0.2.1", Some("0.2.9"), None);
        check("1.4.0", Some("1.4.0"), None);
        check("0.10.0", Some("0.9.0"), Some((FindingSeverity::Warning, "stack")));
        check("0.1.0", Some("0.2.0"), Some((FindingSeverity::Warning, "command")));
        check("1.0.0", Some("0.9.0"), Some((FindingSeverity::Warning, "stack")));
        check("1.0.0-rc.1", Some("1.0.0"), None);
    }

    #[test]
    fn an_unknown_version_is_unknown() {
        for stack in [None, Some(""), Some("1"), Some("1.2"), Some("1.2.3.4"), Some("v1.2.3"), Some("1.2.99999999999")]
        {
            check("0.1.0", stack, Some((FindingSeverity::Unknown, "stack")));
        }
    }

    #[test]
    fn the_version_of_this_workspace_can_be_compared() {
        check(env!("CARGO_PKG_VERSION"), Some(env!("CARGO_PKG_VERSION")), None);
    }

    #[test]
    fn a_document_of_another_schema_is_found_in_either_direction() {
        let documents = [(Some(2), 2), (None, 1), (Some(1), 2), (Some(3), 2)].map(|(found, known)| DocumentSchema {
            key: "notices/".to_owned(),
            found,
            known,
        });
        let findings = check_schemas(&documents);
        let found: Vec<&str> = findings.iter().map(|finding| finding.remedy.as_str()).collect();
        assert_eq!(found, ["deploy the version of the command", "install the version of the stack"]);
    }
}
