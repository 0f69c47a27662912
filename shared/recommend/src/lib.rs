//! Recommendation of a GPU, a place, and a way to pay for it.
//!
//! [`rank_places`] orders instance types, regions and ways to buy them for a workload. [`commitment`] finds the Savings Plan that costs the
//! least for a curve of hourly spend, and [`purchase`] the hours a month from which a bought machine costs less than a rented one.
//!
//! Pure: no I/O, no async, no clock, no environment. An unknown value is `None` and is shown as unknown, and every figure has its source.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod capability;
mod catalog;
pub mod commitment;
mod gpu_request;
mod interruptions;
mod job;
mod listing;
pub mod purchase;
mod quota;
mod rank;
mod throughput;
pub mod usage;

pub use capability::{CAPABILITY_SOURCE, GpuFeature, suit_remedies};
pub use catalog::{
    GpuOffer, MachineShape, check_type, network_gbps, table_date, tabled_offers, tabled_types, untabled_types,
};
pub use gpu_request::GpuRequest;
pub use interruptions::{InterruptionHistory, Interruptions, interruption_history};
pub use job::JobDraft;
pub use listing::{ListingFacts, ListingFilter, TypeListing, TypePlace, list_types};
pub use quota::{AccountQuotas, QuotaVerdict};
pub use rank::{
    DataCost, DataPlace, FittingGpus, PlacementFacts, PlacementRequest, RankBy, RankedPlace, RunCost, RunDuration,
    S3_GBPS_MAX, rank_places,
};
pub use throughput::{
    GENERATION_SOURCE, GpuPeak, PEAKS, RunLength, TRAINING_PERCENT, TRAINING_SOURCE, TokenWork, format_length,
};
