//! The options of every command.

use clap::Args;

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// Use this profile of the AWS configuration files [default: as the AWS CLI]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use the deployment in this region [default: as the AWS CLI]
    #[arg(long, global = true, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Use this CloudFormation stack of Curfew
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "CURFEW_STACK",
        default_value = "curfew",
        hide_env_values = true
    )]
    pub(crate) stack: String,
    /// Use this state bucket [default: the stack's]
    #[arg(long, global = true, value_name = "NAME", env = "CURFEW_BUCKET", hide_env_values = true)]
    pub(crate) bucket: Option<String>,
    /// Use this topic for messages [default: the stack's]
    #[arg(long, global = true, value_name = "ARN", env = "CURFEW_TOPIC_ARN", hide_env_values = true)]
    pub(crate) topic_arn: Option<String>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}
