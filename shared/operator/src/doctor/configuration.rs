//! The configuration: whether it is valid, and whether it fits the mode of the deployment, the account's tags and its regions.

use std::collections::BTreeMap;

use billing::price;
use billing::price::{PriceBook, Quote};
use model::config::{Config, ConfigError, KEY};
use model::id::Region;
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::near_keys::{NearKeyFinding, NearKeys};
use reaping::instances::is_withheld_by_local_disk;

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "configuration";

/// An invalid document: no run acts on anything.
#[must_use]
pub fn refused(error: &ConfigError) -> DoctorFinding {
    let found = format!("no run acts on anything, because the configuration is refused: {error}");
    DoctorFinding::problem(
        KEY,
        found,
        "correct it, and put it in place: curfew config apply FILE; or take it back: curfew config rollback",
    )
}

/// Judges a valid one; `ceiling` is `CURFEW_MODE`, if known.
#[must_use]
pub fn check(config: &Config, ceiling: Option<Mode>) -> Vec<DoctorFinding> {
    let teams = config.teams.values().filter_map(|team| team.mode);
    let enforces = [config.mode, config.untagged.mode].into_iter().chain(teams).any(|mode| mode == Mode::Enforce);
    let mode_finding = match ceiling {
        Some(Mode::Observe) if enforces => Some(DoctorFinding::note(
            KEY,
            "it sets enforce mode, but the deployment only observes: Curfew stops and deletes nothing",
            "curfew mode enforce, once Curfew would do what you want",
        )),
        Some(Mode::Enforce) if !enforces => Some(DoctorFinding::note(
            KEY,
            "the deployment allows enforce mode, but the configuration sets it nowhere: Curfew carries out only scheduled actions",
            "set mode = \"enforce\", for all or in the section of a team, once Curfew would do what you want",
        )),
        Some(_) | None => None,
    };
    mode_finding.into_iter().chain(config.metrics.without_unit().map(undeclared_unit)).collect()
}

fn undeclared_unit(kind: &str) -> DoctorFinding {
    DoctorFinding::note(
        KEY,
        format!(
            "[metrics.{kind}] names a metric of the account's own without its unit: an instance is never idle while its samples may be ratios"
        ),
        "set utilization_unit to \"percent\" or \"ratio\"",
    )
}

/// The regions that `regions` leaves out although GPU instances run there, which no run sees.
#[must_use]
pub fn check_regions(left_out: &[Instance]) -> Vec<DoctorFinding> {
    let mut by_region: BTreeMap<&Region, usize> = BTreeMap::new();
    let runs = |one: &&Instance| matches!(one.state, InstanceState::Pending | InstanceState::Running);
    for instance in left_out.iter().filter(runs) {
        *by_region.entry(&instance.region).or_default() += 1;
    }
    let finding = |(region, count): (&Region, usize)| {
        let runs = if count == 1 { "instance runs" } else { "instances run" };
        let found = format!("regions leaves out {region}, where {count} GPU {runs}");
        DoctorFinding::warning(KEY, found, format!("add {region} to regions, or end what runs there"))
    };
    by_region.into_iter().map(finding).collect()
}

/// The machines of which idleness only notifies, because `local_disk` keeps their NVMe storage, and what they cost.
#[must_use]
pub fn check_local_disk(instances: &[Instance], config: &Config, prices: &PriceBook) -> Option<DoctorFinding> {
    let withheld: Vec<&Instance> =
        instances.iter().filter(|instance| is_withheld_by_local_disk(instance, config)).collect();
    if withheld.is_empty() {
        return None;
    }
    let quotes: Vec<Option<Quote>> = withheld.iter().map(|instance| prices.running_cost(instance)).collect();
    let cost = match quotes.iter().flatten().next() {
        None => "an unknown amount".to_owned(),
        Some(_) => price::format_quote_sum(quotes.into_iter()),
    };
    let found = format!(
        "once idle, {} of {} GPU instances are notify only, because local_disk keeps their NVMe storage; they cost {cost}",
        withheld.len(),
        instances.len(),
    );
    let remedy = "choose local_disk in [idle] or for a team: keep, expendable, or a grace such as 24h (docs/deploy.md, What opting in means)";
    Some(DoctorFinding::note(KEY, found, remedy))
}

/// One finding for each tag key of these GPU instances that only looks like one of the configuration.
#[must_use]
pub fn check_tag_keys(instances: &[Instance], config: &Config) -> Vec<DoctorFinding> {
    let near = NearKeys::from_instances(instances, config).findings(config);
    near.into_iter().map(|NearKeyFinding { found, remedy }| DoctorFinding::warning("", found, remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingSeverity;

    fn check(text: &str, ceiling: Option<Mode>, expect: &str) {
        let findings = super::check(&Config::read(text).unwrap(), ceiling);
        assert!(findings.iter().all(|finding| finding.severity == FindingSeverity::Note));
        let found = findings.first().map_or("", |finding| finding.found.as_str());
        assert!(
            if expect.is_empty() { found.is_empty() } else { found.contains(expect) },
            "{text} {ceiling:?}: {found}"
        );
    }

    #[test]
    fn a_deployment_that_does_otherwise_than_configured_is_noted() {
        check("mode = \"enforce\"", Some(Mode::Enforce), "");
        check("mode = \"enforce\"", None, "");
        check("mode = \"enforce\"", Some(Mode::Observe), "only observes");
        check("[teams.vision]\nmode = \"enforce\"", Some(Mode::Observe), "only observes");
        check("[untagged]\nmode = \"enforce\"", Some(Mode::Observe), "only observes");
        check("", Some(Mode::Observe), "");
        check("", Some(Mode::Enforce), "only scheduled actions");
    }

    #[test]
    fn a_metric_without_a_unit_is_noted() {
        let own = "[metrics.amd]\nutilization = \"gpu_use\"\n";
        check(own, None, "[metrics.amd] names a metric");
        check(&format!("{own}utilization_unit = \"ratio\""), None, "");
    }

    #[test]
    fn a_refused_one_is_a_problem_with_its_line() {
        let finding = refused(&Config::read("\nmodes = 1").unwrap_err());
        assert_eq!(finding.severity, FindingSeverity::Problem);
        assert!(finding.found.contains("line 2"), "{}", finding.found);
    }

    #[test]
    fn a_region_that_is_left_out_is_a_finding_where_something_runs() {
        let there = |region: &str| reaping::fixture::instance().region(region);
        let stopped = there("eu-west-1").state(InstanceState::Stopped).build();
        let running = [there("eu-central-1").build(), there("sa-east-1").build(), there("sa-east-1").build(), stopped];
        let found: Vec<String> = check_regions(&running).into_iter().map(|finding| finding.found).collect();
        assert_eq!(
            found,
            [
                "regions leaves out eu-central-1, where 1 GPU instance runs",
                "regions leaves out sa-east-1, where 2 GPU instances run"
            ]
        );
    }

    #[test]
    fn machines_that_local_disk_keeps_are_counted() {
        let scratch = || reaping::fixture::instance().instance_storage(250);
        let found = |text: &str| {
            let instances = [
                scratch().build(),
                scratch().of_type("p9.huge").build(),
                scratch().tag("curfew:local-disk", "keep").build(),
                scratch().tag("curfew:protected", "").build(),
                scratch().tag("aws:autoscaling:groupName", "fleet").build(),
                scratch().tag("curfew:job", "vision/llama").build(),
                scratch().state(InstanceState::Stopped).build(),
                reaping::fixture::instance().build(),
            ];
            let prices = PriceBook::dated();
            check_local_disk(&instances, &Config::read(text).unwrap(), &prices).map(|finding| finding.found)
        };
        assert_eq!(
            found("").as_deref(),
            Some(
                "once idle, 2 of 8 GPU instances are notify only, because local_disk keeps their NVMe storage; they cost at \
                 least $1.01/h ($734 a month; table of 2026-09-24); 1 without a price"
            )
        );
        assert_eq!(found("[idle]\nlocal_disk = \"24h\""), None);
        assert_eq!(found("[idle]\naction = \"notify\""), None);
        assert_eq!(found("[teams.vision]\nlocal_disk = \"expendable\""), None);
    }
}
