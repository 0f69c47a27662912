//! Parts that only the command needs: credentials, the deployment, and its health. No function has this feature.

mod alarms;
mod all_tags;
mod commitments;
mod deployment;
mod dry_runs;
mod gpu_metrics;
mod identity;
mod instance_profiles;
mod invoke;
mod leftovers;
mod organization;
mod permissions;
mod query_call;
mod quotas;
mod registry;
mod restore;
mod stack;

pub use alarms::alarms;
pub use all_tags::{tagged, tagged_instances, volumes};
pub use commitments::{capacity_blocks, reserved_instances, savings_plans};
pub use deployment::{Deployment, deployment};
pub use dry_runs::dry_run_gang;
pub use gpu_metrics::{AgentAssociations, agent_associations, install_agent, running_with_tag, uninstall_agent};
pub use identity::{ConnectionError, ConnectionOptions, has_profile, named_region};
pub use instance_profiles::{has_instance_profile, machine_profiles, profile_role_arn};
pub use invoke::{Invocation, invoke};
pub use leftovers::{delete_snapshot, remove_labels, snapshots};
pub use organization::{AssumedRole, assume_role, list_accounts};
pub use permissions::{caller_arn, has_role, role_arn, simulate};
pub use quotas::quotas;
pub use registry::{RegistryError, find_digest};
pub use restore::{create_volume, snapshots_of, volumes_from};
pub use stack::{
    FailedResource, Stack, StackRequest, change_parameter, create_stack, delete_stack, first_failure, read_stack,
    stacks_named, update_stack,
};

pub use crate::observe::unattached;
pub use crate::owner::{LocateResult, ResourceKind, locate, remove_tags, start, start_notebook, write_tag};
pub use crate::sagemaker::{create_endpoint, set_copies};
