//! Mistakes of a document in words for its author.

use super::HUB_BUDGET_KEY;

/// The most changed characters that count as a slip of the hand.
pub(crate) const SLIPS_MAX: usize = 2;

/// Corrects a line that could not be parsed because of an amount as people write it: with `$`, or commas for the thousands.
pub(super) fn amount(line: &str) -> Option<String> {
    let written = line.split_once('=')?.1.split('#').next()?.trim();
    let number: String = written.chars().filter(|one| !matches!(one, '$' | ',')).collect();
    let is_amount =
        number != written && number.starts_with(|first: char| first.is_ascii_digit()) && number.parse::<f64>().is_ok();
    is_amount.then(|| format!("write {number}, without `$` and commas, not {written}"))
}

/// The names, each in backticks.
pub(super) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The likely intention of an unknown key.
pub(super) fn no_key(unknown: &str, legal: &[&str], every_key: fn() -> Vec<String>) -> String {
    if unknown == HUB_BUDGET_KEY {
        return format!(
            "only the hub of the organization can let accounts share a budget: `{unknown}` belongs to [teams.NAME] of its configuration"
        );
    }
    let slips = |name: &&&str| slips(unknown, name);
    let near = legal.iter().filter(|name| slips(name) <= SLIPS_MAX && 2 * slips(name) <= unknown.chars().count());
    let near = near.min_by_key(slips).or_else(|| only_longer(unknown, legal));
    let near = near.map(|name| format!("did you mean `{name}`?"));
    let elsewhere = sections_of(unknown, every_key);
    let elsewhere = (!elsewhere.is_empty()).then(|| format!("`{unknown}` belongs to {}", elsewhere.join(", ")));
    let hints: Vec<String> = near.into_iter().chain(elsewhere).collect();
    if hints.is_empty() {
        return format!("there is no key `{unknown}`; there are {}", listed(legal));
    }
    format!("there is no key `{unknown}` here; {}", hints.join(" "))
}

/// The one legal name that has the unknown one's words and more, such as a unit.
fn only_longer<'a>(unknown: &str, legal: &'a [&'a str]) -> Option<&'a &'a str> {
    let words = format!("_{unknown}_");
    let mut longer = legal.iter().filter(|name| format!("_{name}_").contains(&words));
    longer.next().filter(|_| longer.next().is_none())
}

/// Lists the sections in which a key of that name is legal.
fn sections_of(name: &str, every_key: fn() -> Vec<String>) -> Vec<String> {
    let sections = every_key().into_iter().filter_map(|key| match key.rsplit_once('.') {
        Some((section, last)) => (last == name).then(|| format!("[{section}]")),
        None => (key == name).then(|| "the top of the document".to_owned()),
    });
    sections.collect()
}

/// Counts the characters to insert, leave out or change to make one text of the other. Numbers above [`SLIPS_MAX`] may be inexact.
pub(crate) fn slips(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().take(100).collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > SLIPS_MAX {
        return usize::MAX / 2;
    }
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, from) in one.iter().enumerate() {
        let mut left = row + 1;
        let mut diagonal = row;
        for (to, cell) in other.iter().zip(above.iter_mut().skip(1)) {
            let best = (diagonal + usize::from(from != to)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = above.first_mut() {
            *first = row + 1;
        }
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, mistakes};

    fn check(text: &str, expect: &str) {
        let first = Config::read(text).unwrap_err();
        assert_eq!(first.problem, expect, "{text}");
        assert!(mistakes(text.as_bytes()).contains(&first), "{text}");
    }

    #[test]
    fn types_are_said_as_what_to_write() {
        check("[limits]\nactions_max = -1", "write a whole number, 0 or more, not -1");
        check("[limits]\nactions_max = 5000000000", "write a smaller whole number, not 5000000000");
        check("[limits]\nactions_max = \"many\"", "write a whole number, 0 or more, not the text \"many\"");
        check("[idle]\ngrace = 3", "write a duration such as `30m`, not 3");
        check("[idle]\nwindow = [1]", "write a duration such as `30m`, not a list");
        check("[idle]\ncoverage_min_percent = 0.5", "write a whole number from 0 to 100, not 0.5");
        check("[idle]\ngpu_below_percent = \"5\"", "write a number, not the text \"5\"");
        check("[untagged]\nspare_busy = \"yes\"", "write true or false, not the text \"yes\"");
        check("[tags]\nteam = 3", "write a text, not 3");
        check("[tags]\nrequired = \"Team\"", "write a list, not the text \"Team\"");
        check("[teams.a]\nnotify_at_percent = 3", "write a list, not 3");
        check(
            "[account]\nnotify_at_percent = [50, \"all\"]",
            "write a whole number from 1 to 1000, not the text \"all\"",
        );
        check("[prices]\ndiscount_percent = 5", "write a table of keys and values, not 5");
        check("idle = 3", "write a table of keys and values, not 3");
    }

    #[test]
    fn words_that_are_none() {
        check("mode = \"enforced\"", "`enforced` is none of `observe`, `enforce`");
        check("[idle]\naction = \"kill\"", "`kill` is none of `stop`, `terminate`, `notify`");
        check("mode = 1", "write one of `observe`, `enforce`, not 1");
        check("[teams.a]\nlocal_disk = true", "write `keep`, `expendable` or a duration such as `24h`, not true");
        check(
            "[idle]\nlocal_disk = \"kept\"",
            "`kept` is not possible; write `keep`, `expendable`, or a duration such as `24h`: the grace before a stop",
        );
    }

    #[test]
    fn amounts_as_people_write_them() {
        let account = |line: &str, expect| check(&format!("[account]\nmonthly_budget_usd = {line}\n"), expect);
        account("5,000", "write 5000, without `$` and commas, not 5,000");
        account("1,250,000.50 # a lot", "write 1250000.50, without `$` and commas, not 1,250,000.50");
        account("$5000", "write 5000, without `$` and commas, not $5000");
        account("5 000", "string values must be quoted, expected literal string");
    }

    #[test]
    fn types_are_not_discounted_singly() {
        let wanted = "write a number for a whole family, such as `p5 = 10`, not a table";
        check("[prices.discount_percent]\np5.48xlarge = 10", wanted);
    }

    #[test]
    fn the_key_that_was_meant() {
        check("mod = \"enforce\"", "there is no key `mod` here; did you mean `mode`?");
        check("[idel]\nx = 1", "there is no key `idel` here; did you mean `idle`?");
        check("[idle]\nwindwo = \"1h\"", "there is no key `windwo` here; did you mean `window`?");
        check("required = [\"Team\"]", "there is no key `required` here; `required` belongs to [tags]");
        let moved = "there is no key `instance_profiles` here; `instance_profiles` belongs to [teams.NAME]";
        check("[idle]\ninstance_profiles = []", moved);
        check(
            "[limits]\nlocal_disk = \"keep\"",
            "there is no key `local_disk` here; `local_disk` belongs to [idle], [teams.NAME]",
        );
        check(
            "[team.x]\nmode = \"enforce\"",
            "there is no key `team` here; did you mean `teams`? `team` belongs to [tags]",
        );
        check(
            "[teams.a]\nmonthly_budget = 1",
            "there is no key `monthly_budget` here; did you mean `monthly_budget_usd`?",
        );
        check(
            "[teams.a]\nbudget = 1",
            "there is no key `budget`; there are `mode`, `local_disk`, `email`, `monthly_budget_usd`, `notify_at_percent`, \
             `over_budget`, `gpus_max`, `usd_per_hour_max`, `boxes_per_owner_max`, `box_runtime_max`, \
             `box_idle_max`, `box_home_gib_max`, `instance_profiles`, `subnets`, `security_groups`, `images`, \
             `buckets`, `idle_after`",
        );
        check("[lifetime]\nx = 1", "there is no key `x`; there are `max`, `grace`, `action`");
        check(
            "[teams.a]\nbudget_accounts = [\"111122223333\", \"444455556666\"]",
            "only the hub of the organization can let accounts share a budget: `budget_accounts` belongs to [teams.NAME] of its configuration",
        );
    }
}
