//! `curfew config check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::config;
use model::config::{
    Config, ConfigChange, ConfigError, ConfigNote, HubConfig, HubStatus, IgnoredLine, as_toml, changes,
    misshapen_regions, mistakes, notes, teams_lost, unknown_regions,
};
use serde::Serialize;
use serde_json::Value;
use store::{ConfigWithHub, Store};

use super::document;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;
use crate::screen;

/// The timeout of AWS, because a file can be checked without it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Find every mistake in a file, what has no effect, and what it would change
///
/// Needs no access to AWS; without it, nothing is compared with what is deployed.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 legal; 1 mistakes; 2 the file cannot be read.\n\nExample:\n  \
                        curfew config check curfew.toml")]
pub(crate) struct Check {
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Check the configuration of an organization's hub, which may have sections of single accounts; nothing is compared
    #[arg(long)]
    hub: bool,
}

#[derive(Serialize)]
pub(super) struct CheckOutput {
    file: String,
    pub(super) mistakes: Vec<ConfigMistake>,
    /// Legal entries that have no effect, or a smaller one than expected.
    notes: Vec<NoteOutput>,
    /// Null if it was not compared.
    compared_with: Option<String>,
    changes: Vec<ChangeOutput>,
    /// Teams that the other configuration has, and this one lacks.
    teams_lost: Vec<String>,
    /// Lines that do not count beside the configuration of the organization's hub.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<IgnoredLine>,
}

#[derive(Serialize)]
pub(super) struct ConfigMistake {
    line: usize,
    column: usize,
    key: String,
    problem: String,
}

#[derive(Serialize)]
pub(super) struct NoteOutput {
    line: usize,
    column: usize,
    key: String,
    note: String,
}

#[derive(Serialize)]
pub(super) struct ChangeOutput {
    key: String,
    from: Option<Value>,
    to: Option<Value>,
    beware: Option<&'static str>,
}

impl From<ConfigError> for ConfigMistake {
    fn from(ConfigError { line, column, key, problem }: ConfigError) -> Self {
        Self { line, column, key, problem }
    }
}

impl From<ConfigNote> for NoteOutput {
    fn from(ConfigNote { line, column, key, note }: ConfigNote) -> Self {
        Self { line, column, key, note }
    }
}

impl From<ConfigChange> for ChangeOutput {
    fn from(ConfigChange { key, from, to, beware }: ConfigChange) -> Self {
        Self { key, from, to, beware }
    }
}

impl Check {
    pub(super) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let as_json = global.json;
        let bytes = document::read(&self.file)?;
        let name = self.file.display().to_string();
        let mut found =
            if self.hub { CheckOutput::from_hub_bytes(name, &bytes) } else { CheckOutput::from_bytes(name, &bytes) };
        if let Some(config) = Config::read_bytes(&bytes).ok().filter(|_| !self.hub) {
            let text = String::from_utf8_lossy(&bytes);
            let context = CommandContext::connect(global).await;
            let context = context.as_ref();
            found.look_at_regions(context.ok(), &config, &text).await;
            if let Ok(context) = context {
                // Without an answer, nothing is known of tags.
                let _ = tokio::time::timeout(TIMEOUT, Box::pin(context.warn_of_tag_keys(&config, TIMEOUT))).await;
            }
            let compared = match context {
                Ok(context) => found.compare(context, &config, &text).await.map_err(|failure| failure.problem),
                Err(failure) => Err(failure.problem.clone()),
            };
            if let Err(problem) = compared {
                screen::warn(format!("not compared with the deployed configuration: {problem}"));
            }
        }
        let ending = if found.mistakes.is_empty() { CommandStatus::Success } else { CommandStatus::Findings };
        if as_json {
            screen::json(&found)?;
        } else {
            show(&found, &document::named(&self.file));
        }
        Ok(ending)
    }
}

impl CheckOutput {
    /// The mistakes and the notes of a document. It is not compared yet.
    pub(super) fn from_bytes(file: String, bytes: &[u8]) -> Self {
        let config = Config::read_bytes(bytes);
        let text = String::from_utf8_lossy(bytes);
        let notes = config.map(|config| notes(&config, &text)).unwrap_or_default();
        Self {
            file,
            mistakes: mistakes(bytes).into_iter().map(ConfigMistake::from).collect(),
            notes: notes.into_iter().map(NoteOutput::from).collect(),
            compared_with: None,
            changes: Vec::new(),
            teams_lost: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// The mistakes and the notes of a hub's document.
    fn from_hub_bytes(file: String, bytes: &[u8]) -> Self {
        let mistakes = HubConfig::mistakes(bytes).into_iter().map(ConfigMistake::from).collect();
        let notes = HubConfig::notes(bytes).into_iter().map(NoteOutput::from).collect();
        let (changes, teams_lost, ignored) = Default::default();
        Self { file, mistakes, notes, compared_with: None, changes, teams_lost, ignored }
    }

    /// Finds the lines that do not count beside the configuration of the organization's hub. Returns the configurations in force with the document
    /// before and with this one, which is what changes; those of the account alone without a hub.
    ///
    /// # Errors
    /// If it is unknown what the hub has.
    pub(super) async fn find_in_force(
        &mut self,
        store: &Store,
        before: (&Config, &str),
        after: (&Config, &str),
    ) -> Result<(Config, Config), CommandError> {
        let unknown = |problem: &dyn std::fmt::Display| {
            CommandError::new(format!("the configuration of the hub counts as well, and is unknown: {problem}"))
        };
        let layer = Box::pin(store.read_hub_layer()).await.map_err(|error| unknown(&error))?;
        let Some(layer) = layer else { return Ok((before.0.clone(), after.0.clone())) };
        // A document that is refused has been said to be so.
        let in_force = |(own, document): (&Config, &str)| match layer.combine(document) {
            Ok(ConfigWithHub { hub: HubStatus::Unknown(problem), .. }) => Err(unknown(&problem)),
            Ok(ConfigWithHub { overlay, .. }) => Ok((overlay.config, overlay.ignored)),
            Err(_) => Ok((own.clone(), Vec::new())),
        };
        let (after, ignored) = in_force(after)?;
        let (before, _) = in_force(before)?;
        self.ignored = ignored;
        Ok((before, after))
    }

    pub(super) fn ignored_lines(&self, file: &str) -> impl Iterator<Item = String> {
        self.ignored.iter().map(move |ignored| format!("{file}: {ignored}"))
    }

    /// Regions are checked against those that the account has enabled, or else only by their format.
    pub(super) async fn look_at_regions(&mut self, context: Option<&CommandContext>, config: &Config, document: &str) {
        if config.regions.is_empty() {
            return;
        }
        let enabled = match context {
            Some(context) => {
                let every = Config::default();
                let asked = tokio::time::timeout(TIMEOUT, cloud::regions(&context.aws, &every)).await;
                asked.ok().filter(|seen| seen.gaps.is_empty())
            }
            None => None,
        };
        if let Some(enabled) = enabled {
            self.mistakes
                .extend(unknown_regions(config, document, &enabled.items).into_iter().map(ConfigMistake::from));
            if let Some(context) = context {
                Box::pin(context.warn_of_left_out_regions(config, TIMEOUT)).await;
            }
            return;
        }
        for ConfigError { line, column, problem, .. } in misshapen_regions(config, document) {
            screen::warn(format!("{}:{line}:{column}: {problem}", self.file));
        }
    }

    /// Compares with the deployed configuration.
    async fn compare(&mut self, context: &CommandContext, config: &Config, text: &str) -> Result<(), CommandError> {
        let compared = async {
            let read = document::deployed(context).await.map_err(|failure| context.blame(failure))?;
            let (before, after) = match &read.store {
                Some(store) => self.find_in_force(store, (&read.config, &read.text), (config, text)).await?,
                None => (read.config, config.clone()),
            };
            Ok::<_, CommandError>((before, after, read.from))
        };
        let in_time = tokio::time::timeout(TIMEOUT, Box::pin(compared)).await;
        let (before, after, from) =
            in_time.map_err(|_| CommandError::new(format!("AWS did not answer within {TIMEOUT:?}")))??;
        self.compare_with(&before, from, &after);
        Ok(())
    }

    /// Compares with a configuration that was read from there.
    pub(super) fn compare_with(&mut self, before: &Config, from: String, config: &Config) {
        self.changes = changes(before, config).into_iter().map(ChangeOutput::from).collect();
        self.teams_lost = teams_lost(before, config).iter().map(ToString::to_string).collect();
        self.compared_with = Some(from);
    }

    pub(super) fn mistake_lines(&self, file: &str) -> impl Iterator<Item = String> {
        self.mistakes.iter().map(move |ConfigMistake { line, column, key, problem }| {
            format!("{file}:{line}:{column}: key `{key}`: {problem}")
        })
    }

    pub(super) fn note_lines(&self, file: &str) -> impl Iterator<Item = String> {
        self.notes.iter().map(move |NoteOutput { line, column, key, note }| {
            format!("{file}:{line}:{column}: note: key `{key}`: {note}")
        })
    }

    /// Its changes, and warnings about them; none if it was not compared.
    pub(super) fn change_lines(&self) -> Vec<String> {
        let Some(with) = &self.compared_with else { return Vec::new() };
        let with = if with == "defaults" { "the defaults: no configuration is deployed" } else { with };
        if self.changes.is_empty() && self.teams_lost.is_empty() {
            return vec![format!("it changes nothing, compared with {with}")];
        }
        let mut lines = vec![format!("it changes, compared with {with}:")];
        let shown = |value: &Option<Value>| value.as_ref().map_or("(absent)".to_owned(), as_toml);
        let changes = self.changes.iter();
        lines.extend(
            changes.map(|ChangeOutput { key, from, to, .. }| format!("  {key}: {} -> {}", shown(from), shown(to))),
        );
        let bewares = self.changes.iter().filter_map(|change| Some((&change.key, change.beware?)));
        lines.extend(bewares.map(|(key, beware)| format!("beware of {key}: {beware}")));
        match self.teams_lost.as_slice() {
            [] => {}
            [team] => lines.push(format!("beware: team {team} loses its entry")),
            teams => lines.push(format!("beware: teams {} lose their entry", teams.join(", "))),
        }
        lines
    }
}

fn show(found: &CheckOutput, file: &str) {
    found
        .mistake_lines(file)
        .chain(found.note_lines(file))
        .chain(found.ignored_lines(file))
        .for_each(screen::print_line);
    match found.mistakes.len() {
        0 => screen::print_line(format_args!("{file} is legal")),
        count => screen::progress(count_mistakes(count)),
    }
    found.change_lines().into_iter().for_each(screen::print_line);
}

pub(super) fn count_mistakes(count: usize) -> String {
    let more = if count >= config::MISTAKES_MAX { ", and perhaps more" } else { "" };
    format!("{}{more}", screen::counted(count.min(config::MISTAKES_MAX), "mistake"))
}
