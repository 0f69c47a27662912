//! `[trigger]` as people write it.

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::document::{position, utf8, written_at};
use model::duration;
use model::fault::{InvalidValue, shortened};
use model::id::{Region, TeamName};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Trigger, TriggerKind, document};
use crate::spec::checks::whole_number;
use crate::team_access::check_folder;
use crate::{InputSource, JobName, JobSpec, SpecMistake};

const MAX_PER_DAY: u32 = 20;

/// Each made job stays in the state for days, and a run reads the whole state.
const MAX_PER_DAY_MAX: u32 = 1_000;

const QUIET: SignedDuration = SignedDuration::from_mins(5);

/// The schedule looks once a minute.
const QUIET_MIN: SignedDuration = SignedDuration::from_mins(1);

/// Longest quiet: for longer no run reads the state of a trigger to which nothing arrives.
const QUIET_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The name and the digits of an object fit a job's name.
pub(crate) const NAME_CHARACTERS_MAX: usize = 50;

/// Most bytes that a trigger's variables may add: a key has up to 1,024 bytes, and each may be written as six.
const ADDED_BYTES_MAX: usize = 16 * 1024;

/// The most of a text that a mistake repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 100;

const FINISH_BY: [&str; 2] = ["limits", "finish_by"];

const KEYS: [&str; 4] = ["from", "for", "quiet", "max_per_day"];

impl Trigger {
    /// Reads a trigger, and the job that it would make, as of `now`. `name`: of its file, without `.toml`.
    ///
    /// # Errors
    /// Every mistake, in the order of the document.
    pub fn read(
        bytes: &[u8],
        name: &str,
        team: Option<&TeamName>,
        config: &Config,
        state_bucket: (&str, &Region),
        now: Timestamp,
    ) -> Result<(Self, JobSpec), Vec<SpecMistake>> {
        let text = utf8(bytes).map_err(|wrong| vec![wrong.into()])?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (state_bucket, region) = state_bucket;
        let read_spec = |text: &str| JobSpec::read(text, name, team, config, region, now);
        let Ok(tree) = DeTable::parse(text) else {
            let mut mistakes = read_spec(text).err().unwrap_or_default();
            mistakes.retain(|mistake| mistake.key != "trigger");
            return Err(mistakes);
        };
        let mut section = Section { text, found: Vec::new() };
        let trigger = section.read(tree.get_ref(), state_bucket, |folder| check_folder(folder, team, config));
        section.check_name(name);
        section.refuse_finish_by(tree.get_ref());
        let blanked =
            document::section_range(text, tree.get_ref(), "trigger").and_then(|lines| document::blank(text, lines));
        let (Some(text), Some((bucket, prefix, kind, max_per_day))) = (blanked, trigger) else {
            return Err(section.found);
        };
        let spec = match read_spec(&text) {
            Ok(spec) => spec,
            Err(mistakes) => {
                let mut all = section.found;
                all.extend(mistakes.into_iter().filter(|mistake| mistake.key != FINISH_BY.join(".")));
                all.sort_by_key(|mistake| mistake.line);
                return Err(all);
            }
        };
        let workdir = spec.work.workdir.clone();
        let trigger = Self { name: name.to_owned(), bucket, prefix, kind, max_per_day, text, workdir };
        let byte = written_at(tree.get_ref(), &["env"]).or_else(|| written_at(tree.get_ref(), &["trigger"]));
        section.check_document(&trigger, byte, read_spec);
        if section.found.is_empty() { Ok((trigger, spec)) } else { Err(section.found) }
    }
}

/// The section under judgement.
struct Section<'t> {
    text: &'t str,
    found: Vec<SpecMistake>,
}

impl Section<'_> {
    fn refuse(&mut self, byte: Option<usize>, key: &str, problem: String) {
        let line = byte.map_or(0, |byte| position(self.text, byte).0);
        let key = if key.is_empty() { "trigger".to_owned() } else { format!("trigger.{key}") };
        self.found.push(SpecMistake { line, key, problem });
    }

    fn read(
        &mut self,
        root: &DeTable<'_>,
        state_bucket: &str,
        allow: impl Fn(&InputSource) -> Result<(), InvalidValue>,
    ) -> Option<(String, String, TriggerKind, u32)> {
        let Some((heading, value)) = root.get_key_value("trigger") else {
            let problem = "there is no section `[trigger]`; write it, or submit the document to inbox/".to_owned();
            self.refuse(None, "", problem);
            return None;
        };
        let (DeValue::Table(table), Some(_)) = (value.get_ref(), document::section_range(self.text, root, "trigger"))
        else {
            self.refuse(Some(heading.span().start), "", "write it as a section of its own, `[trigger]`".to_owned());
            return None;
        };
        for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&&**key.get_ref())) {
            let shown = shortened(key.get_ref(), SHOWN_CHARACTERS_MAX);
            self.refuse(Some(key.span().start), &shown, format!("there is no such key; there are {}", KEYS.join(", ")));
        }
        let from = self.from(table, heading.span().start, state_bucket, allow);
        let kind = self.kind(table);
        let max_per_day = self.max_per_day(table);
        let (bucket, prefix) = from?;
        Some((bucket, prefix, kind, max_per_day))
    }

    fn from(
        &mut self,
        table: &DeTable<'_>,
        heading: usize,
        state_bucket: &str,
        allow: impl Fn(&InputSource) -> Result<(), InvalidValue>,
    ) -> Option<(String, String)> {
        let value = table.get("from");
        let byte = value.map_or(heading, |value| value.span().start);
        let address = value.and_then(text_of).filter(|text| text.ends_with('/'));
        let Some(source) = address.and_then(|text| InputSource::read(text).ok()) else {
            self.refuse(
                Some(byte),
                "from",
                "write a folder of a bucket such as `\"s3://data/uploads/\"`, with the `/` at its end".to_owned(),
            );
            return None;
        };
        if source.bucket == state_bucket {
            self.refuse(Some(byte), "from", "this is Curfew's own bucket; name another one".to_owned());
        } else if let Err(problem) = allow(&source) {
            self.refuse(Some(byte), "from", problem.to_string());
        }
        let prefix = source.folder();
        Some((source.bucket, prefix))
    }

    fn kind(&mut self, table: &DeTable<'_>) -> TriggerKind {
        let is_quiet = match table.get("for") {
            None => false,
            Some(value) => match text_of(value) {
                Some("each-object") => false,
                Some("quiet") => true,
                _ => {
                    self.refuse(Some(value.span().start), "for", "write `\"each-object\"` or `\"quiet\"`".to_owned());
                    return TriggerKind::EachObject;
                }
            },
        };
        let Some(value) = table.get("quiet") else {
            return if is_quiet { TriggerKind::Quiet(QUIET) } else { TriggerKind::EachObject };
        };
        let byte = Some(value.span().start);
        if !is_quiet {
            self.refuse(byte, "quiet", "it needs `for = \"quiet\"`; write that, or leave it out".to_owned());
            return TriggerKind::EachObject;
        }
        let length = text_of(value).and_then(|text| duration::parse(text).ok());
        let Some(length) = length.filter(|length| (QUIET_MIN..=QUIET_MAX).contains(length)) else {
            self.refuse(byte, "quiet", "write a duration from `\"1m\"` to `\"24h\"`".to_owned());
            return TriggerKind::EachObject;
        };
        TriggerKind::Quiet(length)
    }

    fn max_per_day(&mut self, table: &DeTable<'_>) -> u32 {
        let Some(value) = table.get("max_per_day") else { return MAX_PER_DAY };
        whole_number(value.get_ref(), MAX_PER_DAY_MAX).unwrap_or_else(|problem| {
            self.refuse(Some(value.span().start), "max_per_day", problem.to_string());
            MAX_PER_DAY
        })
    }

    fn check_name(&mut self, name: &str) {
        if JobName::read(name).is_err() || name.len() > NAME_CHARACTERS_MAX {
            let shown = shortened(name, SHOWN_CHARACTERS_MAX);
            let problem = format!(
                "the file is called {shown:?}; call it by 1 to {NAME_CHARACTERS_MAX} letters, digits, `-`, `_` and `.`, with a \
                 letter or a digit first"
            );
            self.found.push(SpecMistake::for_document(problem));
        }
    }

    /// A single moment for all jobs: those after it would be refused.
    fn refuse_finish_by(&mut self, root: &DeTable<'_>) {
        let Some(byte) = written_at(root, &FINISH_BY) else { return };
        let line = position(self.text, byte).0;
        let problem = "a trigger makes jobs again and again; write `within`, from the start of each".to_owned();
        self.found.push(SpecMistake { line, key: FINISH_BY.join("."), problem });
    }

    /// Checks that the documents that the trigger makes are legal.
    fn check_document(
        &mut self,
        trigger: &Trigger,
        byte: Option<usize>,
        read_spec: impl Fn(&str) -> Result<JobSpec, Vec<SpecMistake>>,
    ) {
        if trigger.text.len() + ADDED_BYTES_MAX > JobSpec::BYTES_MAX {
            let most = JobSpec::BYTES_MAX - ADDED_BYTES_MAX;
            let problem = format!("the document has {} bytes; {most} are the most of a trigger", trigger.text.len());
            self.refuse(None, "", problem);
            return;
        }
        let variables = ["TRIGGER_BUCKET", "TRIGGER_KEY", "TRIGGER_VERSION", "TRIGGER_PREFIX"];
        let samples: Vec<(&'static str, String)> = variables.map(|name| (name, "x".to_owned())).into();
        let refused = match document::with_variables(&trigger.text, &trigger.name, &samples) {
            None => Some("`env` cannot take them; write `[env]` as a section without them".to_owned()),
            Some(made) => read_spec(&made).err().and_then(|found| found.into_iter().next()).map(|one| one.problem),
        };
        if let Some(problem) = refused {
            self.refuse(byte, "", format!("its jobs get the variables {}: {problem}", variables.join(", ")));
        }
    }
}

fn text_of<'v>(value: &'v Spanned<DeValue<'_>>) -> Option<&'v str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text),
        _ => None,
    }
}
