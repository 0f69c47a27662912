//! `[schedule]` as people write it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::config::Config;
use model::document::{position, quoted, utf8, written_at};
use model::fault::{InvalidValue, shortened};
use model::id::{Region, TeamName};
use model::time_zone::read_time_zone;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{CronExpression, SCHEDULED_AT, Schedule};
use crate::spec::checks::whole_number;
use crate::trigger::{NAME_CHARACTERS_MAX, document};
use crate::{JobName, JobSpec, SpecMistake};

const SECTION: &str = "schedule";

const KEYS: [&str; 3] = ["cron", "time_zone", "max_at_once"];

const MAX_AT_ONCE: u32 = 1;

/// A decision asks the inbox about each unanswered document.
const MAX_AT_ONCE_MAX: u32 = 20;

/// Bytes that the moment and the name add to the document at most.
const ADDED_BYTES_MAX: usize = 1024;

/// The most of a text that a mistake repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 100;

const FINISH_BY: [&str; 2] = ["limits", "finish_by"];

impl Schedule {
    /// Reads a schedule, and the job that it would make, as of `now`. `name`: of its file, without `.toml`.
    ///
    /// # Errors
    /// Every mistake, in the order of the document.
    pub fn read(
        bytes: &[u8],
        name: &str,
        team: Option<&TeamName>,
        config: &Config,
        region: &Region,
        now: Timestamp,
    ) -> Result<(Self, JobSpec), Vec<SpecMistake>> {
        let text = utf8(bytes).map_err(|wrong| vec![wrong.into()])?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let read_spec = |text: &str| JobSpec::read(text, name, team, config, region, now);
        let Ok(tree) = DeTable::parse(text) else {
            let mut mistakes = read_spec(text).err().unwrap_or_default();
            mistakes.retain(|mistake| mistake.key != SECTION);
            return Err(mistakes);
        };
        let mut section = Section { text, found: Vec::new() };
        let terms = section.read(tree.get_ref(), &config.account.time_zone);
        section.check_name(name);
        section.refuse_finish_by(tree.get_ref());
        let lines = document::section_range(text, tree.get_ref(), SECTION);
        let Some(text) = lines.and_then(|lines| document::blank(text, lines)) else { return Err(section.found) };
        let (terms, spec) = match (terms, read_spec(&text)) {
            (Some(terms), Ok(spec)) => (terms, spec),
            (_, read) => {
                let mut all = section.found;
                let job_mistakes = read.err().unwrap_or_default();
                all.extend(job_mistakes.into_iter().filter(|mistake| mistake.key != FINISH_BY.join(".")));
                all.sort_by_key(|mistake| mistake.line);
                return Err(all);
            }
        };
        let (cron, zone, max_at_once) = terms;
        let (job, workdir) = (spec.name.clone(), spec.work.workdir.clone());
        let schedule = Self { name: name.to_owned(), cron, zone, max_at_once, text, job, workdir };
        let byte = written_at(tree.get_ref(), &["env"]).or_else(|| written_at(tree.get_ref(), &[SECTION]));
        section.check_document(&schedule, byte, now, read_spec);
        section.found.sort_by_key(|mistake| mistake.line);
        if section.found.is_empty() { Ok((schedule, spec)) } else { Err(section.found) }
    }
}

/// A job document with a section `[schedule]` at its end. Returns `None` if it has one already.
#[must_use]
pub fn append_section(text: &str, cron: &str, time_zone: Option<&str>, max_at_once: Option<u32>) -> Option<String> {
    // A document that cannot be parsed is refused later, with the line of its mistake.
    if DeTable::parse(text).is_ok_and(|tree| tree.get_ref().contains_key(SECTION)) {
        return None;
    }
    let zone = time_zone.map_or_else(String::new, |zone| format!("time_zone = {}\n", quoted(zone)));
    let most = max_at_once.map_or_else(String::new, |most| format!("max_at_once = {most}\n"));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}\n[{SECTION}]\ncron = {}\n{zone}{most}", quoted(cron)))
}

/// The mistakes of a document whose section [`append_section`] wrote: those of the section name the option, because nobody sees its lines.
#[must_use]
pub fn name_options(mistakes: Vec<SpecMistake>) -> Vec<SpecMistake> {
    let named = mistakes.into_iter().map(|mistake| {
        let Some(rest) = mistake.key.strip_prefix(SECTION) else { return mistake };
        let option = match rest {
            "" | ".cron" => "--cron",
            ".time_zone" => "--time-zone",
            ".max_at_once" => "--max-at-once",
            _ => return mistake,
        };
        SpecMistake { line: 0, key: option.to_owned(), ..mistake }
    });
    let mut named: Vec<SpecMistake> = named.collect();
    named.sort_by_key(|mistake| mistake.line);
    named
}

/// The section under judgement.
struct Section<'t> {
    text: &'t str,
    found: Vec<SpecMistake>,
}

impl Section<'_> {
    fn refuse(&mut self, byte: Option<usize>, key: &str, problem: String) {
        let line = byte.map_or(0, |byte| position(self.text, byte).0);
        let key = if key.is_empty() { SECTION.to_owned() } else { format!("{SECTION}.{key}") };
        self.found.push(SpecMistake { line, key, problem });
    }

    fn read(&mut self, root: &DeTable<'_>, zone_of_account: &str) -> Option<(CronExpression, TimeZone, u32)> {
        let Some((heading, value)) = root.get_key_value(SECTION) else {
            let problem = "there is no section `[schedule]`; write it, or pass --cron".to_owned();
            self.refuse(None, "", problem);
            return None;
        };
        let byte = heading.span().start;
        let (DeValue::Table(table), Some(_)) = (value.get_ref(), document::section_range(self.text, root, SECTION))
        else {
            self.refuse(Some(byte), "", "write it as a section of its own, `[schedule]`".to_owned());
            return None;
        };
        for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&&**key.get_ref())) {
            let shown = shortened(key.get_ref(), SHOWN_CHARACTERS_MAX);
            self.refuse(Some(key.span().start), &shown, format!("there is no such key; there are {}", KEYS.join(", ")));
        }
        let cron = match table.get("cron") {
            None => {
                self.refuse(Some(byte), "cron", "write the moments, such as `cron = \"0 2 * * MON-FRI\"`".to_owned());
                None
            }
            Some(value) => self.text_by(value, "cron", CronExpression::read),
        };
        let zone = match table.get("time_zone") {
            None => TimeZone::get(zone_of_account).ok().or(Some(TimeZone::UTC)),
            Some(value) => self.text_by(value, "time_zone", read_time_zone),
        };
        let max_at_once = self.max_at_once(table);
        Some((cron?, zone?, max_at_once))
    }

    fn text_by<T>(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        read: impl Fn(&str) -> Result<T, InvalidValue>,
    ) -> Option<T> {
        let text = match value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(InvalidValue::new("write a text in quotes")),
        };
        let read = text.and_then(|text| read(text));
        read.map_err(|problem| self.refuse(Some(value.span().start), key, problem.to_string())).ok()
    }

    fn max_at_once(&mut self, table: &DeTable<'_>) -> u32 {
        let Some(value) = table.get("max_at_once") else { return MAX_AT_ONCE };
        whole_number(value.get_ref(), MAX_AT_ONCE_MAX).unwrap_or_else(|problem| {
            self.refuse(Some(value.span().start), "max_at_once", problem.to_string());
            MAX_AT_ONCE
        })
    }

    fn check_name(&mut self, name: &str) {
        if JobName::read(name).is_err() || name.len() > NAME_CHARACTERS_MAX {
            let shown = shortened(name, SHOWN_CHARACTERS_MAX);
            let problem = format!(
                "the schedule is called {shown:?}; call it by 1 to {NAME_CHARACTERS_MAX} letters, digits, `-`, `_` and `.`, with a \
                 letter or a digit first"
            );
            self.found.push(SpecMistake::for_document(problem));
        }
    }

    /// A single moment for all jobs: those after it would be refused.
    fn refuse_finish_by(&mut self, root: &DeTable<'_>) {
        let Some(byte) = written_at(root, &FINISH_BY) else { return };
        let line = position(self.text, byte).0;
        let problem = "a schedule makes jobs again and again; write `within`, from the start of each".to_owned();
        self.found.push(SpecMistake { line, key: FINISH_BY.join("."), problem });
    }

    /// Checks that the documents that the schedule makes are legal.
    fn check_document(
        &mut self,
        schedule: &Schedule,
        byte: Option<usize>,
        now: Timestamp,
        read_spec: impl Fn(&str) -> Result<JobSpec, Vec<SpecMistake>>,
    ) {
        let most = JobSpec::BYTES_MAX.saturating_sub(ADDED_BYTES_MAX);
        if schedule.text.len() > most {
            let problem = format!("the document has {} bytes; {most} are the most of a schedule", schedule.text.len());
            self.refuse(None, "", problem);
            return;
        }
        let refused = match schedule.document(now) {
            None => Some("`env` cannot take it; write `[env]` as a section without it".to_owned()),
            Some(made) => read_spec(&made.text).err().and_then(|found| found.into_iter().next()).map(|one| one.problem),
        };
        if let Some(problem) = refused {
            self.refuse(byte, "", format!("its jobs get the variable {SCHEDULED_AT}: {problem}"));
        }
    }
}
