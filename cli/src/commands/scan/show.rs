//! The result and the progress for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use billing::price;
use model::config::Config;
use model::fault::shortened;
use model::id::{Region, TeamName};
use model::money;
use model::money::{Amount, Rate};
use model::near_keys::NearKeyFinding;
use model::notification_log::NO_TEAM_LABEL;
use model::observation::GapKind;
use reaping::scan;
use reaping::scan::{FindingKind, FindingTotal, ScanFinding};

use super::ScanResult;
use super::region::RegionFindings;
use crate::context::CommandContext;
use crate::screen::{self, ColumnAlignment, Table, plain};

/// Rows of a region that are shown at once; the table at the end has all.
const ROWS_OF_REGION_MAX: usize = 5;
/// Regions that a sentence names.
const REGIONS_NAMED_MAX: usize = 6;
/// Limit of a tag's value in a table, in characters: it may have 256.
const CELL_CHARACTERS_MAX: usize = 32;

/// The number of columns that a narrow terminal leaves out: the reason, the region and the owner. It shows the resource first; `--json` and
/// `curfew explain` have the rest.
const SPARED: usize = 3;

/// The progress, unless it is switched off.
#[derive(Clone, Copy)]
pub(super) struct ScanProgress {
    pub(super) quiet: bool,
}

impl ScanProgress {
    pub(super) fn print(self, text: impl Display) {
        if !self.quiet {
            screen::progress(text);
        }
    }

    pub(super) fn begin(self, regions: &[Region]) {
        self.print(format_args!("Looking at {}: {}", screen::counted(regions.len(), "region"), listed(regions.iter())));
    }

    pub(super) fn waiting(self, regions: &BTreeSet<Region>) {
        self.print(format_args!("Still waiting for {}", listed(regions.iter())));
    }

    /// One line of a region that has answered, and its dearest rows.
    pub(super) fn region(self, looked: &RegionFindings, place: usize, of: usize) {
        let RegionFindings { region, instances, volumes, findings, gaps, .. } = looked;
        let seen = if gaps.iter().any(|gap| gap.kind == GapKind::ForbiddenRegion) {
            "forbidden by the organisation".to_owned()
        } else if looked.saw_nothing() {
            "could not be seen".to_owned()
        } else {
            let incomplete = if gaps.is_empty() { "" } else { ", seen in part" };
            let found = if findings.is_empty() {
                "nothing found".to_owned()
            } else {
                summary(FindingTotal::from_findings(findings))
            };
            let instances = screen::counted(*instances, "GPU instance");
            format!("{instances}, {}{incomplete}: {found}", screen::counted(*volumes, "unattached volume"))
        };
        self.print(format!("[{place}/{of}] {region}: {seen}"));
        let shown = &findings[..findings.len().min(ROWS_OF_REGION_MAX)];
        let wide = |of: &dyn Fn(&ScanFinding) -> usize| shown.iter().map(of).max().unwrap_or_default();
        let (ids, whats) = (wide(&|of| of.resource.as_str().len()), wide(&|of| of.what.chars().count()));
        let whys = wide(&|of| kinds(of).len());
        for finding in shown {
            let ScanFinding { resource, what, .. } = finding;
            let (money, kinds) = (cost(finding), kinds(finding));
            let team = finding.team.as_ref().map_or(NO_TEAM_LABEL, TeamName::as_str);
            let resource = resource.as_str();
            self.print(format!("  {money:>10}  {resource:ids$}  {what:whats$}  {kinds:whys$}  {}", cell(team)));
        }
        if findings.len() > ROWS_OF_REGION_MAX {
            self.print(format!("  and {} more", findings.len() - ROWS_OF_REGION_MAX));
        }
    }

    /// Suggests the next command.
    pub(super) fn next(self, found: &ScanResult, is_deployed: bool) {
        if found.saw_nothing || !found.unanswered.is_empty() {
            return;
        }
        let deploy = "`make deploy` deploys Curfew, which only notifies until you let it act";
        match found.findings.first().map(|finding| &finding.resource) {
            Some(resource) if is_deployed => {
                self.print(format_args!("Next: `curfew explain {resource}` explains how each rule judges a resource."));
            }
            Some(resource) => {
                self.print(format_args!("Next: `curfew explain {resource}` explains a finding; {deploy}."));
            }
            None if is_deployed => {}
            None => self.print(format_args!("Next: {deploy}.")),
        }
    }
}

/// Prints everything that could not be seen, and who was refused. The same refusal of several regions is printed once, as is that of
/// several calls.
pub(super) fn gaps(found: &ScanResult, context: &CommandContext) {
    let mut regions_of: BTreeMap<(bool, String, &str), BTreeSet<&Region>> = BTreeMap::new();
    for gap in &found.gaps {
        let forbidden = gap.kind == GapKind::ForbiddenRegion;
        regions_of.entry((forbidden, gap.in_command(), &gap.call)).or_default().insert(&gap.region);
    }
    let mut calls_of: BTreeMap<(bool, String, BTreeSet<&Region>), Vec<&str>> = BTreeMap::new();
    for ((forbidden, error, call), regions) in regions_of {
        calls_of.entry((forbidden, error, regions)).or_default().push(call);
    }
    for ((forbidden, error, regions), calls) in calls_of {
        let regions = listed(regions.into_iter());
        if forbidden {
            screen::progress(format!("Not looked at, as the organisation forbids it: {regions}"));
        } else {
            screen::warn(format!("{} failed in {regions}: {error}", calls.join(", ")));
        }
    }
    if !found.saw_everything() {
        screen::progress(format!("({})", context.whereabouts()));
    }
}

/// Warns of tag keys that look like those of the configuration.
pub(super) fn near_keys(found: &ScanResult, config: &Config) {
    for NearKeyFinding { found, remedy } in found.near_keys.findings(config) {
        screen::warn(format!("{found}; {remedy}"));
    }
}

/// The table of everything, the teams, and the sum.
pub(super) fn result(found: &ScanResult) {
    let seen = format!(
        "{} and {} in {}",
        screen::counted(found.instances, "GPU instance"),
        screen::counted(found.volumes, "unattached volume"),
        screen::counted(found.regions.len(), "region")
    );
    let unseen = unseen(found);
    if found.saw_nothing {
        return screen::print_line(match found.unanswered.len() {
            0 => "Nothing could be seen.".to_owned(),
            _ => format!("Nothing was seen yet; {}.", unseen.join("; ")),
        });
    }
    if found.findings.is_empty() {
        let but = if found.saw_everything() { "" } else { ", but not everything could be seen" };
        screen::print_line(format_args!("Nothing found among {seen}{but}."));
        return unseen.into_iter().for_each(screen::print_line);
    }
    rows(&found.findings).print();
    screen::print_line("");
    teams(&found.findings).print();
    screen::print_line("");
    screen::print_line(format_args!("{}, among {seen}.", summary(FindingTotal::from_findings(&found.findings))));
    screen::print_line(by_kind(&found.findings));
    withheld(&found.findings).into_iter().for_each(screen::print_line);
    caveats(&found.findings).into_iter().for_each(screen::print_line);
    unseen.into_iter().for_each(screen::print_line);
}

/// `By finding, a month: idle $734.38 (1).`
fn by_kind(findings: &[ScanFinding]) -> String {
    let kinds = scan::by_kind(findings).into_iter().map(|(kind, total)| {
        let name = match kind {
            FindingKind::Uninstrumented => "cannot be judged (uninstrumented)",
            FindingKind::Orphaned => "unattached (orphaned)",
            FindingKind::UnusedCapacity => "reserved and unused (unused-capacity)",
            FindingKind::Idle
            | FindingKind::Reserved
            | FindingKind::Untagged
            | FindingKind::OnDemandTraining
            | FindingKind::LowUse
            | FindingKind::IdleFileSystem => kind.as_str(),
        };
        format!("{name} {} ({})", total.costs, total.findings)
    });
    let kinds = kinds.collect::<Vec<_>>().join("; ");
    let twice = findings.iter().any(|finding| finding.kinds.len() > 1);
    format!(
        "By finding, a month: {kinds}.{}",
        if twice { " Resources with two findings are counted twice." } else { "" }
    )
}

/// `Only notified about, as a stop would lose NVMe storage: $734.38 a month (1). …`
fn withheld(findings: &[ScanFinding]) -> Option<String> {
    let total = scan::withheld_by_local_disk(findings);
    let usd = total.costs.describe_shortly(|usd| format!("{usd} a month"));
    (total.findings > 0).then(|| {
        format!(
            "Of the idle ones, Curfew would only notify about {usd} ({}): `local_disk` keeps their NVMe storage (docs/deploy.md).",
            total.findings
        )
    })
}

/// Describes what is in no total, because it was not observed.
fn unseen(found: &ScanResult) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |call: &str| {
        let gaps = found.gaps.iter().filter(|gap| gap.call == call && gap.kind == GapKind::Region);
        gaps.map(|gap| &gap.region).collect::<BTreeSet<&Region>>()
    };
    let lists = [("instances", of("ec2:DescribeInstances")), ("volumes", of("ec2:DescribeVolumes"))];
    let lists = lists.into_iter().filter(|(_, regions)| !regions.is_empty());
    let lists: Vec<String> = lists.map(|(what, of)| format!("{what} of {}", listed(of.into_iter()))).collect();
    if !lists.is_empty() {
        lines.push(format!("Not seen: {}.", lists.join("; ")));
    }
    if found.unjudged > 0 {
        let count = screen::counted(found.unjudged, "instance");
        lines.push(format!("Idleness not judged for {count}: CloudWatch did not answer."));
    }
    if !found.unanswered.is_empty() {
        let (all, unanswered) = (found.regions.len(), found.unanswered.len());
        let seen = all - unanswered;
        lines.push(format!(
            "interrupted: {seen} of {} seen, not {}",
            screen::counted(all, "region"),
            listed(found.unanswered.iter())
        ));
    }
    lines
}

fn rows(findings: &[ScanFinding]) -> Table<9> {
    let table = Table::new([
        ("USD/month", ColumnAlignment::Right),
        ("Finding", ColumnAlignment::Left),
        ("Resource", ColumnAlignment::Whole),
        ("What", ColumnAlignment::Left),
        ("Name", ColumnAlignment::Left),
        ("Team", ColumnAlignment::Left),
        ("Why", ColumnAlignment::Left),
        ("Region", ColumnAlignment::Left),
        ("Owner", ColumnAlignment::Left),
    ]);
    let mut table = table.sparing(SPARED);
    for finding in findings {
        let belongs = finding.controller.as_ref().map(|owner| format!("; belongs to {owner}")).unwrap_or_default();
        table.row([
            cost(finding),
            kinds(finding),
            finding.resource.to_string(),
            finding.what.clone(),
            cell(finding.name.as_deref().unwrap_or_default()),
            cell(finding.team.as_ref().map_or(NO_TEAM_LABEL, TeamName::as_str)),
            format!("{}{belongs}", finding.in_short),
            finding.region.to_string(),
            cell(finding.owner.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

fn teams(findings: &[ScanFinding]) -> Table<4> {
    let mut table = Table::new([
        ("USD/month", ColumnAlignment::Right),
        ("Findings", ColumnAlignment::Right),
        ("Price unknown", ColumnAlignment::Right),
        ("Team", ColumnAlignment::Left),
    ]);
    for (team, total) in scan::by_team(findings) {
        let team = cell(team.map_or(NO_TEAM_LABEL, TeamName::as_str));
        // The column beside it has what the sum lacks.
        let usd = total.costs.known().map_or_else(|| "unknown".to_owned(), format_number);
        table.row([usd, total.findings.to_string(), total.costs.unpriced().to_string(), team]);
    }
    table
}

/// `3 findings, at least $734.38 a month; 1 without a price`; where stops save less, also what they save.
fn summary(total: FindingTotal) -> String {
    let found = screen::counted(total.findings, "finding");
    let FindingTotal { costs, saves, .. } = total;
    if costs.known().is_none() {
        return format!("{found} of unknown price");
    }
    let saving = match saves.known() {
        known @ Some(_) if known != costs.known() => format!(" (stops save {saves})"),
        _ => String::new(),
    };
    format!("{found}, {}", costs.describe(|usd| format!("{usd} a month{saving}")))
}

/// USD of a month, to the cent, with a star where something has to be said of the price: [`caveats`] says it.
fn cost(finding: &ScanFinding) -> String {
    let star = finding.price.and_then(|quote| quote.source.caveat()).map_or("", |_| "*");
    money(price::cost(finding.price)) + star
}

/// `* table of 2026-09-24`.
fn caveats<'a>(findings: impl IntoIterator<Item = &'a ScanFinding>) -> Option<String> {
    let caveats = price::caveats(findings.into_iter().filter_map(|finding| finding.price))?;
    Some(format!("* {caveats}; the sums contain it."))
}

/// USD of a month, to the cent.
fn money(rate: Option<Rate>) -> String {
    rate.map(Rate::usd_cents_per_month).map_or("unknown".to_owned(), money::usd)
}

/// The amount without its sign.
fn format_number(amount: Amount) -> String {
    amount.to_string().trim_start_matches('$').to_owned()
}

fn kinds(finding: &ScanFinding) -> String {
    finding.kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

fn cell(text: &str) -> String {
    plain(&shortened(text, CELL_CHARACTERS_MAX))
}

fn listed<'a>(regions: impl ExactSizeIterator<Item = &'a Region>) -> String {
    let more = regions.len().saturating_sub(REGIONS_NAMED_MAX);
    let named: Vec<&str> = regions.take(REGIONS_NAMED_MAX).map(Region::as_str).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
