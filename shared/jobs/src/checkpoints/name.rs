//! The step that a name in the checkpoint directory says.

use std::borrow::Cow;
use std::iter;

/// The unit of a number in a name, the finest first: where a name has several, the finest is its step. `epoch=3-step=1200` is step 1200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum StepUnit {
    /// Steps of the optimizer, since the beginning.
    Step,
    /// Samples, images or tokens that were read.
    Sample,
    /// Batches, which many trainers count anew in each epoch.
    Batch,
    Epoch,
    /// No word says it.
    Plain,
    /// Something else, such as a metric.
    Other,
}

/// Words before a number, or after it, that say what it counts.
// `ba`: Composer's batches since the beginning (composer/callbacks/checkpoint_saver.py, `ep{epoch}-ba{batch}`). `kimg`: thousands of images
// (stylegan3, training/training_loop.py).
const UNITS: [(StepUnit, &[&str]); 4] = [
    (
        StepUnit::Step,
        &[
            "step",
            "steps",
            "globalstep",
            "globalsteps",
            "gstep",
            "timestep",
            "timesteps",
            "optstep",
            "iter",
            "iters",
            "iteration",
            "iterations",
            "itr",
            "it",
            "update",
            "updates",
            "ba",
            "tick",
            "ticks",
        ],
    ),
    (
        StepUnit::Sample,
        &[
            "sample", "samples", "example", "examples", "image", "images", "imgs", "kimg", "token", "tokens", "frame",
            "frames",
        ],
    ),
    (StepUnit::Batch, &["batch", "batches", "minibatch", "mb"]),
    (StepUnit::Epoch, &["epoch", "epochs", "ep", "round", "rounds", "episode", "episodes", "cycle", "pass"]),
];

/// Words before a number that distinguishes versions or the parts of one checkpoint.
const PART_KEYS: [&str; 6] = ["v", "version", "rank", "shard", "w", "p"];

/// Extensions of files that some trainers write by rank, with its number after them: `checkpoint_5.th.1`.
const BEFORE_RANK: [&str; 6] = ["pt", "pth", "th", "ckpt", "bin", "pkl"];

/// Letters that are keys where an epoch is abbreviated as well: `model_state_e3_b40.th` (allennlp 2.10, allennlp/training/checkpointer.py).
const SHORT_UNITS: [(&str, StepUnit); 4] =
    [("e", StepUnit::Epoch), ("b", StepUnit::Batch), ("s", StepUnit::Step), ("i", StepUnit::Step)];

/// Extensions that end on a digit.
const EXTENSIONS: [&str; 6] = ["h5", "hdf5", "pt2", "bz2", "lz4", "7z"];

/// The step that a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedStep {
    /// Its number.
    pub step: u64,
    /// The epoch, or the number before it, beside which it counts: many trainers count steps anew in each.
    pub epoch: Option<u64>,
    /// True if the number does not order checkpoints: it is the last of several without a key.
    pub is_ambiguous: bool,
}

impl NamedStep {
    /// One that orders checkpoints.
    #[must_use]
    pub const fn certain(step: u64) -> Self {
        Self { step, epoch: None, is_ambiguous: false }
    }
}

/// The step that a name says: the number that a key names, of several the finest; else a number that follows the epoch, else the only number,
/// else the last one, which is ambiguous. A date with a time is one number. A number with a decimal point, of a version, of a part, of another key
/// (`val_loss=3`), within a word (`7b`), or after a mark of being unfinished is none.
#[must_use]
pub fn step_of(name: &str) -> Option<NamedStep> {
    let numbers = numbers_of(name);
    let last_of = |unit| numbers.iter().rev().find(|number| number.unit == unit).map(|number| number.value);
    let finest = [StepUnit::Step, StepUnit::Sample, StepUnit::Batch].into_iter().find_map(last_of);
    let epoch = last_of(StepUnit::Epoch);
    if let Some(step) = finest {
        return Some(NamedStep { step, epoch, is_ambiguous: false });
    }
    if epoch.is_some() {
        let after = numbers.iter().skip_while(|number| number.unit != StepUnit::Epoch);
        let bare: Vec<u64> = after.filter(|number| number.is_bare).map(|number| number.value).collect();
        return match (bare.as_slice(), epoch) {
            (&[step], _) => Some(NamedStep { step, epoch, is_ambiguous: false }),
            (_, epoch) => epoch.map(NamedStep::certain),
        };
    }
    let plain: Vec<u64> =
        numbers.iter().filter(|number| number.unit == StepUnit::Plain).map(|number| number.value).collect();
    if let Some(time) = time_in(name) {
        return Some(NamedStep::certain(time));
    }
    match *plain.as_slice() {
        [] => None,
        [step] => Some(NamedStep::certain(step)),
        [.., before, step] => Some(NamedStep { step, epoch: Some(before), is_ambiguous: true }),
    }
}

/// The date and time of a name as one number, by which `SpeechBrain` and Ray name a checkpoint.
// speechbrain/utils/checkpoints.py, _new_checkpoint_dirpath: `CKPT+2024-01-02+12-30-05+00`.
fn time_in(name: &str) -> Option<u64> {
    let parts: Vec<u64> = chunks_of(name)
        .iter()
        .filter(|chunk| chunk.is_number())
        .filter_map(|chunk| chunk.runs[0].parse().ok())
        .collect();
    parts.windows(6).find_map(|part| match *part {
        [year @ 1970..10_000, month @ 1..13, day @ 1..32, hour @ 0..24, minute @ 0..60, second @ 0..61] => Some(
            [month, day, hour, minute, second]
                .into_iter()
                .fold(year, |time, part| time.saturating_mul(100).saturating_add(part)),
        ),
        _ => None,
    })
}

/// The unit of the step of a name.
pub(super) fn unit_of(name: &str) -> Option<StepUnit> {
    numbers_of(name).iter().map(|number| number.unit).min()
}

#[derive(Debug)]
struct NumberInName {
    value: u64,
    unit: StepUnit,
    /// True if it follows another number, with no word between them.
    is_bare: bool,
}

/// The characters between two others that are no letters or digits.
#[derive(Debug)]
struct NameChunk<'a> {
    /// The characters between this chunk and the one before.
    separator: &'a str,
    /// Its runs of letters and of digits, in turn.
    runs: Vec<&'a str>,
}

impl NameChunk<'_> {
    fn word(&self) -> Option<&str> {
        if let [word] = *self.runs.as_slice() { Some(word).filter(|word| !is_digits(word)) } else { None }
    }

    fn is_number(&self) -> bool {
        matches!(*self.runs.as_slice(), [number] if is_digits(number))
    }

    /// True if it is a word that says what its number counts, and the number.
    fn is_keyed(&self) -> bool {
        matches!(*self.runs.as_slice(), [key, number] if is_digits(number) && unit_of_word(key).is_some())
    }

    /// True if digits end it.
    fn ends_on_digits(&self) -> bool {
        self.runs.last().is_some_and(|run| is_digits(run))
    }
}

fn numbers_of(name: &str) -> Vec<NumberInName> {
    let name = without_part(before_mark(name));
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.contains(&extension) => stem,
        _ => &name,
    };
    let chunks = chunks_of(stem);
    if let Some(found) = short_numbers(&chunks) {
        return found;
    }
    let is_decimal = |index: usize| {
        let joins = |before: Option<&NameChunk<'_>>, after: Option<&NameChunk<'_>>| {
            // Three digits after the number of an epoch are a step: `model.pt.ep3.1000` (FunASR, funasr/train_utils/trainer.py).
            let is_step = |after: &NameChunk<'_>| before.is_some_and(NameChunk::is_keyed) && after.runs[0].len() > 2;
            before.is_some_and(NameChunk::ends_on_digits)
                && after.is_some_and(|chunk| chunk.separator == "." && chunk.is_number() && !is_step(chunk))
        };
        let before = index.checked_sub(1).and_then(|before| chunks.get(before));
        joins(before, chunks.get(index)) || joins(chunks.get(index), chunks.get(index + 1))
    };
    let mut found = Vec::new();
    for (index, chunk) in chunks.iter().enumerate().filter(|(index, _)| !is_decimal(*index)) {
        let chunk_before = index.checked_sub(1).and_then(|before| chunks.get(before));
        let before = chunk_before.and_then(NameChunk::word);
        let after = chunks.get(index + 1).and_then(NameChunk::word);
        let is_rank =
            chunk.separator == "." && !found.is_empty() && before.is_some_and(|word| BEFORE_RANK.contains(&word));
        let numbers = match *chunk.runs.as_slice() {
            [_] if is_rank => None,
            [number] => number_by(number, before, after, chunk.separator == "="),
            [key, number] if is_digits(number) => number_by(number, Some(key), after, false),
            [number, key] => number_and_word(number, key, before.or(after)),
            _ => None,
        };
        let is_bare =
            chunk.is_number() && chunk.separator != "=" && chunk_before.is_some_and(NameChunk::ends_on_digits);
        found.extend(numbers.map(|number| NumberInName { is_bare, ..number }));
        if chunk.runs.len() > 2 {
            found.extend(keyed_pairs(&chunk.runs, unit_of_word));
        }
    }
    found
}

/// A name without its mark of being unfinished and what follows: `checkpoint_500` of `checkpoint_500.tmp-1700000000`.
fn before_mark(name: &str) -> &str {
    let is_mark = |at: usize| name[at..].get(..3).is_some_and(|word| word.eq_ignore_ascii_case("tmp"));
    let joints = name.char_indices().filter(|(_, joint)| !joint.is_alphanumeric());
    let mut marks =
        joints.map(|(at, joint)| (at, at.saturating_add(joint.len_utf8()))).filter(|(_, after)| is_mark(*after));
    match marks.next() {
        Some((at, _)) if name[..at].contains(|character: char| character.is_ascii_digit()) => &name[..at],
        _ => name,
    }
}

/// The numbers of a name whose keys are single letters, an epoch's among them.
fn short_numbers(chunks: &[NameChunk<'_>]) -> Option<Vec<NumberInName>> {
    let unit_of_letter = |key: &str| SHORT_UNITS.iter().find(|(letter, _)| *letter == key).map(|(_, unit)| *unit);
    let pairs: Vec<NumberInName> = chunks
        .iter()
        .filter(|chunk| chunk.runs.len() > 1 && chunk.runs.len() % 2 == 0)
        .flat_map(|chunk| keyed_pairs(&chunk.runs, unit_of_letter))
        .collect();
    let has = |is_epoch: bool| pairs.iter().any(|pair| (pair.unit == StepUnit::Epoch) == is_epoch);
    (has(true) && has(false)).then_some(pairs)
}

/// A number by the word before it, or else after it.
fn number_by(digits: &str, before: Option<&str>, after: Option<&str>, is_assigned: bool) -> Option<NumberInName> {
    let value = digits.parse().ok()?;
    let key = before.map(str::to_ascii_lowercase).unwrap_or_default();
    // `yolov3` is a version.
    if PART_KEYS.contains(&key.as_str()) || (key.len() > 2 && key.ends_with('v')) {
        return None;
    }
    let unit = match before.and_then(unit_of_word) {
        Some(unit) => unit,
        None if is_assigned => StepUnit::Other,
        None => after.and_then(unit_of_word).unwrap_or(StepUnit::Plain),
    };
    Some(NumberInName { value, unit, is_bare: false })
}

/// `3epoch`, and `10k` beside a word that says what it counts.
fn number_and_word(digits: &str, word: &str, beside: Option<&str>) -> Option<NumberInName> {
    let value: u64 = digits.parse().ok()?;
    if let Some(unit) = unit_of_word(word) {
        return Some(NumberInName { value, unit, is_bare: false });
    }
    let unit = beside.and_then(unit_of_word).filter(|_| word.eq_ignore_ascii_case("k"))?;
    Some(NumberInName { value: value.saturating_mul(1000), unit, is_bare: false })
}

/// `epoch3step100`: each word is a key, and each number is its.
fn keyed_pairs(runs: &[&str], unit_of: impl Fn(&str) -> Option<StepUnit>) -> Vec<NumberInName> {
    let pair = |pair: &[&str]| match *pair {
        [key, number] => Some(NumberInName { value: number.parse().ok()?, unit: unit_of(key)?, is_bare: false }),
        _ => None,
    };
    runs.chunks(2).map(pair).collect::<Option<_>>().unwrap_or_default()
}

/// The unit by the whole word, or by the last part of one such as `globalStep`.
fn unit_of_word(word: &str) -> Option<StepUnit> {
    let by_word = |word: &str| {
        let word = word.to_ascii_lowercase();
        UNITS.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(unit, _)| *unit)
    };
    let last_part = || word.rfind(|character: char| character.is_ascii_uppercase()).and_then(|at| by_word(&word[at..]));
    by_word(word).or_else(last_part)
}

fn is_digits(run: &str) -> bool {
    run.starts_with(|first: char| first.is_ascii_digit())
}

fn chunks_of(stem: &str) -> Vec<NameChunk<'_>> {
    let mut rest = stem;
    iter::from_fn(|| {
        let start = rest.find(char::is_alphanumeric)?;
        let (separator, from) = rest.split_at(start);
        let end = from.find(|character: char| !character.is_alphanumeric()).unwrap_or(from.len());
        let (chunk, after) = from.split_at(end);
        rest = after;
        Some(NameChunk { separator, runs: runs_of(chunk) })
    })
    .collect()
}

fn runs_of(chunk: &str) -> Vec<&str> {
    let mut rest = chunk;
    iter::from_fn(|| {
        let is_number = is_digits(rest);
        let end = rest.find(|character: char| character.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        (!run.is_empty()).then_some(run)
    })
    .collect()
}

/// `ckpt-500.data` of `ckpt-500.data-00000-of-00001`, which is how TensorFlow and Hugging Face number the files of one checkpoint.
pub(super) fn without_part(name: &str) -> Cow<'_, str> {
    let is_digit = |character: char| character.is_ascii_digit();
    name.rsplit_once("-of-")
        .and_then(|(before, after)| {
            let (stem, number) = before.rsplit_once('-')?;
            let rest = after.trim_start_matches(is_digit);
            let is_part = !number.is_empty() && number.chars().all(is_digit) && rest.len() < after.len();
            is_part.then(|| Cow::Owned(format!("{stem}{rest}")))
        })
        .unwrap_or(Cow::Borrowed(name))
}

#[cfg(test)]
mod tests;
