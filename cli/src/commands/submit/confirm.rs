//! The question before a job that can cost much.

use jobs::JobSpec;
use model::config::Config;
use model::money::Amount;

use super::{SubmitOptions, SubmitOutput};
use crate::command_error::CommandError;
use crate::screen;

impl SubmitOutput<'_> {
    /// True if it may cost so much: a person is asked above `[jobs] confirm_above_usd`.
    pub(super) fn is_confirmed(
        &self,
        spec: &JobSpec,
        config: &Config,
        usd: Option<Amount>,
        options: &SubmitOptions,
    ) -> Result<bool, CommandError> {
        let most = Amount::from_usd(config.jobs.confirm_above_usd);
        let is_unknown = self.estimate.as_ref().is_none_or(|estimate| estimate.nowhere.is_some());
        match usd {
            _ if options.yes => return Ok(true),
            None if is_unknown && spec.terms.max_usd.is_none() => {
                screen::warn("what it can cost is unknown: `limits.max_usd` limits it");
                return Ok(true);
            }
            None => return Ok(true),
            Some(usd) if usd <= most => return Ok(true),
            Some(usd) => screen::propose(format!(
                "It can cost {usd} at most, which is above {most}, `[jobs] confirm_above_usd` of the configuration."
            )),
        }
        let is_confirmed = screen::confirm("Submit it?", false)?;
        if !is_confirmed {
            screen::progress("Nothing was submitted.");
        }
        Ok(is_confirmed)
    }
}
