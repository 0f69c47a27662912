//! `[gpu] model`: a model instead of a size.

use std::fmt::Display;
use std::str::FromStr;

use sizing::{
    BATCH_MAX, LORA_RANK_MAX, ModelArchitecture, Offload, Parallelism, Precision, Strategy, Task, TaskSetting,
    estimate, gpu_gb_min, host_gib_min, read_hf_config, read_mixture, read_params, read_tokens, smallest_parallelism,
};

use crate::spec::judge::SpecValidator;
use crate::spec::written::RawModel;
use crate::spec::{ModelSizing, checks};

/// A100 and H100: the largest GPU that EC2 also sells one at a time (EC2 instance types, p5.4xlarge).
const GPU_BYTES_USUAL: u64 = 80 << 30;

/// No machine with such GPUs has more (EC2 instance types, "Accelerated computing").
const GPUS_OF_MACHINE: u32 = 8;

impl SpecValidator<'_> {
    /// `count`: how many GPUs the job asks for.
    pub(super) fn model(&mut self, model: &RawModel, count: Option<u32>) -> Option<ModelSizing> {
        let architecture = self.architecture(model);
        let workload = self.workload(model, architecture.as_ref());
        let (architecture, workload) = (architecture?, workload?);
        let strategy = if workload.task.is_training() { Strategy::Zero3 } else { Strategy::Tensor };
        let parallelism = count.map_or_else(
            || {
                smallest_parallelism(&architecture, &workload, GPU_BYTES_USUAL, 1)
                    .filter(|parallelism| parallelism.gpus <= GPUS_OF_MACHINE)
                    .unwrap_or(Parallelism::new(strategy, GPUS_OF_MACHINE))
            },
            |count| Parallelism::new(strategy, count),
        );
        let path = ["gpu", "model"];
        let estimate = match estimate(&architecture, &workload, parallelism) {
            Ok(estimate) => estimate,
            Err(problem) => {
                self.refuse(&path, &problem.to_string());
                return None;
            }
        };
        let gb = gpu_gb_min(&estimate);
        let Some(gpu_gb_min) = u32::try_from(gb).ok().filter(|gb| *gb <= checks::GPU_MEMORY_GIB_MAX) else {
            let problem = format!(
                "it needs {gb} GB on each of {} GPUs, more than any GPU has; use a lower precision, a shorter sequence, or LoRA",
                parallelism.gpus
            );
            self.refuse(&path, &problem);
            return None;
        };
        let gib = host_gib_min(&estimate);
        let Some(host_gib_min) = u32::try_from(gib).ok().filter(|gib| *gib <= checks::MEMORY_GIB_MAX) else {
            self.refuse(&["gpu", "model", "offload"], &format!("it needs {gib} GiB of the machine, more than any has"));
            return None;
        };
        let (task, precision) = (workload.task, workload.precision);
        Some(ModelSizing { model: architecture.name, task, precision, gpu_gb_min, host_gib_min, estimate })
    }

    fn architecture(&mut self, model: &RawModel) -> Option<ModelArchitecture> {
        if model.active.is_some() && model.params.is_none() {
            let problem =
                "it belongs to `params`: a configuration file says itself how many experts are active; leave it out";
            self.refuse(&["gpu", "model", "active"], problem);
        }
        let (key, read) = match (&model.params, &model.hf_config) {
            (Some(params), None) => {
                let read =
                    model.active.as_ref().map_or_else(|| read_params(params), |active| read_mixture(params, active));
                ("params", read.map_err(|problem| problem.to_string()))
            }
            (None, Some(config)) => {
                let text = serde_json::Value::Object(config.clone()).to_string();
                ("hf_config", read_hf_config(&text).map_err(|problem| problem.to_string()))
            }
            (Some(_), Some(_)) => {
                self.refuse(
                    &["gpu", "model", "params"],
                    "`hf_config` says the same in another way; leave one of them out",
                );
                return None;
            }
            (None, None) => {
                let problem = "it is missing: write `params = \"7b\"`, or the keys of a config.json under `hf_config`";
                self.report_missing(&["gpu", "model", "params"], problem);
                return None;
            }
        };
        read.map_err(|problem| self.refuse(&["gpu", "model", key], &problem)).ok()
    }

    fn workload(&mut self, model: &RawModel, architecture: Option<&ModelArchitecture>) -> Option<sizing::Workload> {
        let Some(task) = &model.task else {
            let names: Vec<String> = Task::ALL.iter().map(|task| format!("`{task}`")).collect();
            let problem = format!("it is missing: write one of {}", names.join(", "));
            self.report_missing(&["gpu", "model", "task"], &problem);
            return None;
        };
        let task: Option<Task> = self.named("task", task);
        let precision: Option<Option<Precision>> =
            model.precision.as_deref().map_or(Some(None), |name| self.named("precision", name).map(Some));
        let (task, precision) = (task?, precision?);
        self.check_settings(model, task);
        let defaults = match architecture {
            Some(architecture) => sizing::Workload::for_model(task, precision, architecture)
                .map_err(|problem| self.refuse(&["gpu", "model", "precision"], &problem.to_string()))
                .ok()?,
            None => sizing::Workload::new(task, precision.unwrap_or(Precision::Bf16)),
        };
        let optimizer =
            model.optimizer.as_deref().map_or(Some(defaults.optimizer), |name| self.named("optimizer", name));
        let tokens = self.tokens("tokens", model.tokens.as_deref(), defaults.tokens);
        let prefill_chunk = self.tokens("prefill_chunk", model.prefill_chunk.as_deref(), defaults.prefill_chunk);
        let offload: Option<Option<Offload>> =
            model.offload.as_deref().map_or(Some(None), |name| self.named("offload", name).map(Some));
        let batch = self.number("batch", model.batch, defaults.batch, BATCH_MAX);
        let lora_rank = self.number("lora_rank", model.lora_rank, defaults.lora_rank, LORA_RANK_MAX);
        Some(sizing::Workload {
            batch: batch?,
            lora_rank: lora_rank?,
            tokens: tokens?,
            optimizer: optimizer?,
            gradient_checkpointing: model.gradient_checkpointing,
            prefill_chunk: prefill_chunk?,
            master_weights: !model.pure_bf16,
            fused_loss: model.fused_loss,
            offload: offload?,
            ..defaults
        })
    }

    /// Refuses keys that the task does not use.
    fn check_settings(&mut self, model: &RawModel, task: Task) {
        let settings = [
            ("prefill_chunk", model.prefill_chunk.is_some(), TaskSetting::PrefillChunk),
            ("pure_bf16", model.pure_bf16, TaskSetting::PureBf16),
            ("fused_loss", model.fused_loss, TaskSetting::FusedLoss),
            ("offload", model.offload.is_some(), TaskSetting::Offload),
        ];
        for (key, _, setting) in settings.into_iter().filter(|(_, is_written, _)| *is_written) {
            if let Err(problem) = setting.check_used(key, task) {
                self.refuse(&["gpu", "model", key], &problem.to_string());
            }
        }
    }

    fn tokens(&mut self, key: &str, text: Option<&str>, default: u32) -> Option<u32> {
        match text.map(read_tokens) {
            None => Some(default),
            Some(read) => read.map_err(|problem| self.refuse(&["gpu", "model", key], &problem.to_string())).ok(),
        }
    }

    /// Reads a number from 1 to `most`.
    fn number(&mut self, key: &str, value: Option<u32>, default: u32, most: u32) -> Option<u32> {
        let number = self.some(&["gpu", "model", key], value, default, [1, most]);
        (1..=most).contains(&number).then_some(number)
    }

    /// One of the names that a key may have.
    fn named<T: FromStr<Err: Display>>(&mut self, key: &str, name: &str) -> Option<T> {
        name.parse().map_err(|problem: T::Err| self.refuse(&["gpu", "model", key], &problem.to_string())).ok()
    }
}
