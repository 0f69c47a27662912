//! Search for the job or sweep that a part of a name means.

use std::collections::BTreeSet;

use model::fault::InvalidValue;

use super::JobId;

/// The most jobs that are named if the words fit several, or none.
const NAMED_MAX: usize = 8;

/// The hex digits that the proposed part of a name has at least.
const DIGITS_MIN: usize = 3;

/// The way in which a part of a name fits a job, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameMatch {
    Whole,
    /// The name without the hex digits.
    WithoutDigits,
    Beginning,
    Part,
}

/// Resolves a job or a sweep by its name, with or without `<team>/`: the full name, else the name without its digits, else a beginning, else any
/// part of it. Only jobs that fit best count. `prefers_unfinished`: if several fit, the only unfinished one is taken.
///
/// # Errors
/// Which ones it could be, where it is not one, and what to write.
pub fn resolve_job_name(
    named: &str,
    jobs: &[JobId],
    unfinished: &[JobId],
    prefers_unfinished: bool,
) -> Result<JobId, InvalidValue> {
    let all: BTreeSet<&JobId> = jobs.iter().chain(unfinished).collect();
    let fits: Vec<(NameMatch, &JobId)> = all.iter().filter_map(|job| Some((match_name(named, job)?, *job))).collect();
    let best = fits.iter().map(|(fit, _)| *fit).min();
    let fitting: BTreeSet<&JobId> = fits.iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, job)| *job).collect();
    // Who names a sweep does not mean its members.
    let is_meant = |job: &&&JobId| job.as_member().is_none_or(|(sweep, _)| !fitting.contains(&sweep));
    let members_of = unfinished.iter().filter_map(|job| Some(job.as_member()?.0));
    let unfinished: BTreeSet<JobId> = unfinished.iter().cloned().chain(members_of).collect();
    let (mut found, finished): (Vec<&JobId>, Vec<&JobId>) =
        fitting.iter().filter(is_meant).partition(|job| unfinished.contains(*job));
    if let ([one], true) = (found.as_slice(), prefers_unfinished) {
        return Ok((*one).clone());
    }
    found.extend(finished);
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let mut near: Vec<&JobId> = all.into_iter().collect();
            near.sort_by_key(|job| std::cmp::Reverse(common_letters(named, job)));
            Err(InvalidValue::new(format!("there is no job {named:?}{}", list("; there are ", &near))))
        }
        [first, ..] => Err(InvalidValue::new(format!(
            "{named:?} can be {} jobs{}; write more of the name, such as {}",
            found.len(),
            list(": ", &found),
            unique_beginning(first, &all)
        ))),
    }
}

fn match_name(named: &str, job: &JobId) -> Option<NameMatch> {
    let whole = job.to_string();
    let name = if named.contains('/') { &whole } else { &job.job };
    match name.strip_prefix(named) {
        Some("") => Some(NameMatch::Whole),
        Some(rest) if rest.strip_prefix('-').is_some_and(|digits| !digits.contains('-')) => {
            Some(NameMatch::WithoutDigits)
        }
        Some(_) => Some(NameMatch::Beginning),
        None => whole.contains(named).then_some(NameMatch::Part),
    }
}

/// Counts the letters with which a text and the name of a job begin alike.
fn common_letters(named: &str, job: &JobId) -> usize {
    let whole = job.to_string();
    let name = if named.contains('/') { &whole } else { &job.job };
    named.chars().zip(name.chars()).take_while(|(one, other)| one == other).count()
}

/// `nlp/train-d43`: no other name begins like that.
fn unique_beginning(job: &JobId, all: &BTreeSet<&JobId>) -> String {
    let whole = job.to_string();
    let shortest = whole.len() - (job.job.len() - job.name().len() - 1) + DIGITS_MIN;
    let is_unique = |part: &&str| all.iter().filter(|other| other.to_string().starts_with(part)).count() == 1;
    (shortest..whole.len()).filter_map(|end| whole.get(..end)).find(is_unique).unwrap_or(&whole).to_owned()
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

    fn ids(jobs: &[&str]) -> Vec<JobId> {
        jobs.iter().map(|job| JobId::read(job).unwrap()).collect()
    }

    fn check(named: &str, prefers_unfinished: bool, expect: Result<&str, &str>) {
        let finished = [
            "vision/llama-1a2b3c4d",
            "vision/llama-5e6f7a8b",
            "nlp/bert-00112233",
            "nlp/aftertrain-0a0b0c0d",
            "nlp/train-d4300000",
            "nlp/train-d4311111",
            "nlp/train-large-22222222",
            "vision/tune-1a2b3c4d",
            "vision/tune-0001-1a2b3c4d",
            "vision/tune-0002-1a2b3c4d",
            "vision/tune-55555555",
        ];
        let unfinished = ["nlp/llama-99999999", "nlp/aftertrain-0e0f0a0b", "vision/tune-0002-1a2b3c4d"];
        let found =
            resolve_job_name(named, &ids(&finished), &ids(&unfinished), prefers_unfinished).map(|job| job.to_string());
        assert_eq!(found, expect.map(str::to_owned).map_err(InvalidValue::new), "{named}");
    }

    #[test]
    fn the_best_fit_counts_and_of_several_only_the_one_that_is_unfinished() {
        let trains = "\"train\" can be 2 jobs: nlp/train-d4300000, nlp/train-d4311111; write more of the name, such as nlp/train-d430";
        let llamas = "\"llama\" can be 3 jobs: nlp/llama-99999999, vision/llama-1a2b3c4d, vision/llama-5e6f7a8b; write more of the \
                      name, such as nlp/llama-999";
        let tunes = "\"tune\" can be 2 jobs: vision/tune-1a2b3c4d, vision/tune-55555555; write more of the name, such as vision/tune-1a2";
        for (named, shows, acts) in [
            ("vision/llama-1a2b3c4d", Ok("vision/llama-1a2b3c4d"), Ok("vision/llama-1a2b3c4d")),
            ("llama-5e6f7a8b", Ok("vision/llama-5e6f7a8b"), Ok("vision/llama-5e6f7a8b")),
            ("bert", Ok("nlp/bert-00112233"), Ok("nlp/bert-00112233")),
            ("be", Ok("nlp/bert-00112233"), Ok("nlp/bert-00112233")),
            ("nlp/llama", Ok("nlp/llama-99999999"), Ok("nlp/llama-99999999")),
            ("lp/bert", Ok("nlp/bert-00112233"), Ok("nlp/bert-00112233")),
            ("train-d431", Ok("nlp/train-d4311111"), Ok("nlp/train-d4311111")),
            ("train-l", Ok("nlp/train-large-22222222"), Ok("nlp/train-large-22222222")),
            ("0c0d", Ok("nlp/aftertrain-0a0b0c0d"), Ok("nlp/aftertrain-0a0b0c0d")),
            ("train", Err(trains), Err(trains)),
            ("llama", Ok("nlp/llama-99999999"), Err(llamas)),
            ("tune", Ok("vision/tune-1a2b3c4d"), Err(tunes)),
            ("tune-1a", Ok("vision/tune-1a2b3c4d"), Ok("vision/tune-1a2b3c4d")),
            ("tune-0001", Ok("vision/tune-0001-1a2b3c4d"), Ok("vision/tune-0001-1a2b3c4d")),
        ] {
            check(named, true, shows);
            check(named, false, acts);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_nearest_first() {
        let jobs = ids(&["nlp/bert-00112233", "nlp/llama-99999999", "vision/llama-1a2b3c4d"]);
        let expect =
            "there is no job \"llame\"; there are nlp/llama-99999999, vision/llama-1a2b3c4d, nlp/bert-00112233";
        assert_eq!(resolve_job_name("llame", &jobs, &[], true), Err(InvalidValue::new(expect)));
        assert_eq!(resolve_job_name("x", &[], &[], true), Err(InvalidValue::new("there is no job \"x\"")));
    }
}
