//! The explanation of one resource, as people read it.

use model::foreign_text::{describe_name, describe_owner, quoted_unless_word};
use reaping::explain::{RuleVerdict, WHILE_COMPLIANT};

use super::outcome::{ExplainedResource, ExplainedRule, StoppedByCurfew};
use crate::screen::{self, BOLD, NORMAL};

pub(super) fn print_resource(one: &ExplainedResource) {
    let ExplainedResource { region, resource, what, state, since, .. } = one;
    let (name, owner) = (describe_name(one.name.as_deref()), describe_owner(one.owner.as_deref()));
    let team = one.team.as_ref().map_or("no team".to_owned(), |team| format!("team {}", quoted_unless_word(team)));
    screen::print_line(format!("{resource}  {what}{name}, {team}, {owner}, {region}"));
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
    print_fact("now", &one.decision.words);
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
    screen::print_line(format_args!("  {name:<9} {text}"));
}

/// Prints the rules. If none of several rules is judged, the common reason is printed once, and for each rule only what differs.
fn print_rules(one: &ExplainedResource) {
    let all = &one.rules;
    let (Some(first), true) = (all.first(), all.iter().all(|rule| rule.verdict == RuleVerdict::NotJudged)) else {
        return all.iter().for_each(|rule| print_rule(rule, one));
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
    let name = format!("  {:<9} ", rule.rule.as_str());
    screen::print_styled(&[(NORMAL, &name), (style, &format!("{found:<9} ")), (NORMAL, evidence)]);
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
    screen::print_line(format_args!("{:22}{}", "", text));
}
