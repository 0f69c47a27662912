//! What EC2's own metrics say of an instance whose GPUs do not report: CPU, network and EBS by the hour, over a fortnight at most. They may make
//! it probable that it is idle, and never more: a GPU can work while all of these rest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::questions::ec2_series;
use super::range::round;
use super::{LAG, MetricQuestion, MetricSignal, PERIOD, Sample, Statistic};
use crate::config::IdleConfig;
use crate::instance::Instance;
use crate::moment::{after, before};

/// As long as a forgotten machine goes unnoticed, and 336 data points a metric.
const DAYS_MAX: u32 = 14;
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HOURS_A_DAY: i64 = 24;

const SIGNALS: [MetricSignal; 5] = [
    MetricSignal::Cpu,
    MetricSignal::NetworkIn,
    MetricSignal::NetworkOut,
    MetricSignal::DiskRead,
    MetricSignal::DiskWrite,
];

/// The use of CPU, network and EBS in whole days, by means of an hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BasicUse {
    /// Whole days since the launch, 14 at most.
    pub days: u32,
    pub cpu_max_vcpus: f64,
    /// Traffic in and out together, in Mbit/s.
    pub network_max_mbps: f64,
    /// Read and written together, in Mbit/s; `None` if the metric does not exist.
    pub disk_max_mbps: Option<f64>,
    /// True if all lie below the thresholds of idleness.
    pub is_quiet: bool,
}

impl BasicUse {
    /// True if an instance rested for the whole fortnight.
    #[must_use]
    pub fn is_probably_idle(&self) -> bool {
        self.is_quiet && self.days >= DAYS_MAX
    }
}

/// The queries; none about an instance that has not run for a day. Five metrics each.
#[must_use]
pub fn basic_questions(instance: &Instance, now: Timestamp) -> Vec<MetricQuestion> {
    let Some((_, from)) = span(instance, now) else { return Vec::new() };
    let question = |signal: MetricSignal| MetricQuestion {
        instance: instance.id.clone(),
        signal,
        series: ec2_series(instance, signal),
        statistic: if signal == MetricSignal::Cpu { Statistic::Average } else { Statistic::Sum },
        from,
        period: HOUR,
    };
    SIGNALS.map(question).to_vec()
}

/// The finding by their answers; `None` with a sample too few of CPU or network.
#[must_use]
pub fn basic_use(
    instance: &Instance,
    answers: &BTreeMap<MetricSignal, Vec<Sample>>,
    now: Timestamp,
    idle: &IdleConfig,
) -> Option<BasicUse> {
    let (days, from) = span(instance, now)?;
    let hours = hours_of(days);
    // The sum of an hour, as that of one of its 12 periods.
    let share = |signal: MetricSignal| {
        if signal == MetricSignal::Cpu { 1.0 } else { PERIOD.as_secs_f64() / HOUR.as_secs_f64() }
    };
    let samples = |signal: MetricSignal| -> BTreeMap<Timestamp, f64> {
        let reported = answers.get(&signal).into_iter().flatten();
        let whole = reported.filter(|(at, _)| *at >= from && after(after(*at, HOUR), LAG) <= now);
        let possible = whole.map(|(at, value)| (*at, value * share(signal)));
        possible.filter(|(_, value)| signal.allows(*value, &instance.machine)).collect()
    };
    let is_enough = |samples: &BTreeMap<Timestamp, f64>| {
        i64::try_from(samples.len()).unwrap_or_default().saturating_mul(100)
            >= hours.saturating_mul(i64::from(idle.coverage_min_percent.get()))
    };
    let [cpu, received, sent, read, written] = SIGNALS.map(samples);
    if instance.machine.vcpus == 0 || ![&cpu, &received, &sent].into_iter().all(is_enough) {
        return None;
    }
    let mbps = |one: BTreeMap<Timestamp, f64>, other: BTreeMap<Timestamp, f64>| {
        let mut bytes = one;
        for (at, count) in other {
            *bytes.entry(at).or_default() += count;
        }
        bytes.into_values().reduce(f64::max).map(|count| round(count * 8.0 / 1e6 / PERIOD.as_secs_f64()))
    };
    let cpu_max_vcpus = cpu.into_values().fold(0.0, f64::max) / 100.0 * f64::from(instance.machine.vcpus);
    let network_max_mbps = mbps(received, sent)?;
    let disk_max_mbps = mbps(read, written);
    let is_quiet = cpu_max_vcpus < idle.cpu_below_vcpus
        && network_max_mbps < idle.network_below_mbps
        && disk_max_mbps.is_none_or(|mbps| mbps < idle.disk_below_mbps);
    Some(BasicUse { days, cpu_max_vcpus: round(cpu_max_vcpus), network_max_mbps, disk_max_mbps, is_quiet })
}

/// The whole days that it has run, and the first hour of them.
fn span(instance: &Instance, now: Timestamp) -> Option<(u32, Timestamp)> {
    let age = now.duration_since(after(after(instance.launched_at, HOUR), LAG));
    let days = u32::try_from(age.as_hours().div_euclid(HOURS_A_DAY)).ok().filter(|days| *days > 0)?.min(DAYS_MAX);
    let last = before(now, LAG).as_second();
    let to = Timestamp::from_second(last.saturating_sub(last.rem_euclid(HOUR.as_secs()))).ok()?;
    Some((days, before(to, SignedDuration::from_hours(hours_of(days)))))
}

fn hours_of(days: u32) -> i64 {
    i64::from(days).saturating_mul(HOURS_A_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, NOW, instance, time};

    const MBIT: f64 = 1e6 / 8.0 * 3600.0;

    fn answers(of: &Instance, values: &[(MetricSignal, f64)]) -> BTreeMap<MetricSignal, Vec<Sample>> {
        let from = basic_questions(of, time(NOW))[0].from;
        let hours = (0..400_i32).map(|hour| from + HOUR * hour).filter(|at| *at < time(NOW));
        values.iter().map(|(signal, value)| (*signal, hours.clone().map(|at| (at, *value)).collect())).collect()
    }

    const QUIET: [(MetricSignal, f64); 3] =
        [(MetricSignal::Cpu, 5.0), (MetricSignal::NetworkIn, 0.1 * MBIT), (MetricSignal::NetworkOut, 0.1 * MBIT)];

    fn found(of: InstanceBuilder, more: &[(MetricSignal, f64)]) -> Option<BasicUse> {
        let of = of.build();
        let answers = answers(&of, &[&QUIET[..], more].concat());
        basic_use(&of, &answers, time(NOW), &IdleConfig::default())
    }

    fn old() -> InstanceBuilder {
        instance().launched("2026-08-01T00:00:00Z")
    }

    #[test]
    fn a_fortnight_of_rest_is_probably_idle() {
        let quiet = found(old(), &[]).unwrap();
        assert_eq!(
            (quiet.days, quiet.cpu_max_vcpus, quiet.network_max_mbps, quiet.disk_max_mbps),
            (14, 0.2, 0.2, None)
        );
        assert!(quiet.is_probably_idle());
        for busy in
            [(MetricSignal::Cpu, 25.0), (MetricSignal::NetworkIn, 5.0 * MBIT), (MetricSignal::DiskWrite, 6.0 * MBIT)]
        {
            let seen = found(old(), &[busy]).unwrap();
            assert!(!seen.is_quiet && !seen.is_probably_idle(), "{seen:?}");
        }
        let week = found(instance().launched("2026-08-25T00:00:00Z"), &[]).unwrap();
        assert_eq!((week.days, week.is_quiet, week.is_probably_idle()), (7, true, false));
    }

    #[test]
    fn unknown_is_never_quiet() {
        assert_eq!(basic_questions(&instance().launched("2026-08-31T13:00:00Z").build(), time(NOW)), []);
        assert_eq!(found(old(), &[(MetricSignal::Cpu, f64::NAN)]), None);
        assert_eq!(found(old(), &[(MetricSignal::NetworkOut, -1.0)]), None);
        let of = old().build();
        let mut answers = answers(&of, &QUIET);
        answers.get_mut(&MetricSignal::NetworkIn).unwrap().truncate(290);
        assert_eq!(basic_use(&of, &answers, time(NOW), &IdleConfig::default()), None);
        assert_eq!(basic_use(&of, &BTreeMap::new(), time(NOW), &IdleConfig::default()), None);
    }

    #[test]
    fn an_unfinished_hour_is_not_read() {
        let of = old().build();
        let mut answers = answers(&of, &QUIET);
        answers.get_mut(&MetricSignal::Cpu).unwrap().push((time("2026-09-01T11:00:00Z"), 100.0));
        let seen = basic_use(&of, &answers, time(NOW), &IdleConfig::default()).unwrap();
        assert!(seen.is_quiet, "{seen:?}");
        assert_eq!(basic_questions(&of, time(NOW)).len(), 5);
        assert_eq!(basic_questions(&of, time(NOW))[0].from, time("2026-08-18T11:00:00Z"));
    }
}
