//! Which job or sweep a part of a name means.

use std::collections::BTreeSet;

use model::fault::InvalidValue;

use super::JobId;

/// The most jobs that are named if the words fit several, or none.
const NAMED_MAX: usize = 8;

/// Resolves a job by its name, by `<team>/<job>`, or by a part of that. An exact name precedes partial matches.
///
/// # Errors
/// Which ones it could be, where it is not one.
pub fn find(named: &str, jobs: &[JobId]) -> Result<JobId, InvalidValue> {
    let by = |is_meant: &dyn Fn(&JobId) -> bool| jobs.iter().filter(|job| is_meant(job)).collect::<Vec<_>>();
    let whole = by(&|job| job.to_string() == named || job.job == named);
    let mut found = if whole.is_empty() { by(&|job| job.to_string().contains(named)) } else { whole };
    // Who names a sweep does not mean its members.
    let all: BTreeSet<&JobId> = found.iter().copied().collect();
    found.retain(|job| job.as_member().is_none_or(|(sweep, _)| !all.contains(&sweep)));
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(InvalidValue::new(format!(
            "there is no job {named:?}{}",
            list("; there are ", &jobs.iter().collect::<Vec<_>>())
        ))),
        several => Err(InvalidValue::new(format!(
            "{named:?} is in the names of {} jobs{}",
            several.len(),
            list(": ", several)
        ))),
    }
}

fn list(before: &str, jobs: &[&JobId]) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let names: Vec<String> = jobs.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = jobs.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{before}{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_find(named: &str, expect: Result<&str, &str>) {
        let jobs = ["vision/llama-1a2b3c4d", "vision/llama-5e6f7a8b", "nlp/bert-00112233", "nlp/llama-99999999"];
        let jobs: Vec<JobId> = jobs.iter().map(|job| JobId::read(job).unwrap()).collect();
        let found = find(named, &jobs).map(|job| job.to_string());
        assert_eq!(found, expect.map(str::to_owned).map_err(InvalidValue::new));
    }

    #[test]
    fn a_job_is_found_by_what_is_only_its_own() {
        check_find("vision/llama-1a2b3c4d", Ok("vision/llama-1a2b3c4d"));
        check_find("llama-5e6f7a8b", Ok("vision/llama-5e6f7a8b"));
        check_find("bert", Ok("nlp/bert-00112233"));
        check_find("nlp/llama", Ok("nlp/llama-99999999"));
        check_find(
            "llama",
            Err(
                "\"llama\" is in the names of 3 jobs: vision/llama-1a2b3c4d, vision/llama-5e6f7a8b, nlp/llama-99999999",
            ),
        );
        check_find(
            "gpt",
            Err("there is no job \"gpt\"; there are vision/llama-1a2b3c4d, vision/llama-5e6f7a8b, nlp/bert-00112233, \
                 nlp/llama-99999999"),
        );
        let sweep = ["vision/tune-1a2b3c4d", "vision/tune-0001-1a2b3c4d", "vision/tune-0002-1a2b3c4d"];
        let sweep: Vec<JobId> = sweep.iter().map(|job| JobId::read(job).unwrap()).collect();
        for (named, expect) in [("tune", 0), ("tune-1a2b3c4d", 0), ("tune-0002", 2)] {
            assert_eq!(find(named, &sweep).as_ref(), Ok(&sweep[expect]), "{named}");
        }
        assert_eq!(find("x", &[]), Err(InvalidValue::new("there is no job \"x\"")));
    }
}
