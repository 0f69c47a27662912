//! Assumptions behind an estimate, for people.

use crate::architecture::{ArchitectureBasis, PublishedFormat};
use crate::estimate::Sizing;
use crate::memory::to_gib;
use crate::precision::Precision;
use crate::workload::{Offload, Task};

pub(super) fn assumptions(sizing: &Sizing<'_>) -> Vec<String> {
    let (architecture, workload) = (sizing.architecture, sizing.workload);
    let mut assumptions = architecture.notes.clone();
    assumptions.extend(shape(sizing));
    assumptions.extend(format_of_weights(sizing));
    if let Some(most) = architecture.context_max.filter(|most| u64::from(workload.tokens) > *most) {
        assumptions.push(format!("{} tokens, though the model was made for {most} at most", workload.tokens));
    }
    if sizing.reads_in_pieces() {
        assumptions.push(format!(
            "a prompt is read {} tokens at a time, as vLLM and SGLang do, with logits of its last token; set the prefill chunk for a program \
             that reads more at once",
            workload.prefill_chunk
        ));
    }
    assumptions.extend(training(sizing));
    assumptions
}

fn shape(sizing: &Sizing<'_>) -> Vec<String> {
    let ArchitectureBasis::Assumed { active, like, .. } = sizing.architecture.basis else { return Vec::new() };
    let shape = format!("layers, heads and vocabulary are those of {like}; a config.json of the model says its own");
    let kind = match active {
        Some(_) => "the model is a decoder of text with experts in all layers",
        None => {
            "the model is a decoder of text, and each token passes through all parameters; of a mixture of experts say how many are active \
             (`active`)"
        }
    };
    vec![shape, kind.to_owned()]
}

fn format_of_weights(sizing: &Sizing<'_>) -> Option<String> {
    let workload = sizing.workload;
    let precision = workload.precision;
    match &sizing.architecture.published {
        PublishedFormat::Quantized(weights) if workload.as_published => Some(format!(
            "the weights are as the file keeps them: {}; `precision` counts another format",
            weights.description
        )),
        PublishedFormat::Quantized(weights) => {
            Some(format!("the file keeps its weights in {}; {precision} is counted instead", weights.description))
        }
        PublishedFormat::Unknown(_) => {
            Some(format!("the file keeps its weights in a format that is not known; {precision} is counted instead"))
        }
        PublishedFormat::Plain(Some(Precision::Fp32))
            if workload.task == Task::Inference && precision != Precision::Fp32 =>
        {
            Some(format!(
                "the file keeps its weights in fp32, 4 bytes each; {precision} is counted, as servers load them; `precision` `fp32` counts \
                 them as they are"
            ))
        }
        PublishedFormat::Plain(_) => None,
    }
}

fn training(sizing: &Sizing<'_>) -> Vec<String> {
    let workload = sizing.workload;
    if !workload.task.is_training() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if !workload.master_weights {
        lines.push("weights, gradients and the optimizer's states are all in 16 bits".to_owned());
    }
    if let Some(offload) = workload.offload {
        let what = match offload {
            Offload::Optimizer => "gradients and the optimizer's states",
            Offload::Weights => "weights, gradients and the optimizer's states",
        };
        lines.push(format!(
            "{what} take {:.1} GiB of the machine's memory, all GPUs together; each step is slower",
            to_gib(sizing.host().bytes)
        ));
    }
    lines.push(
        "measured runs took up to a fifth more than such an estimate, by fragmentation and buffers for communication"
            .to_owned(),
    );
    lines
}
