//! One launch.

use domain::instance::Tags;
use domain::job::{Launch, LaunchAnswer, Terms};

use crate::aws::Aws;

/// All that a launch request says.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Where, of what, by which token, until when.
    pub launch: &'a Launch,
    /// Security groups and the size of the root volume.
    pub terms: &'a Terms,
    /// For the instance, and for its volumes.
    pub tags: &'a Tags,
    /// As the machine reads it: not in base64.
    pub user_data: &'a str,
    /// The instance profile, by name.
    pub profile: &'a str,
}

/// Launches, and says what came of it. Never fails in any other way: what nobody knows is [`LaunchAnswer::Unknown`].
pub async fn launch(_aws: &Aws, order: &Order<'_>) -> LaunchAnswer {
    LaunchAnswer::Unknown(format!("{} was not asked for", order.launch.token))
}
