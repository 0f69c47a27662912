//! `curfew config rollback`.

use clap::Args;
use model::config;
use store::{PREVIOUS_CONFIGS, Store};

use super::replace::{Replacement, ReplacementReason};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;

/// The most names that an error lists.
const LISTED_MAX: usize = 5;

/// Put the configuration back that the last `curfew config apply` replaced
///
/// It shows what that changes, and asks. The present document is kept in turn, so a second rollback undoes the first.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes and permissions are those of curfew config apply.\n\nExample:\n  curfew config rollback"
)]
pub(crate) struct Rollback {
    /// An earlier document: the time in its name, below config/previous/ [default: the newest that differs]
    #[arg(value_name = "TIME")]
    time: Option<String>,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
}

impl Rollback {
    pub(super) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let context = CommandContext::connect(global).await?;
        let done = async {
            let deployed = context.needs_deployed().await?;
            let (key, bytes) = self.find(&deployed.store).await?;
            let (name, reason) = (format!("s3://{}/{key}", deployed.bucket), ReplacementReason::Rollback);
            Replacement { context: &context, deployed, name, bytes, reason }.carry_out(self.yes).await
        };
        Box::pin(done).await.map_err(|failure| context.blame(failure))
    }

    /// The key of the document, and its content.
    async fn find(&self, store: &Store) -> Result<(String, Vec<u8>), CommandError> {
        let keys = store.previous_configs().await?;
        if let Some(time) = &self.time {
            let wanted = format!(
                "{PREVIOUS_CONFIGS}{}.toml",
                time.trim_start_matches(PREVIOUS_CONFIGS).trim_end_matches(".toml")
            );
            let found = if keys.contains(&wanted) { store.read_previous_config(&wanted).await? } else { None };
            return found.map(|bytes| (wanted, bytes)).ok_or_else(|| unknown_time(time, &keys));
        }
        let present = store.find_config().await?.map(|object| object.bytes);
        for key in keys {
            if let Some(bytes) = store.read_previous_config(&key).await?
                && present.as_ref() != Some(&bytes)
            {
                return Ok((key, bytes));
            }
        }
        Err(CommandError::with(
            format!("there is no earlier configuration below {PREVIOUS_CONFIGS}"),
            format!("curfew config apply keeps what it replaces; without {} the defaults apply", config::KEY),
        ))
    }
}

fn unknown_time(time: &str, keys: &[String]) -> CommandError {
    let times = keys.iter().filter_map(|key| key.strip_prefix(PREVIOUS_CONFIGS)?.strip_suffix(".toml"));
    let known: Vec<&str> = times.take(LISTED_MAX).collect();
    let known =
        if known.is_empty() { "there are none".to_owned() } else { format!("the newest are {}", known.join(", ")) };
    CommandError::with(format!("there is no earlier configuration of {time:?}"), known)
}
