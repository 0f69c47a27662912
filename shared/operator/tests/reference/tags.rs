//! The tags: rows, examples, and the words that each takes.

use std::collections::{BTreeMap, BTreeSet};

use model::curfew_tags::{
    ATTEMPT, CurfewTags, DELETED_AT, KEYS, LABELS, PROTECTED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE,
};
use model::instance::Instance;

use super::{DOCUMENTS, check_names, instance, quoted, rows};

fn tagged(key: &str, value: &str) -> Instance {
    Instance { tags: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..instance("i-0abc") }
}

#[test]
fn every_tag_has_a_row_and_every_row_a_tag() {
    check_names("## Tags", KEYS.into_iter().map(str::to_owned));
}

#[test]
fn every_tags_example_is_read_and_means_something() {
    for (key, cells) in rows("## Tags") {
        let example = quoted(cells[2]).next().unwrap_or_else(|| panic!("{key} has no example"));
        let tags = tagged(key, example).tags;
        let read = match key {
            UNATTACHED_SINCE | SNAPSHOT_OF | RESTORE | DELETED_AT => CurfewTags::read_volume(&tags),
            _ => CurfewTags::read(&tagged(key, example)),
        };
        let read = read.unwrap_or_else(|problem| panic!("{problem:?}"));
        let is_not_looked_into = matches!(key, PROTECTED | ATTEMPT) || LABELS.contains(&key);
        assert_eq!(read == CurfewTags::default(), is_not_looked_into, "{key}={example} is read as {read:?}");
    }
}

#[test]
fn the_documented_words_of_a_tag_are_all_it_takes() {
    for (key, cells) in rows("### Tags that people set") {
        let Err(unreadable) = CurfewTags::read(&tagged(key, "?")) else { continue };
        for word in quoted(cells[1]).filter(|word| *word != "60d") {
            assert!(CurfewTags::read(&tagged(key, word)).is_ok(), "{key} does not take {word}");
        }
        let words: BTreeSet<_> = quoted(cells[1]).collect();
        for word in quoted(&unreadable[0].problem).filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
            assert!(words.contains(word), "{key} takes {word}, and its row does not say so");
        }
    }
    assert!(CurfewTags::read(&tagged("curfew:idle-after", "60d")).is_ok());
    assert!(CurfewTags::read(&tagged("curfew:idle-after", "60d1s")).is_err());
}

#[test]
fn no_document_names_a_tag_that_does_not_exist() {
    for (document, text) in DOCUMENTS {
        for (at, _) in text.match_indices("curfew:") {
            let tail = text[at..].chars().take_while(|c| c.is_ascii_lowercase() || matches!(c, ':' | '-'));
            let key: String = tail.collect();
            let is_on_purpose = matches!(key.as_str(), "curfew:protectd");
            assert!(is_on_purpose || KEYS.contains(&key.as_str()), "{document} names {key}");
        }
    }
}
