use billing::price::PriceSource;
use model::instance::{Accelerator, InstanceState, PrepaidCapacity, PurchaseOption, Tags};
use model::observation::Observation;
use model::usage::{UnknownUsage, Usage, UsageMeasure};
use model::volume::{ObservedStorage, VolumeState};

use super::*;
use crate::fixture::{
    InstanceBuilder, NOW, VolumeBuilder, busy, enforcing, idle, instance, reserved, time, unknown, untagged, volume,
};
use crate::policy::Policy;

fn describe_findings(findings: &[ScanFinding]) -> String {
    let descriptions = findings.iter().map(|finding| {
        let kinds: Vec<&str> = finding.kinds.iter().map(|kind| kind.as_str()).collect();
        let controller_suffix = |controller: &String| format!(" of {controller}");
        format!(
            "{}{}: {}",
            kinds.join(" "),
            finding.controller.as_ref().map(controller_suffix).unwrap_or_default(),
            finding.evidence
        )
    });
    descriptions.collect::<Vec<_>>().join("\n")
}

fn scan_one(builder: InstanceBuilder, usage: Usage, config: &str) -> Vec<ScanFinding> {
    let seen = builder.build();
    let usages = BTreeMap::from([(seen.id.clone(), usage)]);
    instances(&[seen], &usages, &enforcing(config), time(NOW)).items
}

/// Checks the findings about one instance; the end of a line may be left out.
fn check(builder: InstanceBuilder, usage: Usage, expect: &str) {
    let text = describe_findings(&scan_one(builder, usage, "[managed]\ntag_keys = [\"spacelift\"]"));
    assert!(text.starts_with(expect) && expect.is_empty() == text.is_empty(), "{text}");
}

const IDLE: &str = "idle: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most";

#[test]
fn what_runs_and_does_nothing_is_idle_or_reserved() {
    check(instance(), idle(), IDLE);
    check(instance(), reserved(), "reserved: idle from");
    check(instance(), busy(), "");
    check(instance().tag("curfew:idle-after", "off"), idle(), "");
}

#[test]
fn what_local_disk_withholds_has_a_total() {
    let total = |builder: InstanceBuilder, usage, config: &str| {
        let findings = scan_one(builder, usage, config);
        (findings.len(), withheld_by_local_disk(&findings).findings)
    };
    let scratch = || instance().instance_storage(250);
    assert_eq!(total(scratch(), idle(), ""), (1, 1));
    assert_eq!(total(scratch(), idle(), "[idle]\nlocal_disk = \"24h\""), (1, 0));
    assert_eq!(total(scratch(), unknown(), ""), (1, 0));
    assert_eq!(total(instance(), idle(), ""), (1, 0));
}

#[test]
fn what_lacks_a_tag_is_untagged_whatever_it_does_and_is_one_finding() {
    check(untagged(), busy(), "untagged: it lacks the required tags Team, Owner");
    check(untagged(), idle(), "idle untagged: idle from");
    check(untagged(), unknown(), "untagged uninstrumented: it lacks");
    check(untagged(), Usage::Unknown(UnknownUsage::NotAsked), "untagged: it lacks");
    check(untagged().launched("2026-09-01T11:51:00Z"), busy(), "");
}

#[test]
fn what_cannot_be_judged_is_uninstrumented_unless_it_was_not_asked_or_is_young() {
    check(instance(), unknown(), "uninstrumented: its usage is unknown: 0 of its 1 accelerators report");
    let neuron = instance().accelerators(Accelerator::Neuron, 1);
    check(neuron, Usage::Unknown(UnknownUsage::NoMetric), "uninstrumented: its usage is unknown: no metric");
    check(instance(), Usage::Unknown(UnknownUsage::NotAsked), "");
    check(instance(), Usage::Unknown(UnknownUsage::Young), "");
    check(instance().tag("curfew:idle-after", "off"), unknown(), "");
}

#[test]
fn what_is_protected_or_kept_is_left_out_and_unreadable_tags_hide_nothing() {
    check(untagged().tag("curfew:protected", ""), idle(), "");
    check(untagged().tag("curfew:keep-until", "2026-09-30"), idle(), "");
    check(untagged().tag("curfew:keep-until", "2026-08-30"), idle(), "idle untagged");
    let expect = "untagged: it lacks the required tags Team, Owner; the tag curfew:idle-after=soon cannot be read";
    check(untagged().tag("curfew:idle-after", "soon"), busy(), expect);
    check(untagged().tag("curfew:idle-after", "soon").tag("curfew:protected", ""), busy(), "");
}

#[test]
fn what_does_not_run_costs_nothing() {
    for state in [
        InstanceState::Pending,
        InstanceState::Stopping,
        InstanceState::Stopped,
        InstanceState::ShuttingDown,
        InstanceState::Unknown,
    ] {
        check(untagged().state(state), idle(), "");
    }
}

#[test]
fn a_managed_instance_is_listed_with_its_controller() {
    let grouped = instance().tag("aws:autoscaling:groupName", "train");
    check(grouped, idle(), "idle of an Auto Scaling group (train): idle from");
    check(instance().tag("spacelift", "x"), unknown(), "uninstrumented of the controller of the tag spacelift");
    check(instance().tag("spacelift", "x"), busy(), "");
}

#[test]
fn what_an_end_saves_is_known_or_not_or_nothing() {
    let rate = |builder: InstanceBuilder| price::rate(scan_one(builder, idle(), "")[0].price).map(Rate::usd_per_hour);
    assert_eq!(rate(instance()), Some(1.006));
    assert_eq!(rate(instance().region("eu-central-1")), Some(1.258));
    assert_eq!(rate(instance().region("ap-east-2")), None);
    assert_eq!(rate(instance().purchase(PurchaseOption::SpotOneTime)), None);
    assert_eq!(rate(instance().in_reservation("cr-0abc")), Some(0.0));
    let evidence = |builder| scan_one(builder, idle(), "").remove(0).evidence;
    let unnamed = evidence(instance().prepaid(PrepaidCapacity::CapacityReservation));
    assert!(unnamed.ends_with("a stop saves nothing until you release that capacity"), "{unnamed}");
    let named = evidence(instance().in_reservation("cr-0abc"));
    let command = "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc";
    assert!(named.ends_with(&format!("until you release that capacity: `{command}`")), "{named}");
}

fn usd(usd: f64, unpriced: u64) -> KnownSum<Amount> {
    KnownSum::new(Amount::from_usd(usd), unpriced)
}

#[test]
fn what_a_stop_does_not_save_is_a_cost_all_the_same() {
    let scan = |builder| scan_one(builder, idle(), "").remove(0);
    let mut findings = [
        scan(instance().id("i-1")),
        scan(instance().id("i-2").of_type("p5.48xlarge").in_reservation("cr-0abc")),
        scan(instance().id("i-3").prepaid(PrepaidCapacity::DedicatedHost)),
    ];
    let total = FindingTotal::from_findings(&findings);
    let (saved, costs) = (734.38, 734.38 + 40_179.20);
    assert_eq!(total.costs, usd(costs, 1), "the cost on a dedicated host is unknown, not nothing");
    assert_eq!((total.saves, total.findings), (usd(saved, 0), 3));
    sort(&mut findings);
    assert_eq!(order(&findings), ["i-2", "i-1", "i-3"]);
}

#[test]
fn tags_are_those_of_the_account() {
    let config = "[tags]\nteam = \"CostCentre\"\nowner = \"Contact\"\nrequired = []";
    let findings =
        scan_one(untagged().tag("CostCentre", "4711").tag("Contact", "ada").tag("Name", "n"), idle(), config);
    let ScanFinding { team, owner, name, kinds, .. } = &findings[0];
    assert_eq!((team.as_ref().unwrap().as_str(), owner.as_deref(), name.as_deref()), ("4711", Some("ada"), Some("n")));
    assert_eq!(kinds, &[FindingKind::Idle]);
}

/// The line of a table about one instance.
fn check_short(builder: InstanceBuilder, usage: Usage, expect: &str) {
    let findings = scan_one(builder, usage, "");
    assert_eq!(findings.iter().map(|finding| finding.in_short.as_str()).collect::<Vec<_>>(), [expect]);
}

#[test]
fn a_table_has_short_evidence() {
    check_short(instance(), idle(), "1 GPU at 0 %");
    check_short(untagged(), busy(), "lacks Team, Owner");
    check_short(untagged(), idle(), "1 GPU at 0 %; lacks Team, Owner");
    check_short(instance(), unknown(), "0 of 1 GPUs report");
    check_short(instance(), Usage::Unknown(UnknownUsage::NoMetric), "no metric configured");
    check_short(
        instance(),
        Usage::Unknown(UnknownUsage::TooFewSamples(UsageMeasure::Gpu(Some("0".to_owned())))),
        "GPU 0 reports too seldom",
    );
    check_short(instance().tag("curfew:keep-untill", "x"), idle(), "1 GPU at 0 %; tag curfew:keep-untill unreadable");
    let prepaid = instance().prepaid(PrepaidCapacity::CapacityReservation);
    check_short(prepaid, idle(), "1 GPU at 0 %; a stop saves nothing (reserved)");
    assert_eq!(scan_volume(volume())[0].in_short, "unattached, created 2026-08-01");
    let unreadable = scan_volume(volume().tag("curfew:mode", "perhaps")).remove(0);
    assert_eq!(unreadable.in_short, "unattached, created 2026-08-01; tag curfew:mode unreadable");
}

#[test]
fn a_metric_that_reports_too_seldom_is_named_in_words() {
    let seldom = |measure| Usage::Unknown(UnknownUsage::TooFewSamples(measure));
    let too_seldom =
        |what: &str| format!("uninstrumented: its usage is unknown: {what} reported too seldom in the window");
    check(instance(), seldom(UsageMeasure::Gpu(Some("0".to_owned()))), &too_seldom("GPU 0"));
    check(instance(), seldom(UsageMeasure::Cpu), &too_seldom("the CPU"));
}

#[test]
fn an_instance_without_an_answer_is_counted() {
    let count_unanswered = |builder: InstanceBuilder, usage: Usage| {
        let seen = builder.build();
        unjudged(std::slice::from_ref(&seen), &BTreeMap::from([(seen.id.clone(), usage)]), &policy(), time(NOW))
    };
    let not_asked = || Usage::Unknown(UnknownUsage::NotAsked);
    assert_eq!(count_unanswered(instance(), not_asked()), 1);
    assert_eq!(count_unanswered(instance().tag("spacelift", "x"), not_asked()), 1);
    assert_eq!(count_unanswered(instance().state(InstanceState::Stopped), not_asked()), 0);
    assert_eq!(count_unanswered(instance().tag("curfew:protected", ""), not_asked()), 0);
    assert_eq!(count_unanswered(instance().tag("curfew:idle-after", "off"), not_asked()), 0);
    assert_eq!([idle(), busy(), unknown()].map(|usage| count_unanswered(instance(), usage)), [0; 3]);
}

#[test]
fn each_kind_has_its_total_and_what_is_of_two_counts_in_each() {
    let finding_of_kinds =
        |usd, kinds: &[FindingKind]| ScanFinding { kinds: kinds.to_vec(), ..finding("i-1", None, usd) };
    let findings = [
        finding_of_kinds(Some(1), &[FindingKind::Idle]),
        finding_of_kinds(Some(4), &[FindingKind::Untagged, FindingKind::Uninstrumented]),
        finding_of_kinds(None, &[FindingKind::Idle, FindingKind::Untagged]),
        finding_of_kinds(Some(2), &[FindingKind::Untagged]),
    ];
    let totals = by_kind(&findings).into_iter().map(|(kind, total)| (kind.as_str(), total.costs, total.findings));
    let expect = [("untagged", usd(6.0, 1), 3), ("uninstrumented", usd(4.0, 0), 1), ("idle", usd(1.0, 1), 2)];
    assert_eq!(totals.collect::<Vec<_>>(), expect);
}

fn policy() -> Policy {
    enforcing("[managed]\ntag_keys = [\"spacelift\"]")
}

fn scan_volume(builder: VolumeBuilder) -> Vec<ScanFinding> {
    let seen = Observation { items: vec![builder.build()], gaps: Vec::new() };
    volumes(&ObservedStorage { volumes: seen, ..ObservedStorage::default() }, &policy(), time(NOW)).items
}

/// The findings about one volume.
fn check_volume(builder: VolumeBuilder, expect: &str) {
    assert_eq!(describe_findings(&scan_volume(builder)), expect);
}

const ORPHANED: &str = "orphaned: unattached, created 2026-08-01T12:00:00Z";

#[test]
fn a_volume_that_is_attached_to_nothing_is_orphaned_however_young() {
    check_volume(volume(), ORPHANED);
    check_volume(volume().untagged(), ORPHANED);
    check_volume(volume().on("i-1"), "");
    check_volume(volume().with(|volume| volume.state = VolumeState::Creating), "");
    check_volume(volume().with(|volume| volume.attached_to = vec!["i-1".into()]), "");
}

#[test]
fn a_volume_that_is_shared_or_a_jobs_is_left_out() {
    check_volume(volume().with(|volume| volume.multi_attach = true), "");
    check_volume(volume().tag("curfew:job", "vision/llama-1"), "");
    check_volume(volume().tag("curfew:protected", ""), "");
    check_volume(volume().tag("curfew:keep-until", "2026-09-30"), "");
    let unreadable = |builder: VolumeBuilder| builder.tag("curfew:mode", "perhaps");
    check_volume(unreadable(volume()).tag("curfew:protected", ""), "");
    let text = describe_findings(&scan_volume(unreadable(volume())));
    assert!(text.starts_with(&format!("{ORPHANED}; the tag curfew:mode=perhaps cannot be read")), "{text}");
}

#[test]
fn a_managed_volume_is_listed_with_its_controller() {
    let orphaned_of = |controller: &str| ORPHANED.replace("orphaned", &format!("orphaned of {controller}"));
    check_volume(volume().tag("kubernetes.io/created-for/pvc/name", "data"), &orphaned_of("a Kubernetes claim"));
    let cluster_volume = volume().tag("CSIVolumeName", "pvc").tag("kubernetes.io/cluster/ml prod", "owned");
    check_volume(cluster_volume, &orphaned_of("a Kubernetes claim of the cluster \"ml prod\""));
    check_volume(volume().tag("aws:cloudformation:stack-name", "data"), &orphaned_of("a CloudFormation stack"));
    check_volume(volume().tag("spacelift", "x"), &orphaned_of("the controller of the tag spacelift"));
    let operated = volume().with(|volume| volume.operator = Some("redshift.amazonaws.com".to_owned()));
    check_volume(operated, &orphaned_of("redshift.amazonaws.com"));
}

#[test]
fn a_volume_without_tags_belongs_to_the_owner_of_its_snapshot() {
    let made_from = |volume: VolumeBuilder| volume.with(|volume| volume.from_snapshot = Some("snap-1".into())).build();
    let seen = Observation { items: vec![made_from(volume().untagged())], gaps: Vec::new() };
    let tags = Tags::from([("Team".to_owned(), "audio".to_owned())]);
    let storage = ObservedStorage {
        volumes: seen,
        sources: BTreeMap::from([("snap-1".into(), tags)]),
        ..ObservedStorage::default()
    };
    let findings = volumes(&storage, &policy(), time(NOW)).items;
    assert_eq!(findings[0].team, Some("audio".into()));
    assert_eq!(
        (findings[0].what.as_str(), price::rate(findings[0].price).map(Rate::usd_cents_per_month)),
        ("500 GiB gp3", Some(40_00))
    );
    assert_eq!(findings[0].created_at, Some(time("2026-08-01T12:00:00Z")));
}

fn finding(resource: &str, team: Option<&str>, usd: Option<u64>) -> ScanFinding {
    let source = PriceSource::Table { of: "2026-09-24" };
    let price = usd.map(|usd| Quote { rate: Rate::from_usd_micros_per_month(usd * 1_000_000), source });
    let finding = scan_one(instance().id(resource), idle(), "").remove(0);
    ScanFinding { team: team.map(TeamName::from), price, ..finding }
}

#[test]
fn the_dearest_come_first_and_those_without_a_price_last() {
    let mut findings = vec![
        finding("i-1", None, None),
        finding("i-2", None, Some(0)),
        finding("i-4", None, Some(7)),
        finding("i-3", None, Some(7)),
    ];
    sort(&mut findings);
    assert_eq!(order(&findings), ["i-3", "i-4", "i-2", "i-1"]);
}

fn order(findings: &[ScanFinding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.resource.as_str()).collect()
}

#[test]
fn findings_without_a_price_come_by_size() {
    let unpriced_finding = |resource: &str, accelerators, size_gib| ScanFinding {
        accelerators,
        size_gib,
        ..finding(resource, None, None)
    };
    let mut findings = vec![
        unpriced_finding("vol-1", 0, 8),
        unpriced_finding("vol-2", 0, 16),
        unpriced_finding("i-1", 1, 0),
        unpriced_finding("i-2", 8, 0),
        unpriced_finding("i-0", 1, 0),
    ];
    findings.push(ScanFinding { accelerators: 4, ..finding("i-3", None, Some(1)) });
    findings.push(ScanFinding { accelerators: 8, ..finding("i-4", None, Some(1)) });
    sort(&mut findings);
    assert_eq!(order(&findings), ["i-3", "i-4", "i-2", "i-0", "i-1", "vol-2", "vol-1"]);
}

#[test]
fn each_team_has_its_total() {
    let findings = [
        finding("i-1", Some("nlp"), Some(1)),
        finding("i-2", Some("vision"), Some(5)),
        finding("i-3", Some("nlp"), None),
        finding("i-4", None, Some(2)),
    ];
    let totals = by_team(&findings);
    let rows: Vec<_> = totals
        .iter()
        .map(|(team, total)| (team.map(TeamName::as_str), total.findings, total.costs.unpriced()))
        .collect();
    assert_eq!(rows, [(Some("vision"), 1, 0), (None, 1, 0), (Some("nlp"), 2, 1)]);
    let total = FindingTotal::from_findings(&findings);
    assert_eq!((total.costs, total.findings), (usd(8.0, 1), 4));
    assert_eq!(by_team(&[]), []);
    assert_eq!(
        [&findings[2..3], &[]].map(|some| FindingTotal::from_findings(some).costs.known()),
        [None, Some(Amount::ZERO)]
    );
}

#[test]
fn a_total_is_what_the_shown_prices_come_to() {
    let findings = [0; 60].map(|_| scan_volume(volume()).remove(0));
    let total = FindingTotal::from_findings(&findings);
    assert_eq!(total.costs, usd(2_400.0, 0));
}
