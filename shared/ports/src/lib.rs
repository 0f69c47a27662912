//! The seam between a run and the outside world: what a run asks of AWS and of the state bucket, as traits, and how that fails.
//!
//! Each trait has two implementors, except for those of the report of a month. `cloud::Aws` and `store::Store` reach AWS; the simulated
//! accounts of `shared/execution/tests` keep everything in memory. The run itself is written once, in `execution`.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![expect(async_fn_in_trait, reason = "every run stays on one thread, so no future has to be Send")]

pub mod aws_words;
mod call_error;
mod cloud;
mod documents;
mod hub;
mod job_cloud;
mod job_documents;
mod job_folders;
mod month_report;
mod store_error;

pub use call_error::{CallError, CallErrorKind, SNAPSHOT_LIMITS, SPOT_ROLE_MISSING, gaps};
pub use cloud::{
    Answered, BudgetCloud, Cloud, Ec2Write, Hosts, InstanceCloud, PriceCloud, SageMakerCloud, SageMakerWrite,
    VolumeCloud,
};
pub use documents::{ActivityDocuments, AuditDocuments, BudgetDocuments, Documents, LedgerDocuments, Versioned};
pub use hub::{FiguresDocuments, HubDocuments, NoHub};
pub use job_cloud::{GroupOrder, JobCloud, VcpuQuotaExceeded};
pub use job_documents::{JobDocuments, MachineDocument, MachineDocuments, ReceivedHeartbeat, ReconcilerDocuments};
pub use job_folders::{BacklogDocuments, InboxDocuments, SweepDocuments, TriggerDocuments};
pub use month_report::{ReportCloud, ReportDocuments};
pub use store_error::{CallAdvice, ConfigLoadError, StoreError, action};
