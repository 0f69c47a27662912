//! Which GPUs report their usage. Curfew never stops an instance as idle whose GPUs do not report: it costs money until somebody
//! installs the agent.

use std::collections::BTreeSet;

use billing::price;
use billing::price::{PriceBook, Quote};
use jiff::{SignedDuration, Timestamp};
use model::config::SeriesNames;
use model::id::Region;
use model::instance::{Instance, InstanceState};
use model::usage::{MetricSeries, device_of};

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "telemetry";

/// The most instances that are named, the dearest first.
const SHOWN_MAX: usize = 20;
/// An instance that is younger has had no time to report: its agent starts late in its first boot, and `CloudWatch` is late too.
const SETTLE: SignedDuration = SignedDuration::from_mins(30);

/// Whether an instance should report by now.
#[must_use]
pub fn should_report(instance: &Instance, now: Timestamp) -> bool {
    instance.state == InstanceState::Running && now.duration_since(instance.launched_at) >= SETTLE
}

/// A running instance, and how many of its accelerators report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTelemetry<'a> {
    /// It.
    pub instance: &'a Instance,
    /// How many series of utilisation there are of late.
    pub reporting: u32,
    /// How many there should be; `None` where no metric is configured for its kind.
    pub expected: Option<u32>,
}

impl<'a> InstanceTelemetry<'a> {
    /// By the series that are listed of it: several of one device are one device, and one without the dimension that tells
    /// devices apart is of all together.
    #[must_use]
    pub fn from_series(instance: &'a Instance, listed: &[MetricSeries], names: Option<&SeriesNames>) -> Self {
        let Some(names) = names else { return Self { instance, reporting: 0, expected: None } };
        let expected = names.series_of(&instance.machine);
        let mut devices: BTreeSet<&str> = listed.iter().map(|series| device_of(series, names)).collect();
        if expected > 1 {
            devices.remove("");
        }
        Self { instance, reporting: u32::try_from(devices.len()).unwrap_or(u32::MAX), expected: Some(expected) }
    }
}

impl InstanceTelemetry<'_> {
    /// Whether all of them report.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.expected.is_some_and(|expected| expected > 0 && self.reporting >= expected)
    }
}

/// Judges the running instances of all regions that were seen.
#[must_use]
pub fn check(all: &[InstanceTelemetry<'_>], prices: &PriceBook) -> Vec<DoctorFinding> {
    let mut lacking: Vec<(Option<Quote>, &InstanceTelemetry<'_>)> =
        all.iter().filter(|one| !one.is_full()).map(|one| (prices.saved_by_ending(one.instance), one)).collect();
    lacking.sort_by(|(quote, one), (other_quote, other)| {
        price::rate(*other_quote).cmp(&price::rate(*quote)).then_with(|| one.instance.id.cmp(&other.instance.id))
    });
    let mut findings: Vec<DoctorFinding> =
        lacking.iter().take(SHOWN_MAX).map(|(quote, one)| finding(one, *quote)).collect();
    let rest = lacking.get(SHOWN_MAX..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = price::format_quote_sum(rest.iter().filter_map(|(quote, _)| *quote));
        let found = format!("and {} more instances like these, {sum} together", rest.len());
        findings.push(DoctorFinding::warning("", found, REMEDY));
    }
    findings
}

const REMEDY: &str = "install the CloudWatch agent with its nvidia_gpu section (docs/deploy.md, \"GPU metrics\"), or name the metrics that \
                      it publishes in [metrics] of the configuration";

fn finding(
    InstanceTelemetry { instance, reporting, expected }: &InstanceTelemetry<'_>,
    quote: Option<Quote>,
) -> DoctorFinding {
    let Instance { id, region, instance_type, .. } = instance;
    let price = price::format_quote(quote);
    let how_many = match expected {
        None => "no metric is configured for its kind of accelerator".to_owned(),
        Some(_) if *reporting == 0 => "none of its accelerators reports".to_owned(),
        Some(expected) => format!("{reporting} of its {expected} accelerators report"),
    };
    let found = format!("{instance_type}, {price}: {how_many}, so Curfew cannot judge whether it is idle");
    DoctorFinding::warning(format!("{id} in {region}"), found, REMEDY)
}

/// For people: how many report, region by region.
#[must_use]
pub fn summary(all: &[InstanceTelemetry<'_>]) -> String {
    if all.is_empty() {
        return "no running GPU instance should report yet".to_owned();
    }
    let mut regions: Vec<&Region> = all.iter().map(|one| &one.instance.region).collect();
    regions.sort();
    regions.dedup();
    let of_region = |region: &Region| {
        let here = || all.iter().filter(|one| one.instance.region == *region);
        format!("{region} {} of {}", here().filter(|one| one.is_full()).count(), here().count())
    };
    let told: Vec<String> = regions.into_iter().map(of_region).collect();
    format!("instances of which all GPUs report: {}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reaping::fixture::instance;

    fn check(reporting: u32, expected: Option<u32>, expect: &str) {
        let instance = instance().build();
        let findings =
            super::check(&[InstanceTelemetry { instance: &instance, reporting, expected }], &PriceBook::dated());
        let found = findings.first().map_or("", |finding| finding.found.as_str());
        assert!(if expect.is_empty() { found.is_empty() } else { found.contains(expect) }, "{reporting}: {found}");
    }

    #[test]
    fn every_accelerator_has_to_report() {
        check(1, Some(1), "");
        check(2, Some(1), "");
        check(0, Some(1), "g5.xlarge, $1.01/h");
        check(3, Some(8), "3 of its 8 accelerators report");
        check(0, None, "no metric is configured");
    }

    #[test]
    fn devices_are_counted_once() {
        let check = |devices: &[&str], accelerators: u32, expect: u32| {
            let mut instance = instance().build();
            instance.machine.accelerators = accelerators;
            let series = |(place, device): (usize, &&str)| MetricSeries {
                namespace: "CWAgent".to_owned(),
                metric: "nvidia_smi_utilization_gpu".to_owned(),
                dimensions: vec![("index".to_owned(), (*device).to_owned()), ("name".to_owned(), place.to_string())],
            };
            let listed: Vec<MetricSeries> = devices.iter().enumerate().map(series).collect();
            let found = InstanceTelemetry::from_series(&instance, &listed, Some(&SeriesNames::default()));
            assert_eq!(found.reporting, expect, "{devices:?}");
        };
        check(&["0", "0"], 1, 1);
        check(&["0", "1", "1"], 8, 2);
        check(&[""], 1, 1);
        check(&["", "0"], 8, 1);
    }

    #[test]
    fn the_dearest_come_first_and_the_rest_is_counted() {
        let mut instances: Vec<Instance> = (10..32).map(|place| instance().id(&format!("i-{place}")).build()).collect();
        instances[15].instance_type = "p4d.24xlarge".into();
        let all: Vec<InstanceTelemetry<'_>> =
            instances.iter().map(|instance| InstanceTelemetry { instance, reporting: 0, expected: Some(1) }).collect();
        let findings = super::check(&all, &PriceBook::dated());
        assert_eq!(findings.len(), 21);
        assert!(findings[0].at.starts_with("i-25 "), "{}", findings[0].at);
        assert!(findings[20].found.starts_with("and 2 more instances like these, $2.01/h"), "{}", findings[20].found);
        assert_eq!(summary(&all), "instances of which all GPUs report: us-east-1 0 of 22");
    }
}
