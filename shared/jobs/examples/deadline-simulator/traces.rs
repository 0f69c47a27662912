//! Availability by step: as it was, or as it might be.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// Availability of Spot, by step.
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) is_available: Vec<bool>,
}

#[derive(Deserialize)]
struct TraceDocument {
    metadata: Metadata,
    data: Vec<u8>,
}

#[derive(Deserialize)]
struct Metadata {
    gap_seconds: f64,
}

impl Trace {
    #[expect(clippy::cast_precision_loss, reason = "a trace has thousands of steps")]
    pub(crate) fn share_available(&self) -> f64 {
        self.is_available.iter().filter(|is_available| **is_available).count() as f64 / self.is_available.len() as f64
    }
}

/// Reads every trace of a folder, sampled at the beginning of every step. A missing folder has no traces.
pub(crate) fn read_traces(folder: &Path, step: i64) -> Result<Vec<Trace>, Box<dyn Error>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().map(|path| read_trace(path, step)).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a trace has thousands of samples"
)]
fn read_trace(path: &Path, step: i64) -> Result<Trace, Box<dyn Error>> {
    let document: TraceDocument = serde_json::from_slice(&fs::read(path)?)?;
    let samples = |n: usize| (n as f64 * step as f64 / document.metadata.gap_seconds) as usize;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Trace {
        name: name.split('_').next().unwrap_or_default().to_owned(),
        is_available: (0..).map_while(|n| document.data.get(samples(n))).map(|sample| *sample == 1).collect(),
    })
}

/// Forty-five days of zones, by their mean hours of a stay and of an absence.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a step is short"
)]
pub(crate) fn synthetic_traces(step: i64) -> Vec<Trace> {
    let zones = [(0.4, 3.0), (1.0, 1.0), (2.0, 6.0), (6.0, 2.0), (12.0, 0.5), (40.0, 10.0)];
    let zone = |(stay, absence): (f64, f64)| {
        let mut random = fastrand::Rng::with_seed((stay * 1000.0 + absence) as u64);
        let mut is_available = random.bool();
        let steps = 45 * 24 * 3600 / step;
        let mut next = |_| {
            let mean = if is_available { stay } else { absence };
            if random.f64() < 1.0 - (-(step as f64) / 3600.0 / mean).exp() {
                is_available = !is_available;
            }
            is_available
        };
        Trace {
            name: format!("stay {stay} h, absence {absence} h,"),
            is_available: (0..steps).map(&mut next).collect(),
        }
    };
    zones.into_iter().map(zone).collect()
}
