//! What is said of one resource, as people read it.

use anstyle::Style;
use domain::policy::explain::Finds;

use super::outcome::{Explained, OneRule, StoppedByCurfew};
use crate::screen::{self, BOLD, plain};

/// Of a rule nothing more is to be said.
const NOTHING_COMES: &str = "not while that is so";

pub(super) fn explained(one: &Explained) {
    let Explained { region, resource, what, state, since, .. } = one;
    let name = one.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let team = one.team.as_ref().map_or("no team".to_owned(), |team| format!("team {team}"));
    let owner = one.owner.as_ref().map_or("no owner".to_owned(), |owner| format!("owner {owner}"));
    screen::say(plain(&format!("{resource}  {what}{name}, {team}, {owner}, {region}")));
    let costs = one.costs.as_ref().map(|costs| format!("; {costs}")).unwrap_or_default();
    match &one.stopped {
        Some(StoppedByCurfew { at, rule }) => {
            fact("state", &format!("stopped by Curfew at {at} ({rule}); curfew undo {resource} starts it"));
        }
        // Its one line says when.
        None if state == "deleted" => fact("state", state),
        None => fact("state", &format!("{state}, {} {since}{costs}", begun(resource))),
    }
    if let Some(mode) = &one.mode_in_words {
        fact("mode", mode);
    }
    if let Some(spared) = &one.spared {
        fact("spared", &spared.words);
    }
    fact("now", &one.decision.words);
    of_rules(one);
    for note in &one.notes {
        screen::warn(plain(&format!("{resource}: {note}")));
    }
    for gap in &one.gaps {
        screen::warn(plain(&format!("{resource}: {}", crate::failure::of_gap(gap))));
    }
}

fn begun(resource: &str) -> &'static str {
    match resource.split('-').next() {
        Some("i") => "launched",
        Some("vol") => "created",
        _ => "begun",
    }
}

fn fact(name: &str, text: &str) {
    screen::say(format_args!("  {name:<9} {}", plain(text)));
}

/// What none of several rules can judge is said once, and of each only what it says otherwise.
fn of_rules(one: &Explained) {
    let all = &one.rules;
    let (Some(first), true) = (all.first(), all.iter().all(|rule| rule.verdict == Finds::NotJudged)) else {
        return all.iter().for_each(|rule| of_rule(rule, one));
    };
    if all.len() == 1 {
        return of_rule(first, one);
    }
    // What spares it says already why.
    let why = if one.spared.is_some() { String::new() } else { format!(" ({})", first.evidence) };
    fact("rules", &format!("none is judged, {}{why}", first.when));
    for rule in all.iter().filter(|rule| rule.when != first.when) {
        fact(rule.rule.as_str(), &rule.when);
    }
}

fn of_rule(rule: &OneRule, one: &Explained) {
    let OneRule { verdict, is_ahead, evidence, when, mode_in_words, .. } = rule;
    let found = match verdict {
        Finds::Kept => "ok",
        Finds::Unknown => "unknown",
        Finds::Broken if *is_ahead => "soon",
        Finds::Broken => "broken",
        Finds::NotJudged => "-",
    };
    let style = if *verdict == Finds::Broken { BOLD } else { Style::new() };
    screen::say(format_args!("  {:<9} {style}{found:<8}{style:#} {}", rule.rule.as_str(), plain(evidence)));
    if one.spared.is_some() {
        return;
    }
    if when != NOTHING_COMES {
        further(when);
    }
    let of_its_own = one.mode_in_words.as_ref() != Some(mode_in_words);
    if of_its_own && matches!(verdict, Finds::Broken | Finds::Unknown) {
        further(&format!("mode {mode_in_words}"));
    }
}

fn further(text: &str) {
    screen::say(format_args!("{:21}{}", "", plain(text)));
}
