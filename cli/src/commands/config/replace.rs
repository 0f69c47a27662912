//! Replaces the deployed configuration: checked, shown, confirmed, and only over the document that was shown.

use model::config::{self, Config, changes};
use operator::config_effects::describe_by_team;
use serde::Serialize;
use store::{ConfigObject, Store, StoreError};

use super::check::{CheckOutput, count_mistakes};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::{CommandContext, DeployedResources};
use crate::screen;
use crate::world;

/// The most earlier documents that are kept.
const KEPT_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplacementReason {
    Apply,
    Rollback,
}

/// A document that is to be the configuration.
pub(super) struct Replacement<'a> {
    pub(super) context: &'a CommandContext,
    pub(super) deployed: DeployedResources,
    /// Its file or object, for people.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) reason: ReplacementReason,
}

/// `outcome` is `applied` or `rolled-back`; `unchanged`; `refused` for its mistakes; `declined` if the person said no.
#[derive(Serialize)]
struct ReplacementOutput<'a> {
    #[serde(flatten)]
    check: &'a CheckOutput,
    outcome: &'static str,
    /// The address of the configuration.
    at: String,
    /// The key of the document that was replaced.
    previous: Option<String>,
    /// One line for each team or group that it concerns.
    effects: Vec<String>,
}

impl Replacement<'_> {
    pub(super) async fn carry_out(self, yes: bool) -> Result<CommandStatus, CommandError> {
        let mut check = CheckOutput::from_bytes(self.name.clone(), &self.bytes);
        let text = String::from_utf8_lossy(&self.bytes);
        let Ok(config) = Config::read_bytes(&self.bytes) else { return self.refuse(&check) };
        check.look_at_regions(Some(self.context), &config, &text).await;
        if !check.mistakes.is_empty() {
            return self.refuse(&check);
        }
        let before = self.deployed.store.find_config().await?;
        if before.as_ref().is_some_and(|before| before.bytes == self.bytes) {
            return self.show(&check, "unchanged", None, Vec::new());
        }
        let effects = Box::pin(self.compare(&mut check, before.as_ref(), (&config, &text))).await;
        let lines = check.note_lines(&self.name).chain(check.ignored_lines(&self.name)).chain(check.change_lines());
        lines.chain(effects.iter().map(|effect| format!("concerns {effect}"))).for_each(screen::propose);
        if !screen::confirm(format!("Make {} the configuration of all runs from now on?", self.name), yes)? {
            return self.show(&check, "declined", None, effects);
        }
        let previous = self.write(before.as_ref()).await?;
        let outcome = match self.reason {
            ReplacementReason::Apply => "applied",
            ReplacementReason::Rollback => "rolled-back",
        };
        self.show(&check, outcome, previous, effects)
    }

    /// The effects of the changes in what is in force, by team. A deployed document with mistakes is compared with nothing: no run acts by it.
    async fn compare(
        &self,
        check: &mut CheckOutput,
        before: Option<&ConfigObject>,
        after: (&Config, &str),
    ) -> Vec<String> {
        let before_text = before.map(|before| String::from_utf8_lossy(&before.bytes)).unwrap_or_default();
        let (before, from) = match before.map(|before| Config::read_bytes(&before.bytes)) {
            None => (Config::default(), "defaults".to_owned()),
            Some(Ok(before)) => (before, self.address()),
            Some(Err(error)) => {
                let problem = format!(
                    "not compared: the deployed configuration is refused, and no run acts on anything: {error}"
                );
                screen::warn(problem);
                return Vec::new();
            }
        };
        let store = &self.deployed.store;
        let (before, after) = match check.find_in_force(store, (&before, &before_text), after).await {
            Ok(in_force) => in_force,
            Err(error) => {
                screen::warn(format!("not compared: {}", error.problem));
                return Vec::new();
            }
        };
        check.compare_with(&before, from, &after);
        describe_by_team(&before, &after, &changes(&before, &after))
    }

    /// Keeps the document that is replaced before it writes the new one, so that an interruption loses nothing. Returns the key of the former.
    async fn write(&self, before: Option<&ConfigObject>) -> Result<Option<String>, CommandError> {
        let store = &self.deployed.store;
        let previous = match before {
            Some(before) => Some(store.keep_previous_config(&before.bytes, world::clock()).await?),
            None => None,
        };
        let last = before.and_then(|before| before.etag.as_deref());
        store.replace_config(&self.bytes, last).await.map_err(|error| match error {
            StoreError::Lost { .. } => CommandError::with(
                format!("{} was changed since it was shown; nothing was written", self.address()),
                "run the command again: it shows what it would change now",
            ),
            other => other.into(),
        })?;
        if let Err(error) = forget_oldest(store).await {
            screen::warn(format!("more than {KEPT_MAX} earlier configurations are kept: {error}"));
        }
        Ok(previous)
    }

    fn refuse(&self, check: &CheckOutput) -> Result<CommandStatus, CommandError> {
        if self.context.global.json {
            return self.show(check, "refused", None, Vec::new());
        }
        check.mistake_lines(&self.name).for_each(screen::print_line);
        screen::progress(format!("{}; nothing was changed", count_mistakes(check.mistakes.len())));
        Ok(CommandStatus::Findings)
    }

    fn show(
        &self,
        check: &CheckOutput,
        outcome: &'static str,
        previous: Option<String>,
        effects: Vec<String>,
    ) -> Result<CommandStatus, CommandError> {
        let at = self.address();
        if self.context.global.json {
            screen::json(&ReplacementOutput { check, outcome, at, previous, effects })?;
        } else {
            screen::print_line(match outcome {
                "applied" | "rolled-back" => format!("{at} is {} from the next run on", self.name),
                "declined" => format!("{at} is as it was, it was not confirmed"),
                _ => format!("{at} is {} already (unchanged)", self.name),
            });
            if previous.is_some() {
                screen::progress("Take it back:  curfew config rollback");
            }
        }
        let is_done = matches!(outcome, "applied" | "rolled-back" | "unchanged");
        Ok(if is_done { CommandStatus::Success } else { CommandStatus::Findings })
    }

    fn address(&self) -> String {
        format!("s3://{}/{}", self.deployed.bucket, config::KEY)
    }
}

async fn forget_oldest(store: &Store) -> Result<(), StoreError> {
    for key in store.previous_configs().await?.iter().skip(KEPT_MAX) {
        store.delete_previous_config(key).await?;
    }
    Ok(())
}
