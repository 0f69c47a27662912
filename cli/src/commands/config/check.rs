//! `curfew config check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::config;
use model::config::{
    Config, ConfigChange, ConfigError, ConfigNote, as_toml, changes, misshapen_regions, mistakes, notes, teams_lost,
    unknown_regions,
};
use serde::Serialize;
use serde_json::Value;

use super::document;
use crate::arguments::Global;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
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
}

#[derive(Serialize)]
struct CheckOutput {
    schema: u32,
    file: String,
    mistakes: Vec<ConfigMistake>,
    /// Legal entries that have no effect, or a smaller one than expected.
    notes: Vec<NoteOutput>,
    /// Null if it was not compared.
    compared_with: Option<String>,
    changes: Vec<ChangeOutput>,
    /// Teams that the other configuration has, and this one lacks.
    teams_lost: Vec<String>,
}

#[derive(Serialize)]
struct ConfigMistake {
    line: usize,
    column: usize,
    key: String,
    problem: String,
}

#[derive(Serialize)]
struct NoteOutput {
    line: usize,
    column: usize,
    key: String,
    note: String,
}

#[derive(Serialize)]
struct ChangeOutput {
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
    pub(super) async fn run(self, global: Global) -> Result<CommandStatus, CommandError> {
        let as_json = global.json;
        let bytes = document::read(&self.file)?;
        let mut found = CheckOutput {
            schema: screen::SCHEMA,
            file: self.file.display().to_string(),
            mistakes: mistakes(&bytes).into_iter().map(ConfigMistake::from).collect(),
            notes: Vec::new(),
            compared_with: None,
            changes: Vec::new(),
            teams_lost: Vec::new(),
        };
        if let Ok(config) = Config::read_bytes(&bytes) {
            let text = String::from_utf8_lossy(&bytes);
            found.notes = notes(&config, &text).into_iter().map(NoteOutput::from).collect();
            let context = CommandContext::connect(global).await;
            let context = context.as_ref();
            found.look_at_regions(context.ok(), &config, &text).await;
            let compared = match context {
                Ok(context) => found.compare(context, &config).await.map_err(|failure| failure.problem),
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
    /// Regions are checked against those that the account has enabled, or else only by their format.
    async fn look_at_regions(&mut self, context: Option<&CommandContext>, config: &Config, document: &str) {
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
            return;
        }
        for ConfigError { line, column, problem, .. } in misshapen_regions(config, document) {
            screen::warn(format!("{}:{line}:{column}: {problem}", self.file));
        }
    }

    /// Compares with the deployed configuration.
    async fn compare(&mut self, context: &CommandContext, config: &Config) -> Result<(), CommandError> {
        let deployed = async { document::deployed(context).await.map_err(|failure| context.blame(failure)) };
        let in_time = tokio::time::timeout(TIMEOUT, deployed).await;
        let deployed = in_time.map_err(|_| CommandError::new(format!("AWS did not answer within {TIMEOUT:?}")))??;
        self.changes = changes(&deployed.config, config).into_iter().map(ChangeOutput::from).collect();
        self.teams_lost = teams_lost(&deployed.config, config).iter().map(ToString::to_string).collect();
        self.compared_with = Some(deployed.from);
        Ok(())
    }
}

fn show(found: &CheckOutput, file: &str) {
    for ConfigMistake { line, column, key, problem } in &found.mistakes {
        screen::print_line(format_args!("{file}:{line}:{column}: key `{key}`: {problem}"));
    }
    for NoteOutput { line, column, key, note } in &found.notes {
        screen::print_line(format_args!("{file}:{line}:{column}: note: key `{key}`: {note}"));
    }
    match found.mistakes.len() {
        0 => screen::print_line(format_args!("{file} is legal")),
        1 => screen::progress("1 mistake"),
        config::MISTAKES_MAX.. => screen::progress(format_args!("{} mistakes, and perhaps more", config::MISTAKES_MAX)),
        count => screen::progress(format_args!("{count} mistakes")),
    }
    let Some(with) = &found.compared_with else { return };
    let with = if with == "defaults" { "the defaults: no configuration is deployed" } else { with };
    if found.changes.is_empty() && found.teams_lost.is_empty() {
        return screen::print_line(format_args!("it changes nothing, compared with {with}"));
    }
    screen::print_line(format_args!("it changes, compared with {with}:"));
    let shown = |value: &Option<Value>| value.as_ref().map_or("(absent)".to_owned(), as_toml);
    for ChangeOutput { key, from, to, .. } in &found.changes {
        screen::print_line(format_args!("  {key}: {} -> {}", shown(from), shown(to)));
    }
    for ChangeOutput { key, beware, .. } in &found.changes {
        if let Some(beware) = beware {
            screen::print_line(format_args!("beware of {key}: {beware}"));
        }
    }
    match found.teams_lost.as_slice() {
        [] => {}
        [team] => screen::print_line(format_args!("beware: team {team} loses its entry")),
        teams => screen::print_line(format_args!("beware: teams {} lose their entry", teams.join(", "))),
    }
}
