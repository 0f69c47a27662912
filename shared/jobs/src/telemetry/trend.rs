//! The last hour of a machine's GPUs, minute by minute: what the heartbeat carries for people, without a call of `CloudWatch`.

use model::usage::ACCELERATOR_MEMORY_MIB_MAX;
use serde::{Deserialize, Serialize};

use super::{GPUS_MAX, GpuSample, POWER_MILLIWATTS_MAX, mean_of_busiest};

/// An hour.
const MINUTES_MAX: usize = 60;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One value a minute, the latest last; `None` where a GPU did not report it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuTrend {
    /// The use of the busiest GPU, in percent.
    #[serde(default)]
    percent: Vec<Option<u32>>,
    /// The memory in use on the GPU that has most in use, in MiB.
    #[serde(default)]
    memory_mib: Vec<Option<u32>>,
    /// The power of all GPUs together.
    #[serde(default)]
    watts: Vec<Option<u32>>,
}

impl GpuTrend {
    /// Adds a minute, with all of its samples.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of u32")]
    pub fn add_minute(&mut self, moments: &[Vec<GpuSample>]) {
        let all = || moments.iter().flatten();
        let power =
            |gpus: &Vec<GpuSample>| gpus.iter().map(|gpu| gpu.power_milliwatts.map(u64::from)).sum::<Option<u64>>();
        let power: Vec<u64> = moments.iter().filter(|gpus| !gpus.is_empty()).filter_map(power).collect();
        let watts = power.iter().sum::<u64>().checked_div(u64::try_from(power.len()).unwrap_or(u64::MAX));
        add(&mut self.percent, mean_of_busiest(moments).map(|percent| percent.round() as u32));
        add(&mut self.memory_mib, all().filter_map(|gpu| gpu.memory_used_mib).max());
        add(&mut self.watts, watts.and_then(|milliwatts| u32::try_from(milliwatts / 1_000).ok()));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        [&self.percent, &self.memory_mib, &self.watts].iter().all(|values| values.iter().all(Option::is_none))
    }

    /// Limits the trend to the length that an agent writes, and drops figures that no machine has.
    #[must_use]
    pub fn shown(mut self) -> Self {
        let ranges = [
            (&mut self.percent, 100),
            (&mut self.memory_mib, ACCELERATOR_MEMORY_MIB_MAX),
            (&mut self.watts, POWER_MILLIWATTS_MAX / 1_000 * GPUS_MAX),
        ];
        for (values, most) in ranges {
            values.truncate(MINUTES_MAX);
            for value in values.iter_mut() {
                *value = value.filter(|value| *value <= most);
            }
        }
        self
    }

    /// Returns a line for people for each figure that is known: `("GPU use", "▁▇█▇ 92 %")`. The first scale ends at 100 %, the others at
    /// their highest value.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let figures = [
            ("GPU use", &self.percent, Some(100), "%"),
            ("GPU memory", &self.memory_mib, None, "MiB"),
            ("GPU power", &self.watts, None, "W"),
        ];
        let line = |(label, values, top, unit): (_, &Vec<Option<u32>>, Option<u32>, _)| {
            let top = top.or(values.iter().flatten().max().copied())?;
            let last = values.last()?.map_or_else(|| "unknown".to_owned(), |value| format!("{value} {unit}"));
            values.iter().any(Option::is_some).then(|| (label, format!("{} {last}", sparkline(values, top))))
        };
        figures.into_iter().filter_map(line).collect()
    }
}

fn add(values: &mut Vec<Option<u32>>, value: Option<u32>) {
    values.push(value);
    values.drain(..values.len().saturating_sub(MINUTES_MAX));
}

/// A column for each value, from 0 to `top`; blank where it is unknown.
fn sparkline(values: &[Option<u32>], top: u32) -> String {
    let level = |value: u32| {
        let level =
            u64::from(value).saturating_mul((LEVELS.len() - 1) as u64).checked_div(top.into()).unwrap_or_default();
        LEVELS.get(usize::try_from(level).unwrap_or(usize::MAX)).copied().unwrap_or('█')
    };
    values.iter().map(|value| value.map_or(' ', level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(percent: u32, memory: u32, milliwatts: Option<u32>) -> GpuSample {
        GpuSample {
            utilization_percent: Some(percent),
            memory_used_mib: Some(memory),
            power_milliwatts: milliwatts,
            ..GpuSample::default()
        }
    }

    fn check(minutes: &[Vec<Vec<GpuSample>>], expect: &[(&str, &str)]) {
        let mut trend = GpuTrend::default();
        for minute in minutes {
            trend.add_minute(minute);
        }
        let lines = trend.lines();
        let lines: Vec<_> = lines.iter().map(|(label, line)| (*label, line.as_str())).collect();
        assert_eq!(lines, expect);
        assert_eq!(trend.is_empty(), expect.is_empty());
    }

    #[test]
    fn each_figure_has_a_line_if_a_gpu_reports_it() {
        let idle = vec![vec![gpu(0, 500, Some(30_000)), gpu(0, 400, Some(30_000))]];
        let busy = vec![vec![gpu(100, 20_000, Some(70_000)), gpu(50, 10_000, Some(50_000))]; 2];
        check(
            &[idle.clone(), busy.clone(), busy],
            &[("GPU use", "▁██ 100 %"), ("GPU memory", "▁██ 20000 MiB"), ("GPU power", "▄██ 120 W")],
        );
        check(&[vec![vec![gpu(50, 8, None)]], vec![]], &[("GPU use", "▄  unknown"), ("GPU memory", "█  unknown")]);
        check(&[vec![vec![gpu(0, 0, None)]]], &[("GPU use", "▁ 0 %"), ("GPU memory", "▁ 0 MiB")]);
        check(&[], &[]);
        check(&[vec![]], &[]);
    }

    #[test]
    fn a_trend_is_an_hour_whatever_a_machine_writes() {
        let mut trend = GpuTrend::default();
        for _ in 0..100 {
            trend.add_minute(&[vec![gpu(1, 1, Some(1_000))]]);
        }
        assert_eq!(trend.percent.len(), MINUTES_MAX);
        let written = |percent: u32| GpuTrend { percent: vec![Some(percent); 9_000], ..GpuTrend::default() }.shown();
        assert_eq!(written(100).lines(), [("GPU use", format!("{} 100 %", "█".repeat(MINUTES_MAX)))]);
        assert!(written(101).is_empty() && written(u32::MAX).is_empty());
    }
}
