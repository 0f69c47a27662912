//! The explanation of one resource, as people read it: the decision first, then the rules, those that matter first.

use model::foreign_text::{describe_name, describe_owner, quoted_unless_word};
use reaping::explain::{RuleVerdict, WHILE_COMPLIANT};

use super::outcome::{ExplainedResource, ExplainedRule, StoppedByCurfew};
use crate::screen::{self, BOLD, NORMAL};

/// The width of names: the longest is `unlisted-project`.
const NAME_WIDTH: usize = 16;
/// The width of verdicts: the longest is `compliant`.
const VERDICT_WIDTH: usize = 9;

pub(super) fn print_resource(one: &ExplainedResource) {
    let ExplainedResource { region, resource, what, state, since, .. } = one;
    let (name, owner) = (describe_name(one.name.as_deref()), describe_owner(one.owner.as_deref()));
    let team = one.team.as_ref().map_or("no team".to_owned(), |team| format!("team {}", quoted_unless_word(team)));
    screen::print_line(format!("{resource}  {what}{name}, {team}, {owner}, {region}"));
    print_fact("now", &one.decision.words);
    let costs = one.costs.as_ref().map(|costs| format!("; {costs}")).unwrap_or_default();
    match &one.stopped {
        Some(StoppedByCurfew { at, rule }) => {
            print_fact("state", &format!("stopped by Curfew at {at} ({rule}); curfew undo {resource} starts it"));
        }
        // Its one line says when.
        None if state == "deleted" => print_fact("state", state),
        None => print_fact("state", &format!("{state}, {} {since}{costs}", begun(resource))),
    }
    if let Some(mode) = &one.mode_in_words {
        print_fact("mode", mode);
    }
    if let Some(skipped) = &one.skipped {
        print_fact("skipped", &skipped.words);
    }
    print_rules(one);
    for note in &one.notes {
        screen::warn(format!("{resource}: {note}"));
    }
    for gap in &one.gaps {
        screen::warn(format!("{resource}: {}", crate::command_error::describe_gap(gap)));
    }
}

fn begun(resource: &str) -> &'static str {
    match resource.split('-').next() {
        Some("i") => "launched",
        Some("vol") => "created",
        _ => "begun",
    }
}

fn print_fact(name: &str, text: &str) {
    screen::print_wrapped(&[(NORMAL, &format!("  {name:<NAME_WIDTH$}  "))], text);
}

/// Prints the rules. If none of several rules is judged, the common reason is printed once, and for each rule only what differs.
fn print_rules(one: &ExplainedResource) {
    let all = &one.rules;
    let (Some(first), true) = (all.first(), all.iter().all(|rule| rule.verdict == RuleVerdict::NotJudged)) else {
        let mut sorted: Vec<&ExplainedRule> = all.iter().collect();
        sorted.sort_by_key(|rule| (urgency(rule), rule.deadline.is_none(), rule.deadline));
        return sorted.into_iter().for_each(|rule| print_rule(rule, one));
    };
    if all.len() == 1 {
        return print_rule(first, one);
    }
    // What spares it says already why.
    let why = if one.skipped.is_some() { String::new() } else { format!(" ({})", first.evidence) };
    print_fact("rules", &format!("none is judged, {}{why}", first.when));
    for rule in all.iter().filter(|rule| rule.when != first.when) {
        print_fact(rule.rule.as_str(), &rule.when);
    }
}

/// The place of a rule: what is violated comes first, and what only time can violate before what complies.
fn urgency(rule: &ExplainedRule) -> u8 {
    match rule.verdict {
        RuleVerdict::Violated if !rule.is_ahead => 0,
        RuleVerdict::Unknown => 1,
        RuleVerdict::Violated => 2,
        RuleVerdict::Compliant if rule.when != WHILE_COMPLIANT => 3,
        RuleVerdict::Compliant => 4,
        RuleVerdict::NotJudged => 5,
    }
}

fn print_rule(rule: &ExplainedRule, one: &ExplainedResource) {
    let ExplainedRule { verdict, is_ahead, evidence, when, mode_in_words, .. } = rule;
    let found = match verdict {
        RuleVerdict::Compliant => "compliant",
        RuleVerdict::Unknown => "unknown",
        RuleVerdict::Violated if *is_ahead => "soon",
        RuleVerdict::Violated => "violated",
        RuleVerdict::NotJudged => "-",
    };
    let style = if *verdict == RuleVerdict::Violated { BOLD } else { NORMAL };
    let name = format!("  {:<NAME_WIDTH$}  ", rule.rule.as_str());
    screen::print_wrapped(&[(NORMAL, &name), (style, &format!("{found:<VERDICT_WIDTH$}  "))], evidence);
    if one.skipped.is_some() {
        return;
    }
    if when != WHILE_COMPLIANT {
        print_continuation(when);
    }
    let of_its_own = one.mode_in_words.as_ref() != Some(mode_in_words);
    if of_its_own && matches!(verdict, RuleVerdict::Violated | RuleVerdict::Unknown) {
        print_continuation(&format!("mode {mode_in_words}"));
    }
}

fn print_continuation(text: &str) {
    let indent = " ".repeat(2 + NAME_WIDTH + 2 + VERDICT_WIDTH + 2);
    screen::print_wrapped(&[(NORMAL, &indent)], text);
}
