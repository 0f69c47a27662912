//! The GPUs that report their usage. Curfew never stops an instance as idle whose GPUs do not report: it costs money until somebody
//! installs the agent.

use billing::price;
use billing::price::{PriceBook, Quote};
use jiff::{SignedDuration, Timestamp};
use model::config::MetricsConfig;
use model::id::Region;
use model::instance::{Instance, InstanceState};
use model::usage::DeviceReport;
use reaping::instances::describe_report;

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "telemetry";

/// The most instances that are named, the dearest first.
const SHOWN_MAX: usize = 20;
/// An instance that is younger has had no time to report: its agent starts late in its first boot, and `CloudWatch` is late too.
const SETTLE: SignedDuration = SignedDuration::from_mins(30);

/// Returns `true` if an instance should report by now.
#[must_use]
pub fn should_report(instance: &Instance, now: Timestamp) -> bool {
    instance.state == InstanceState::Running && now.duration_since(instance.launched_at) >= SETTLE
}

/// A running instance, and which of its accelerators report.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTelemetry<'a> {
    pub instance: &'a Instance,
    /// `None` where no metric is configured for its kind.
    pub report: Option<DeviceReport>,
}

impl InstanceTelemetry<'_> {
    /// Returns `true` if all accelerators of the instance report.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.report.as_ref().is_some_and(DeviceReport::is_full)
    }
}

/// Judges the running instances of all regions that were seen.
#[must_use]
pub fn check(all: &[InstanceTelemetry<'_>], metrics: &MetricsConfig, prices: &PriceBook) -> Vec<DoctorFinding> {
    let mut lacking: Vec<(Option<Quote>, &InstanceTelemetry<'_>)> =
        all.iter().filter(|one| !one.is_full()).map(|one| (prices.saved_by_ending(one.instance), one)).collect();
    lacking.sort_by(|(quote, one), (other_quote, other)| {
        price::cost(*other_quote).cmp(&price::cost(*quote)).then_with(|| one.instance.id.cmp(&other.instance.id))
    });
    let mut findings: Vec<DoctorFinding> =
        lacking.iter().take(SHOWN_MAX).map(|(quote, one)| finding(one, metrics, *quote)).collect();
    let rest = lacking.get(SHOWN_MAX..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = price::format_quote_sum(rest.iter().map(|(quote, _)| *quote));
        let found = format!("and {} more instances like these, {sum} together", rest.len());
        findings.push(DoctorFinding::warning("", found, REMEDY));
    }
    findings
}

const REMEDY: &str = "install the CloudWatch agent with its nvidia_gpu section (curfew metrics install; docs/deploy.md, \"GPU metrics\"), or name the metrics that \
                      it publishes in [metrics] of the configuration";

fn finding(
    InstanceTelemetry { instance, report }: &InstanceTelemetry<'_>,
    metrics: &MetricsConfig,
    quote: Option<Quote>,
) -> DoctorFinding {
    let Instance { id, region, instance_type, .. } = instance;
    let price = price::format_quote(quote);
    let [how_many, remedy] = match report {
        None => ["no metric is configured for its kind of accelerator".to_owned(), REMEDY.to_owned()],
        Some(report) => describe_report(report, instance, metrics),
    };
    let found = format!("{instance_type}, {price}: {how_many}, so Curfew cannot judge whether it is idle");
    DoctorFinding::warning(format!("{id} in {region}"), found, remedy)
}

/// Summarises for people how many accelerators report, region by region.
#[must_use]
pub fn summary(all: &[InstanceTelemetry<'_>]) -> String {
    if all.is_empty() {
        return "no running GPU instance should report yet".to_owned();
    }
    let mut regions: Vec<&Region> = all.iter().map(|one| &one.instance.region).collect();
    regions.sort();
    regions.dedup();
    let count_region = |region: &Region| {
        let here = || all.iter().filter(|one| one.instance.region == *region);
        format!("{region} {} of {}", here().filter(|one| one.is_full()).count(), here().count())
    };
    let counts: Vec<String> = regions.into_iter().map(count_region).collect();
    format!("instances of which all GPUs report: {}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reaping::fixture::instance;

    fn telemetry(instance: &Instance, devices: u32, reporting: u32) -> InstanceTelemetry<'_> {
        let reporting = (0..reporting).map(|index| index.to_string()).collect();
        InstanceTelemetry { instance, report: Some(DeviceReport { devices, reporting, ..DeviceReport::default() }) }
    }

    fn check(one: &InstanceTelemetry<'_>, found: &str, remedy: &str) {
        let findings = super::check(std::slice::from_ref(one), &MetricsConfig::default(), &PriceBook::dated());
        let shown = findings.first().map_or(("", ""), |finding| (&*finding.found, &*finding.remedy));
        let is = |shown: &str, expect: &str| if expect.is_empty() { shown.is_empty() } else { shown.contains(expect) };
        assert!(is(shown.0, found) && is(shown.1, remedy), "{shown:?}");
    }

    #[test]
    fn every_accelerator_has_to_report() {
        let instance = instance().build();
        check(&telemetry(&instance, 1, 1), "", "");
        check(&telemetry(&instance, 1, 2), "", "");
        check(&telemetry(&instance, 1, 0), "g5.xlarge, $1.01/h", "install the CloudWatch agent");
        check(&telemetry(&instance, 8, 7), "7 of its 8 accelerators report", "GPU 7 does not report");
        check(&InstanceTelemetry { instance: &instance, report: None }, "no metric is configured", "[metrics]");
    }

    #[test]
    fn the_dearest_come_first_and_the_rest_is_counted() {
        let mut instances: Vec<Instance> = (10..32).map(|place| instance().id(&format!("i-{place}")).build()).collect();
        instances[15].instance_type = "p4d.24xlarge".into();
        let all: Vec<InstanceTelemetry<'_>> = instances.iter().map(|instance| telemetry(instance, 1, 0)).collect();
        let findings = super::check(&all, &MetricsConfig::default(), &PriceBook::dated());
        assert_eq!(findings.len(), 21);
        assert!(findings[0].at.starts_with("i-25 "), "{}", findings[0].at);
        assert!(findings[20].found.starts_with("and 2 more instances like these, $2.01/h"), "{}", findings[20].found);
        assert_eq!(summary(&all), "instances of which all GPUs report: us-east-1 0 of 22");
    }
}
