//! Valid samples, changed as a fuzzer changes them: bytes, words and whole passages, up to a few edits at a time. Shared by
//! the crates that read something (`#[path]`); what must hold of the result is theirs to say.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Words that readers trip over: the ends of what numbers, moments and texts can be, and what only looks like something known.
const WORDS: [&str; 46] = [
    // Numbers.
    "0",
    "-0",
    "-1",
    "1e400",
    "-1e400",
    "1e-400",
    "NaN",
    "nan",
    "inf",
    "0x10",
    "1_000",
    "00",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999999999999999",
    // Durations and moments.
    "9999999999999999999d",
    "3660d",
    "15250w",
    "1d1h1m1s",
    "9999-12-31",
    "9999-12-30T22:00:00Z",
    "9999-12-31T23:59:59Z",
    "+262143-12-31T23:59:59Z",
    "-009999-01-02T01:59:59Z",
    "0000-01-01T00:00:00Z",
    "2026-12-31T23:59:60Z",
    "2026-09-30T18:00:00+25:59",
    "2026-09-30T18:00:00Z[Europe/Berlin]",
    "Etc/Unknown",
    // Texts.
    "",
    " ",
    "\u{0}",
    "\r\n",
    "\t",
    "\u{feff}",
    "\u{a0}",
    "\u{200b}",
    "\u{202e}",
    "💤",
    "ﬀ",
    "с",
    "null",
    "true",
    "\"",
    "'",
];

/// What is repeated to nest deeply.
const OPENINGS: [&str; 6] = ["[", "{\"a\":", "{a=", "a.", "[[", "("];

#[derive(Debug, Clone)]
enum Mutation {
    FlipBit(Index, u8),
    Insert(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Truncate(Index),
    /// One word becomes another.
    Word(Index, &'static str),
    /// One word becomes one of another sample.
    WordOf(Index, Index, Index),
    Case(Index),
    Nest(Index, &'static str, usize),
    /// From there on it is another sample.
    Splice(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        2 => (at(), 0_u8..8).prop_map(|(at, bit)| Mutation::FlipBit(at, bit)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        2 => (at(), 1_usize..12).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (at(), 1_usize..40, 1_usize..40).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        1 => at().prop_map(Mutation::Truncate),
        6 => (at(), select(&WORDS[..])).prop_map(|(at, word)| Mutation::Word(at, word)),
        3 => (at(), at(), at()).prop_map(|(at, sample, from)| Mutation::WordOf(at, sample, from)),
        1 => at().prop_map(Mutation::Case),
        1 => (at(), select(&OPENINGS[..]), prop_oneof![Just(3), Just(130), Just(3000)])
            .prop_map(|(at, opening, times)| Mutation::Nest(at, opening, times)),
        2 => (at(), at(), at()).prop_map(|(at, sample, from)| Mutation::Splice(at, sample, from)),
    ]
}

/// One of the samples, unchanged or after a few edits.
pub(crate) fn mutated(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), vec(edit(), 0..6)).prop_map(move |(which, edits)| {
        let sample = which.get(&samples).clone();
        edits.iter().fold(sample, |bytes, edit| edit.apply(bytes, &samples))
    })
}

impl Mutation {
    fn apply(&self, mut bytes: Vec<u8>, samples: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Self::FlipBit(at, bit) => {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                }
            }
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), *byte),
            Self::Remove(at, length) => {
                let passage = passage(*at, *length, &bytes);
                drop(bytes.drain(passage));
            }
            Self::Repeat(at, length, times) => {
                let passage = passage(*at, *length, &bytes);
                let again = bytes[passage.clone()].repeat(*times);
                drop(bytes.splice(passage.end..passage.end, again));
            }
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Self::Word(at, word) => {
                let old = word_of(*at, &bytes);
                drop(bytes.splice(old, word.bytes()));
            }
            Self::WordOf(at, sample, from) => {
                let sample = sample.get(samples);
                let old = word_of(*at, &bytes);
                drop(bytes.splice(old, sample[word_of(*from, sample)].iter().copied()));
            }
            Self::Case(at) => {
                let word = word_of(*at, &bytes);
                for byte in &mut bytes[word] {
                    *byte =
                        if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
                }
            }
            Self::Nest(at, opening, times) => {
                let at = at.index(bytes.len() + 1);
                drop(bytes.splice(at..at, opening.repeat(*times).into_bytes()));
            }
            Self::Splice(at, sample, from) => {
                bytes.truncate(at.index(bytes.len() + 1));
                let sample = sample.get(samples);
                bytes.extend_from_slice(&sample[from.index(sample.len() + 1)..]);
            }
        }
        bytes
    }
}

fn passage(at: Index, length: usize, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = at.index(bytes.len() + 1);
    start..(start + length).min(bytes.len())
}

/// One word of those bytes; where they have none, the place before them all.
fn word_of(at: Index, bytes: &[u8]) -> std::ops::Range<usize> {
    let is_word_byte = |byte: u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"+-.:_/".contains(&byte);
    let starts = (0..bytes.len()).filter(|at| is_word_byte(bytes[*at]) && (*at == 0 || !is_word_byte(bytes[*at - 1])));
    let starts: Vec<usize> = starts.collect();
    if starts.is_empty() {
        return 0..0;
    }
    let start = *at.get(&starts);
    start..start + bytes[start..].iter().take_while(|byte| is_word_byte(**byte)).count()
}
