//! The charges of a month as CSV: by resource, team and day, for a spreadsheet or in columns of FOCUS (`FinOps` Open Cost and Usage
//! Specification 1.2).

mod sums;

use billing::ledger::{LedgerRun, PurchaseTerms, RunCost, RunKind, RunShare, TimeSpan};
use jiff::Timestamp;
use jiff::civil::Date;
use model::fault::one_line;
use model::money::Amount;

use crate::MonthFacts;
use crate::spend::{day_windows, team_label};

use sums::ChargeList;

/// Longest text of a cell.
const TEXT_CHARACTERS_MAX: usize = 256;

/// Lines of the file in the bucket, some 30 MB. `send-report` has 512 MB, which also hold the ledgers.
const BUCKET_LINES_MAX: usize = 50_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One line for each resource, team and day.
    Csv,
    /// The same lines in columns of FOCUS. Those that Curfew does not know are empty.
    Focus,
}

/// The part of the month that is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportScope<'a> {
    /// Number of the account, if it is known.
    pub account: Option<&'a str>,
    /// Name of the account, if the configuration has one.
    pub account_name: Option<&'a str>,
    /// Label of the team; `None` for all.
    pub team: Option<&'a str>,
    /// Above so many lines, sums by day, region, team and type replace the resources.
    pub lines_max: Option<usize>,
}

/// Cost of a resource, or of resources that the ledger keeps only as a sum, on one day, for one team.
#[derive(Debug, Clone, Default)]
pub(crate) struct Charge {
    day: Date,
    span: TimeSpan,
    region: String,
    resource: String,
    name: String,
    owner: String,
    team: String,
    job: String,
    service: Service,
    what: String,
    terms: &'static str,
    pricing: &'static str,
    /// `None` for a sum of resources.
    seconds: Option<u64>,
    cost: RunCost,
}

/// Service in FOCUS.
#[derive(Debug, Clone, Copy, Default)]
struct Service {
    kind: &'static str,
    category: &'static str,
    subcategory: &'static str,
    name: &'static str,
}

/// Writes the charges of the month, by day.
#[must_use]
pub fn export(facts: &MonthFacts, scope: ExportScope<'_>, format: ExportFormat) -> String {
    let month = facts.month.span();
    let span = TimeSpan { from: month.from, to: month.to.min(facts.now).max(month.from) };
    let mut list = ChargeList::new(scope.lines_max);
    collect(facts, span, |charge| {
        if scope.team.is_none_or(|team| charge.team == team) {
            list.add(charge);
        }
    });
    let mut charges = list.finish();
    charges.sort_by(|one, other| {
        (one.day, &one.team, &one.resource, one.span.from).cmp(&(
            other.day,
            &other.team,
            &other.resource,
            other.span.from,
        ))
    });
    let columns = |charge: &Charge| match format {
        ExportFormat::Csv => charge.csv_columns(scope.account.unwrap_or_default()),
        ExportFormat::Focus => charge.focus_columns(scope, month),
    };
    let mut text = String::new();
    write_line(&mut text, columns(&Charge::default()).iter().map(|(name, _)| *name));
    for charge in &charges {
        write_line(&mut text, columns(charge).iter().map(|(_, value)| value.as_str()));
    }
    text
}

/// Writes the month's file for the bucket; `None` if a ledger is missing, because the earlier file then knows more.
#[must_use]
pub fn bucket_export(facts: &MonthFacts, account: Option<&str>, account_name: Option<&str>) -> Option<String> {
    let scope = ExportScope { account, account_name, team: None, lines_max: Some(BUCKET_LINES_MAX) };
    let is_complete = !facts.ledgers.is_empty() && facts.unread_ledgers == 0;
    is_complete.then(|| export(facts, scope, ExportFormat::Focus))
}

fn collect(facts: &MonthFacts, span: TimeSpan, mut take: impl FnMut(Charge)) {
    let days = day_windows(span, &facts.zone);
    for ledger in &facts.ledgers {
        let within = span.within(ledger.span());
        for run in ledger.runs() {
            for share in run.shares(within) {
                let first = days.partition_point(|(_, window)| window.to <= share.span.from);
                let of_share = days.iter().skip(first).take_while(|(_, window)| window.from < share.span.to);
                let of_day = of_share.map(|(day, window)| Charge::new(&run, &share, *day, share.span.within(*window)));
                of_day
                    .filter(|charge| charge.seconds != Some(0) || charge.cost != RunCost::default())
                    .for_each(&mut take);
            }
        }
        let region = ledger.region().map(ToString::to_string).unwrap_or_default();
        for (key, sum) in ledger.folded() {
            take(Charge {
                day: facts.zone.to_datetime(key.span().from.max(within.from)).date(),
                span: key.span().within(within),
                region: region.clone(),
                name: format!("{} resources, kept as a sum", sum.runs),
                team: team_label(key.team.as_ref()),
                service: service(key.kind),
                what: key.what.clone(),
                cost: sum.spent,
                ..Charge::default()
            });
        }
    }
}

impl Charge {
    fn new(run: &LedgerRun<'_>, share: &RunShare<'_>, day: Date, span: TimeSpan) -> Self {
        let (terms, pricing) = terms(run.terms());
        Self {
            day,
            span,
            region: run.region.map(ToString::to_string).unwrap_or_default(),
            resource: run.resource.to_string(),
            name: run.name().unwrap_or_default().to_owned(),
            owner: run.owner().unwrap_or_default().to_owned(),
            team: team_label(share.team),
            job: share.job.unwrap_or_default().to_owned(),
            service: service(run.kind()),
            what: share.what.to_owned(),
            terms,
            pricing,
            seconds: Some(run.running_time(span).least_seconds),
            cost: run.spent(span),
        }
    }

    /// Spend of a team in that span, on resources of several services.
    pub(crate) fn sum_of_team(team: &str, span: TimeSpan, cost: RunCost) -> Self {
        let what = "all GPU resources of the team".to_owned();
        Self { span, team: team.to_owned(), service: SUM_OF_SERVICES, what, pricing: "Other", cost, ..Self::default() }
    }

    /// Returns the known cost; empty, and not zero, if no price is known.
    fn cost(&self) -> String {
        let is_unknown = self.cost.amount == Amount::ZERO && self.cost.unpriced_seconds > 0;
        if is_unknown { String::new() } else { micros(self.cost.amount) }
    }

    fn csv_columns(&self, account: &str) -> Vec<(&'static str, String)> {
        vec![
            ("day", self.day.to_string()),
            ("account", account.to_owned()),
            ("region", self.region.clone()),
            ("team", self.team.clone()),
            ("owner", self.owner.clone()),
            ("job", self.job.clone()),
            ("resource", self.resource.clone()),
            ("name", self.name.clone()),
            ("kind", self.service.kind.to_owned()),
            ("type", self.what.clone()),
            ("terms", self.terms.to_owned()),
            ("seconds", self.seconds.map(|seconds| seconds.to_string()).unwrap_or_default()),
            ("cost_usd", self.cost()),
            ("uncertain_usd", micros(self.cost.uncertain)),
            ("unpriced_seconds", self.cost.unpriced_seconds.to_string()),
        ]
    }

    pub(crate) fn focus_columns(&self, scope: ExportScope<'_>, month: TimeSpan) -> Vec<(&'static str, String)> {
        let text = |text: &str| text.to_owned();
        let account_text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let hours = self
            .seconds
            .map(|seconds| format!("{}.{:04}", seconds / 3_600, (seconds % 3_600).saturating_mul(10_000) / 3_600));
        let hours = hours.unwrap_or_default();
        let unit = text(if hours.is_empty() { "" } else { "Hours" });
        vec![
            ("BilledCost", self.cost()),
            // The account that pays the bill; Curfew knows only the one that it runs in.
            ("BillingAccountId", String::new()),
            ("BillingAccountName", String::new()),
            ("BillingCurrency", text("USD")),
            ("BillingPeriodStart", moment(month.from)),
            ("BillingPeriodEnd", moment(month.to)),
            ("ChargeCategory", text("Usage")),
            ("ChargeClass", String::new()),
            ("ChargeDescription", format!("{}, estimated by Curfew", self.what)),
            ("ChargeFrequency", text("Usage-Based")),
            ("ChargePeriodStart", moment(self.span.from)),
            ("ChargePeriodEnd", moment(self.span.to)),
            ("ConsumedQuantity", hours.clone()),
            ("ConsumedUnit", unit.clone()),
            // The price less the account's discount, which is the agreed one.
            ("ContractedCost", self.cost()),
            ("EffectiveCost", self.cost()),
            ("InvoiceIssuerName", text("Amazon Web Services")),
            ("ListCost", String::new()),
            ("PricingCategory", text(self.pricing)),
            ("PricingQuantity", hours),
            ("PricingUnit", unit),
            ("ProviderName", text("Amazon Web Services")),
            ("PublisherName", text("Amazon Web Services")),
            ("RegionId", self.region.clone()),
            ("ResourceId", self.resource.clone()),
            ("ResourceName", self.name.clone()),
            ("ResourceType", text(self.service.kind)),
            ("ServiceCategory", text(self.service.category)),
            ("ServiceName", text(self.service.name)),
            ("ServiceSubcategory", text(self.service.subcategory)),
            ("SubAccountId", account_text(scope.account)),
            ("SubAccountName", account_text(scope.account_name)),
            ("x_InstanceType", self.what.clone()),
            ("x_Team", self.team.clone()),
            ("x_Owner", self.owner.clone()),
            ("x_Job", self.job.clone()),
            // Every cost is one: no invoice has it.
            ("x_IsEstimate", text("true")),
            ("x_UncertainCost", micros(self.cost.uncertain)),
            ("x_UnpricedSeconds", self.cost.unpriced_seconds.to_string()),
        ]
    }
}

/// Service of a charge that is the sum of several.
const SUM_OF_SERVICES: Service =
    Service { kind: "sum", category: "Other", subcategory: "Other (Other)", name: "Curfew" };

const fn service(kind: RunKind) -> Service {
    match kind {
        RunKind::Instance => Service {
            kind: "instance",
            category: "Compute",
            subcategory: "Virtual Machines",
            name: "Amazon Elastic Compute Cloud",
        },
        RunKind::Volume => Service {
            kind: "volume",
            category: "Storage",
            subcategory: "Block Storage",
            name: "Amazon Elastic Block Store",
        },
        RunKind::SageMaker => Service {
            kind: "sagemaker",
            category: "AI and Machine Learning",
            subcategory: "Machine Learning",
            name: "Amazon SageMaker",
        },
    }
}

/// The terms, and their category in FOCUS.
const fn terms(terms: PurchaseTerms) -> (&'static str, &'static str) {
    match terms {
        PurchaseTerms::OnDemand => ("on-demand", "Standard"),
        PurchaseTerms::Spot => ("spot", "Dynamic"),
        PurchaseTerms::Reserved => ("capacity-reservation", "Standard"),
        PurchaseTerms::ManagedSpot => ("managed-spot", "Dynamic"),
        PurchaseTerms::Prepaid => ("prepaid", "Other"),
    }
}

pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn micros(amount: Amount) -> String {
    let micros = amount.usd_micros();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

pub(crate) fn write_line<'a>(text: &mut String, cells: impl Iterator<Item = &'a str>) {
    let line: Vec<String> = cells.map(cell).collect();
    text.push_str(&line.join(","));
    text.push('\n');
}

/// A cell (RFC 4180) of one line. FOCUS and most readers take a cell without quotes for null ("Null Handling"), so an unknown value has none.
/// A spreadsheet runs a text from a tag that begins as a formula (OWASP, "CSV Injection"): an apostrophe before it makes it a text.
fn cell(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let line = without_escapes(&one_line(text, TEXT_CHARACTERS_MAX));
    let is_formula = line.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '|', '%']);
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, line.replace('"', "\"\""))
}

/// Puts a blank after each backslash that Athena's reader (`OpenCSVSerde`) would take for an escape: a tag that ends in one would
/// shift the columns of its line.
fn without_escapes(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        text.push(letter);
        if letter == '\\' && letters.peek().is_none_or(|next| matches!(next, '"' | '\\')) {
            text.push(' ');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(cell(text), expect, "{text:?}");
    }

    #[test]
    fn no_cell_is_a_formula_or_ends_early() {
        check("vision", r#""vision""#);
        check("", "");
        check("=HYPERLINK(\"http://x\")", r#""'=HYPERLINK(""http://x"")""#);
        for begin in ["+", "-", "@", " =", "\t=", "＝"] {
            assert!(cell(&format!("{begin}1")).starts_with("\"'"), "{begin:?}");
        }
        assert!(!cell("a\r\nb").contains(['\r', '\n']));
    }

    #[test]
    fn no_backslash_is_an_escape() {
        check(r"CORP\ada", r#""CORP\ada""#);
        check(r"ends\", r#""ends\ ""#);
        check(r#"a\"b"#, r#""a\ ""b""#);
        check(r"\\host", r#""\ \host""#);
    }
}
