//! The devices of an instance that report, and series that seem to be its own and count for none of them, so that the advice fits what
//! was found.

use std::collections::BTreeSet;

use super::{BasicUse, MetricSeries, PowerReport, SeriesOwners, device_of};
use crate::config::{ACCOUNT_METRICS_NAMESPACE, JOB_METRICS_NAMESPACE, SeriesNames};
use crate::instance::{Instance, first_label};

/// The most series that are kept as evidence; the advice names a few.
pub const REJECTED_SERIES_MAX: usize = 20;

/// The devices of an instance that report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceReport {
    /// The number of devices that should report.
    pub devices: u32,
    /// The devices that do, by the dimension that distinguishes them; empty for the one device of a series without it.
    pub reporting: BTreeSet<String>,
    /// Series that were found, and count for none of its devices.
    pub rejected: Vec<RejectedSeries>,
    /// The evidence of their power, where it was read.
    pub power: Option<Box<PowerReport>>,
    /// The instance's last days by EC2's own metrics.
    pub basic: Option<Box<BasicUse>>,
}

/// A series that counts for no device of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSeries {
    pub series: MetricSeries,
    pub reason: RejectionReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectionReason {
    /// The series is of all devices together.
    AllDevices,
    /// The series has the instance's host, and no id of an instance, such as the literal text `${aws:InstanceId}`.
    NoInstanceId,
    /// The series is of another metric.
    OtherMetric,
    /// The series names no instance of the region, so it may be this one's.
    Unowned,
}

impl DeviceReport {
    /// The report by the series that are listed of an instance: several of one device are one device.
    #[must_use]
    pub fn from_listed(instance: &Instance, listed: &[MetricSeries], names: &SeriesNames) -> Self {
        let reporting = listed.iter().map(|series| device_of(series, names).to_owned()).collect();
        Self::new(names.series_of(&instance.machine), reporting, listed, names)
    }

    /// The report of so many devices. A series without the dimension that distinguishes devices is of all together, and counts for none
    /// of several.
    #[must_use]
    pub fn new(devices: u32, mut reporting: BTreeSet<String>, listed: &[MetricSeries], names: &SeriesNames) -> Self {
        let mut rejected = Vec::new();
        if devices > 1 {
            reporting.remove("");
            let of_all = listed.iter().filter(|series| device_of(series, names).is_empty());
            rejected.extend(of_all.map(|series| RejectedSeries::new(series, RejectionReason::AllDevices)));
        }
        Self { devices, reporting, rejected, power: None, basic: None }
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.devices > 0 && self.reporting.len() >= usize::try_from(self.devices).unwrap_or(usize::MAX)
    }

    /// True if a look at further series could explain it: none of its devices reports, and nothing says why.
    #[must_use]
    pub fn is_unexplained(&self) -> bool {
        self.devices > 0
            && self.reporting.is_empty()
            && self.rejected.iter().all(|one| one.reason == RejectionReason::Unowned)
    }

    /// The devices that do not report, where they are numbered from 0; `None` if none reports.
    #[must_use]
    pub fn missing(&self) -> Option<Vec<u32>> {
        let numbers: Option<BTreeSet<u32>> = self.reporting.iter().map(|name| name.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty() && numbers.iter().all(|one| *one < self.devices))?;
        Some((0..self.devices).filter(|one| !numbers.contains(one)).collect())
    }

    /// Adds the series of a region that name no instance, where they may be this one's.
    pub fn add_unowned(&mut self, instance: &Instance, unowned: &[MetricSeries], names: &SeriesNames) {
        let host_of =
            |series: &MetricSeries| series.dimension(&names.host_dimension).map(|host| first_label(host).to_owned());
        let is_its_host = |series: &&MetricSeries| instance.host.is_some() && host_of(series) == instance.host;
        let own: Vec<&MetricSeries> = unowned.iter().filter(is_its_host).collect();
        // What is certain hides what is only possible.
        if own.is_empty() {
            let may_be_own = |series: &&MetricSeries| host_of(series).is_none_or(|host| !is_ec2_host(&host));
            self.add(unowned.iter().filter(may_be_own).collect(), RejectionReason::Unowned);
        } else {
            self.add(own, RejectionReason::NoInstanceId);
        }
    }

    /// Adds what else is published of this instance, as far as it seems to be of an accelerator.
    pub fn add_other_metrics<'s>(
        &mut self,
        published: impl IntoIterator<Item = &'s MetricSeries>,
        names: &SeriesNames,
    ) {
        let is_other = |series: &&MetricSeries| {
            let is_configured = series.namespace == names.namespace && series.metric == names.utilization;
            !is_configured && series.is_of_accelerator()
        };
        self.add(published.into_iter().filter(is_other).collect(), RejectionReason::OtherMetric);
    }

    fn add(&mut self, found: Vec<&MetricSeries>, reason: RejectionReason) {
        let room = REJECTED_SERIES_MAX.saturating_sub(self.rejected.len());
        self.rejected.extend(found.into_iter().take(room).map(|series| RejectedSeries::new(series, reason)));
        self.rejected.sort_by_key(|one| one.reason);
    }
}

impl RejectedSeries {
    fn new(series: &MetricSeries, reason: RejectionReason) -> Self {
        Self { series: series.clone(), reason }
    }
}

impl MetricSeries {
    /// The value of a dimension; an empty name is that of none.
    #[must_use]
    pub fn dimension(&self, name: &str) -> Option<&str> {
        self.dimensions.iter().find(|(key, _)| !name.is_empty() && key == name).map(|(_, value)| value.as_str())
    }

    /// True for names that exporters give the metrics of accelerators. AWS's own namespaces have none of them.
    fn is_of_accelerator(&self) -> bool {
        let metric = self.metric.to_ascii_lowercase();
        let words = ["gpu", "nvidia", "dcgm", "neuron", "rocm", "amd"];
        !self.namespace.starts_with("AWS/")
            && ![JOB_METRICS_NAMESPACE, ACCOUNT_METRICS_NAMESPACE].contains(&self.namespace.as_str())
            && words.iter().any(|word| metric.contains(word))
    }
}

impl SeriesOwners<'_> {
    /// True for a series that names no instance at all, although it should. The series of another instance is none of these.
    #[must_use]
    pub fn is_unowned(&self, series: &MetricSeries) -> bool {
        if self.owner_of(series).is_some() {
            return false;
        }
        match (series.dimension(&self.names.instance_dimension), series.dimension(&self.names.host_dimension)) {
            (Some(id), _) => !id.starts_with("i-"),
            (None, Some(host)) => !is_ec2_host(first_label(host)),
            (None, None) => true,
        }
    }
}

/// EC2 user guide, "EC2 instance hostnames and domains": by the address or by the id.
fn is_ec2_host(host: &str) -> bool {
    host.starts_with("ip-") || host.starts_with("i-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;
    use crate::instance::Accelerator;

    fn series(metric: &str, dimensions: &[(&str, &str)]) -> MetricSeries {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        MetricSeries {
            namespace: "CWAgent".to_owned(),
            metric: metric.to_owned(),
            dimensions: dimensions.iter().map(own).collect(),
        }
    }

    fn utilization(dimensions: &[(&str, &str)]) -> MetricSeries {
        series("nvidia_smi_utilization_gpu", dimensions)
    }

    #[test]
    fn the_devices_that_do_not_report_are_named_where_they_are_numbered() {
        let check = |reporting: &[&str], expect: Option<&[u32]>| {
            let reporting = reporting.iter().map(|name| (*name).to_owned()).collect();
            let report = DeviceReport { devices: 4, reporting, ..DeviceReport::default() };
            assert_eq!(report.missing().as_deref(), expect);
        };
        check(&["0", "1", "2"], Some(&[3]));
        check(&["1"], Some(&[0, 2, 3]));
        check(&[], None);
        check(&["a", "b"], None);
        check(&["7"], None);
    }

    #[test]
    fn devices_are_counted_once_and_one_series_of_all_is_no_device_of_several() {
        let check = |devices: &[&str], accelerators: u32, expect: usize| {
            let instance = instance().accelerators(Accelerator::Nvidia, accelerators).build();
            let of = |(place, device): (usize, &&str)| utilization(&[("index", device), ("name", &place.to_string())]);
            let listed: Vec<MetricSeries> = devices.iter().enumerate().map(of).collect();
            let report = DeviceReport::from_listed(&instance, &listed, &SeriesNames::default());
            assert_eq!(report.reporting.len(), expect, "{devices:?}");
        };
        check(&["0", "0"], 1, 1);
        check(&["0", "1", "1"], 8, 2);
        check(&[""], 1, 1);
        check(&["", "0"], 8, 1);
    }

    #[test]
    fn a_series_is_unowned_only_where_it_names_no_instance() {
        let one = instance().id("i-1").host("ip-1").build();
        let names = SeriesNames::default();
        let owners = SeriesOwners::among([&one].into_iter(), &names);
        let check = |dimensions: &[(&str, &str)], expect: bool| {
            assert_eq!(owners.is_unowned(&utilization(dimensions)), expect, "{dimensions:?}");
        };
        check(&[("InstanceId", "${aws:InstanceId}"), ("host", "ip-1")], true);
        check(&[("host", "EC2AMAZ-ABC123"), ("index", "0")], true);
        check(&[("index", "0")], true);
        check(&[("InstanceId", "i-1")], false);
        check(&[("InstanceId", "i-another")], false);
        check(&[("host", "ip-10-0-0-1.ec2.internal")], false);
    }

    #[test]
    fn what_is_certain_hides_what_is_only_possible() {
        let names = SeriesNames::default();
        let literal = utilization(&[("InstanceId", "${aws:InstanceId}"), ("host", "ip-1.ec2.internal")]);
        let windows = utilization(&[("host", "EC2AMAZ-ABC123")]);
        let check = |host: &str, expect: &[(RejectionReason, &MetricSeries)]| {
            let mut report = DeviceReport { devices: 1, ..DeviceReport::default() };
            report.add_unowned(&instance().host(host).build(), &[literal.clone(), windows.clone()], &names);
            let found: Vec<(RejectionReason, &MetricSeries)> =
                report.rejected.iter().map(|one| (one.reason, &one.series)).collect();
            assert_eq!(found, expect);
        };
        check("ip-1", &[(RejectionReason::NoInstanceId, &literal)]);
        check("ip-2", &[(RejectionReason::Unowned, &windows)]);
    }

    #[test]
    fn other_metrics_count_where_their_name_is_that_of_an_accelerator() {
        let mut report = DeviceReport { devices: 1, ..DeviceReport::default() };
        let dcgm = series("DCGM_FI_DEV_GPU_UTIL", &[("InstanceId", "i-1")]);
        let own = MetricSeries { namespace: "AWS/EC2".to_owned(), ..series("GPUPowerUtilization", &[]) };
        let published = [dcgm.clone(), own, series("mem_used_percent", &[]), utilization(&[])];
        report.add_other_metrics(&published, &SeriesNames::default());
        assert_eq!(report.rejected, [RejectedSeries::new(&dcgm, RejectionReason::OtherMetric)]);
    }
}
