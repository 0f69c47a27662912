//! A spec as it is written: of the right shape, and not judged yet.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use model::document::DocumentKind;
use model::duration;
use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest document that is read, in bytes: a spec is written by hand, and its command is a line of an agent's own.
pub(super) const BYTES_MAX: usize = 64 * 1024;

pub(super) const DOCUMENT: DocumentKind = DocumentKind { bytes_max: BYTES_MAX, every_key };

/// The whole document.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSpec {
    pub(super) name: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) command: Option<String>,
    pub(super) setup: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) container: Option<String>,
    pub(super) workdir: Option<String>,
    pub(super) retries: Option<u32>,
    pub(super) after: Vec<String>,
    pub(super) resume_from: Option<String>,
    /// Its keys are people's own, so it is read where it stands in the document.
    pub(super) sweep: Option<IgnoredAny>,
    pub(super) member: Option<u32>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) gpu: RawGpu,
    pub(super) network: RawNetwork,
    pub(super) spot: RawSpot,
    pub(super) limits: RawLimits,
    pub(super) checkpoint: Option<RawCheckpoint>,
    #[serde(rename = "box")]
    pub(super) gpu_box: Option<RawBox>,
    pub(super) inputs: Vec<RawInput>,
    pub(super) machine: RawMachine,
}

/// `[gpu]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawGpu {
    pub(super) count: Option<u32>,
    pub(super) nodes: Option<u8>,
    pub(super) name: Option<String>,
    pub(super) memory_gib_min: Option<u32>,
    pub(super) types: Vec<String>,
    pub(super) model: Option<RawModel>,
}

/// `[network]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawNetwork {
    pub(super) efa: Option<String>,
    pub(super) placement: Option<String>,
}

/// `[gpu.model]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawModel {
    pub(super) params: Option<String>,
    pub(super) active: Option<String>,
    /// The keys of a `config.json`.
    pub(super) hf_config: Option<serde_json::Map<String, serde_json::Value>>,
    pub(super) task: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) batch: Option<u32>,
    #[serde(deserialize_with = "some_tokens")]
    pub(super) tokens: Option<String>,
    pub(super) optimizer: Option<String>,
    pub(super) gradient_checkpointing: bool,
    pub(super) lora_rank: Option<u32>,
    #[serde(deserialize_with = "some_tokens")]
    pub(super) prefill_chunk: Option<String>,
    pub(super) pure_bf16: bool,
    pub(super) fused_loss: bool,
    pub(super) offload: Option<String>,
}

/// `[spot]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSpot {
    pub(super) enabled: Option<bool>,
    pub(super) max_usd_per_hour: Option<f64>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) fallback_to_on_demand_after: Option<SignedDuration>,
}

/// `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    #[serde(deserialize_with = "some_duration")]
    pub(super) max_runtime: Option<SignedDuration>,
    #[serde(deserialize_with = "some_moment")]
    pub(super) finish_by: Option<String>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) within: Option<SignedDuration>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) estimated_runtime: Option<SignedDuration>,
    pub(super) max_usd: Option<f64>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) idle: Option<SignedDuration>,
    pub(super) max_usd_per_hour: Option<f64>,
}

/// `[checkpoint]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCheckpoint {
    pub(super) dir: Option<String>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) every: Option<SignedDuration>,
    pub(super) keep: Option<u32>,
    pub(super) size_gb: Option<u32>,
    pub(super) total_steps: Option<u64>,
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    pub(super) signal: Option<String>,
}

/// `[box]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBox {
    pub(super) public_key: Option<String>,
    pub(super) home_gib: Option<u32>,
    #[serde(deserialize_with = "some_duration")]
    pub(super) idle: Option<SignedDuration>,
    #[serde(deserialize_with = "some_moment")]
    pub(super) until: Option<String>,
    #[serde(rename = "for", deserialize_with = "some_duration")]
    pub(super) lasts: Option<SignedDuration>,
    pub(super) remove: Option<String>,
}

/// One of `[[inputs]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawInput {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) mode: Option<String>,
}

/// `[machine]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMachine {
    pub(super) regions: Vec<String>,
    pub(super) ami: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) subnets: Vec<String>,
    pub(super) security_groups: Vec<String>,
    pub(super) instance_profile: Option<String>,
    pub(super) root_volume_gib: Option<u32>,
    pub(super) vcpus: Option<u32>,
    pub(super) memory_gib: Option<u32>,
    pub(super) types: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) outputs: Vec<String>,
    pub(super) metadata: bool,
}

/// Every key that there is; `shared/jobs/tests/jobs_page.rs` asks the parser whether these are all.
fn every_key() -> Vec<String> {
    let sections: [(&str, &[&str]); 9] = [
        (
            "",
            &[
                "name",
                "owner",
                "command",
                "setup",
                "container",
                "workdir",
                "inputs",
                "retries",
                "after",
                "resume_from",
                "box",
                "sweep",
                "member",
                "tags",
                "env",
                "secrets",
            ],
        ),
        ("gpu.", &["count", "nodes", "name", "memory_gib_min", "types", "model"]),
        (
            "gpu.model.",
            &[
                "params",
                "active",
                "hf_config",
                "task",
                "precision",
                "batch",
                "tokens",
                "optimizer",
                "gradient_checkpointing",
                "lora_rank",
                "prefill_chunk",
                "pure_bf16",
                "fused_loss",
                "offload",
            ],
        ),
        ("network.", &["efa", "placement"]),
        ("spot.", &["enabled", "max_usd_per_hour", "fallback_to_on_demand_after"]),
        (
            "limits.",
            &["max_runtime", "finish_by", "within", "estimated_runtime", "max_usd", "max_usd_per_hour", "idle"],
        ),
        ("checkpoint.", &["dir", "every", "keep", "size_gb", "total_steps", "include", "exclude", "signal"]),
        ("box.", &["public_key", "home_gib", "idle", "until", "for", "remove"]),
        (
            "machine.",
            &[
                "regions",
                "ami",
                "architecture",
                "subnets",
                "security_groups",
                "instance_profile",
                "root_volume_gib",
                "vcpus",
                "memory_gib",
                "types",
                "user",
                "outputs",
                "metadata",
            ],
        ),
    ];
    sections.iter().flat_map(|(section, keys)| keys.iter().map(move |key| format!("{section}{key}"))).collect()
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SignedDuration>, D::Error> {
    duration::deserialize(deserializer).map(Some)
}

/// A moment as a text, or as TOML's own offset date-time.
fn some_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(TimestampVisitor).map(Some)
}

struct TimestampVisitor;

impl Visitor<'_> for TimestampVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment such as `2026-12-24T18:00:00+01:00`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// A number of tokens as a text such as `8k`, or as a number.
fn some_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(TokensVisitor).map(Some)
}

struct TokensVisitor;

impl Visitor<'_> for TokensVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens such as `4096` or `8k`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
