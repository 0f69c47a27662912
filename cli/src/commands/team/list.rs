//! `curfew team list`.

use clap::Args;
use operator::doctor::roles::{TeamRole, team_roles, unowned_profiles};
use serde::Serialize;
use store::{Documents as _, ReconcilerDocuments as _};

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen::{self, ColumnAlignment, Table, plain};

/// List the teams, and whether their machines have a role
#[derive(Debug, Args)]
#[command(
    after_help = "Lists the teams of the configuration, and those with any accepted job. Exit codes: 0 no team lacks a \
                  role that it needs; 1 one does; 2 an error, or an incomplete result.\n\n\
                  Example:\n  curfew team list"
)]
pub(crate) struct List {}

/// ```json
/// {"schema": 1, "teams": [{"team": "vision", "role": "curfew-job-vision", "exists": true, "is_needed": true, "problem": null,
///                          "unfinished_jobs": 2}], "others": ["curfew-job-old"]}
/// ```
/// `others` are instance profiles that are named like a team's, and belong to none.
#[derive(Serialize)]
struct TeamListOutput<'a> {
    teams: Vec<ListedTeam>,
    others: Vec<&'a str>,
}

#[derive(Serialize)]
struct ListedTeam {
    #[serde(flatten)]
    role: TeamRole,
    unfinished_jobs: usize,
}

impl List {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let config = store.read_config().await?;
        let (with_jobs, active) = (store.teams_with_jobs().await?, store.active().await?);
        let profiles = cloud::operator::machine_profiles(&context.aws).await?;
        let roles = team_roles(&config, &with_jobs, &profiles);
        let others = unowned_profiles(&roles, &profiles);
        let count = |role: &TeamRole| active.iter().filter(|job| job.team == role.team).count();
        let teams: Vec<ListedTeam> =
            roles.into_iter().map(|role| ListedTeam { unfinished_jobs: count(&role), role }).collect();
        let ending = if teams.iter().any(|one| one.role.is_missing()) {
            CommandStatus::Findings
        } else {
            CommandStatus::Success
        };
        let document = TeamListOutput { teams, others };
        if context.global.json {
            screen::json(&document)?;
        } else {
            show(&document);
        }
        Ok(ending)
    }
}

fn show(TeamListOutput { teams, others, .. }: &TeamListOutput<'_>) {
    if teams.is_empty() {
        screen::print_line("There is no team yet: the configuration names none, and no job was accepted");
    } else {
        let mut table = Table::new([
            ("team", ColumnAlignment::Left),
            ("role", ColumnAlignment::Left),
            ("jobs", ColumnAlignment::Right),
            ("state", ColumnAlignment::Left),
        ]);
        for ListedTeam { role, unfinished_jobs } in teams {
            let state = match (role.is_needed, role.exists) {
                (true, false) => "missing: its jobs are held",
                (_, true) => "exists",
                (false, false) => "not needed: the machines have the common role",
            };
            table.row([
                plain(role.team.as_str()),
                role.role.clone().unwrap_or_else(|| "none possible".to_owned()),
                unfinished_jobs.to_string(),
                state.to_owned(),
            ]);
        }
        table.print();
    }
    for other in others {
        screen::print_line(format!("{other}: an instance profile without a known team"));
    }
    let lacking = teams.iter().find(|one| one.role.is_missing() && one.role.role.is_some());
    if let Some(ListedTeam { role, .. }) = lacking {
        screen::progress(format!("Make it:  {}", model::team_role::create_team_command(&role.team)));
    }
}
