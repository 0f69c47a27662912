//! `curfew schedule rm`.

use clap::Args;
use jobs::trigger::TriggerObject;
use model::id::TeamName;
use serde::Serialize;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::submit::TeamOption;
use crate::context::CommandContext;
use crate::screen;

/// Remove a schedule; its unfinished jobs continue
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 removed; 2 there is none of that name, or an error.\n\n\
                  Example:\n  curfew schedule rm nightly --team vision")]
pub(crate) struct Rm {
    /// Name of the schedule
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    team: TeamOption,
}

/// ```json
/// {"schema": 1, "team": "vision", "name": "nightly", "removed": "triggers/vision/schedules/nightly.toml"}
/// ```
#[derive(Serialize)]
struct ScheduleRemovalOutput<'a> {
    team: &'a TeamName,
    name: &'a str,
    removed: &'a str,
}

impl Rm {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let team = self.team.find_with_jobs(&store.read_config().await?)?;
        let listed = store.list_schedules(&team).await?;
        let Some(TriggerObject { key, .. }) = listed.iter().find(|one| one.name == self.name) else {
            let names: Vec<&str> = listed.iter().map(|one| one.name.as_str()).collect();
            let others =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            return Err(CommandError::new(format!("{team} has no schedule {:?}; {others}", self.name)));
        };
        store.delete_schedule(key).await?;
        if context.global.json {
            screen::json(&ScheduleRemovalOutput { team: &team, name: &self.name, removed: key })?;
        } else {
            screen::print_line(format!("removed {key}; its unfinished jobs continue"));
        }
        Ok(CommandStatus::Success)
    }
}
