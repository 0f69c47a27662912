//! NVIDIA's management library, loaded at run time, in its own thread that answers one query at a time.

use std::fmt::Display;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use jobs::telemetry::{GPUS_MAX, GpuSample};
use model::fault::error_sentence;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use tokio::sync::oneshot;

use super::GpuFault;

const MIB: u64 = 1024 * 1024;

/// One sample of all GPUs, and for people the problems.
#[derive(Debug, Default)]
pub(super) struct GpuReading {
    pub(super) gpus: Vec<GpuSample>,
    pub(super) problems: Vec<String>,
    /// The one of them for which no GPU, or not each, can be used.
    pub(super) fault: Option<GpuFault>,
}

impl GpuReading {
    fn from_problem(problem: impl Display) -> Self {
        Self { problems: vec![problem.to_string()], ..Self::default() }
    }
}

pub(super) struct GpuSampler {
    ask: Sender<oneshot::Sender<GpuReading>>,
    /// The pending query: at most one.
    asked: Option<oneshot::Receiver<GpuReading>>,
}

impl GpuSampler {
    /// Starts the thread, which ends when this value is dropped.
    pub(super) fn begin() -> std::io::Result<Self> {
        let (ask, asked) = mpsc::channel();
        std::thread::Builder::new().name("nvml".to_owned()).spawn(move || serve_requests(&asked))?;
        Ok(Self { ask, asked: None })
    }

    /// Samples the GPUs now. If NVML is late, the next call waits for the same answer.
    pub(super) async fn read(&mut self, timeout: Duration) -> GpuReading {
        let mut answer = self.asked.take().unwrap_or_else(|| {
            let (tell, answer) = oneshot::channel();
            // If the thread is gone, so is the answer.
            let _ = self.ask.send(tell);
            answer
        });
        match tokio::time::timeout(timeout, &mut answer).await {
            Ok(Ok(look)) => look,
            Ok(Err(_)) => {
                GpuReading::from_problem("GPU metrics are no longer published: the thread that reads them has panicked")
            }
            Err(_) => {
                self.asked = Some(answer);
                GpuReading::from_problem("NVML does not answer, and GPU metrics are not published until it does")
            }
        }
    }
}

fn serve_requests(asked: &Receiver<oneshot::Sender<GpuReading>>) {
    let mut open = None;
    while let Ok(tell) = asked.recv() {
        let seen = open_library(&mut open).and_then(read_gpus).unwrap_or_else(|reading| reading);
        if seen.gpus.is_empty() {
            // Reopened the next time, because the driver may have been replaced.
            open = None;
        }
        // The caller may have stopped waiting.
        let _ = tell.send(seen);
    }
}

fn open_library(open: &mut Option<Nvml>) -> Result<&Nvml, GpuReading> {
    Ok(match open {
        Some(nvml) => nvml,
        None => open.insert(Nvml::init().map_err(|error| not_opened(&error))?),
    })
}

fn read_gpus(nvml: &Nvml) -> Result<GpuReading, GpuReading> {
    let uncounted =
        |error: NvmlError| GpuReading::from_problem(format!("the GPUs cannot be counted: {}", error_sentence(&error)));
    let count = nvml.device_count().map_err(uncounted)?;
    let mut look = match count {
        0 => GpuReading {
            fault: Some(GpuFault::of_machine("it has no NVIDIA GPU")),
            ..GpuReading::from_problem("GPU metrics are not published, because the machine has no NVIDIA GPU")
        },
        _ => GpuReading::default(),
    };
    for index in 0..count.min(GPUS_MAX) {
        match sample(nvml, index, &mut look.problems) {
            Ok(sample) => {
                let (sample, impossible) = sample.without_impossible();
                look.gpus.push(sample);
                look.problems.extend(impossible);
            }
            Err(NvmlError::GpuLost) => {
                let words = format!("GPU {index} has fallen off the bus");
                look.fault = Some(GpuFault::of_machine(&words));
                look.problems.push(words);
            }
            Err(error) => look.problems.push(format!("GPU {index} cannot be read: {}", error_sentence(&error))),
        }
    }
    Ok(look)
}

/// The image of a machine has no library, so another machine of it would have none. What the library says is of the machine.
fn not_opened(error: &NvmlError) -> GpuReading {
    let (why, is_of_machine) = match error {
        NvmlError::LibloadingError(error) => (format!("NVIDIA's library cannot be loaded: {error}"), false),
        error => (format!("NVML cannot be started: {}", error_sentence(error)), true),
    };
    let remedy = if is_of_machine { "" } else { " (name an image with NVIDIA's driver by machine.ami)" };
    let fault = Some(GpuFault { words: format!("{why}{remedy}"), is_of_machine });
    GpuReading { fault, ..GpuReading::from_problem(format!("GPU metrics are not published, because {why}")) }
}

/// The figures of one GPU, and why others are missing.
fn sample(nvml: &Nvml, index: u32, problems: &mut Vec<String>) -> Result<GpuSample, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let mut or_problem = |what: &str, read: Result<u32, NvmlError>| match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ NvmlError::GpuLost) => Err(error),
        Err(error) => {
            problems.push(format!("GPU {index} does not report its {what}: {}", error_sentence(&error)));
            Ok(None)
        }
    };
    Ok(GpuSample {
        index,
        utilization_percent: or_problem("utilisation", device.utilization_rates().map(|rates| rates.gpu))?,
        memory_used_mib: or_problem("memory", memory_used_mib(&device))?,
        power_milliwatts: or_problem("power", device.power_usage())?,
        name: device.name().ok(),
    })
}

fn memory_used_mib(device: &Device<'_>) -> Result<u32, NvmlError> {
    Ok(u32::try_from(device.memory_info()?.used / MIB).unwrap_or(u32::MAX))
}
