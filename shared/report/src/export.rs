//! The charges of a month as CSV: by resource, team and day, for a spreadsheet or in columns of FOCUS (`FinOps` Open Cost and Usage
//! Specification 1.0).

use billing::ledger::{LedgerRun, PurchaseTerms, RunCost, RunKind, RunShare, TimeSpan};
use jiff::Timestamp;
use jiff::civil::Date;
use model::fault::one_line;
use model::money::Amount;

use crate::MonthFacts;
use crate::spend::{day_windows, team_label};

/// Longest text of a cell.
const TEXT_CHARACTERS_MAX: usize = 256;

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
    /// Label of the team; `None` for all.
    pub team: Option<&'a str>,
}

/// Cost of a resource, or of resources that the ledger keeps only as a sum, on one day, for one team.
#[derive(Debug, Default)]
struct Charge {
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
    name: &'static str,
}

/// Writes the charges of the month, by day.
#[must_use]
pub fn export(facts: &MonthFacts, scope: ExportScope<'_>, format: ExportFormat) -> String {
    let month = facts.month.span();
    let span = TimeSpan { from: month.from, to: month.to.min(facts.now).max(month.from) };
    let mut charges = charges(facts, span);
    charges.retain(|charge| scope.team.is_none_or(|team| charge.team == team));
    charges.sort_by(|one, other| {
        (one.day, &one.team, &one.resource, one.span.from).cmp(&(
            other.day,
            &other.team,
            &other.resource,
            other.span.from,
        ))
    });
    let account = scope.account.unwrap_or_default();
    let columns = |charge: &Charge| match format {
        ExportFormat::Csv => charge.csv_columns(account),
        ExportFormat::Focus => charge.focus_columns(account, month),
    };
    let mut text = String::new();
    write_line(&mut text, columns(&Charge::default()).iter().map(|(name, _)| *name));
    for charge in &charges {
        write_line(&mut text, columns(charge).iter().map(|(_, value)| value.as_str()));
    }
    text
}

fn charges(facts: &MonthFacts, span: TimeSpan) -> Vec<Charge> {
    let days = day_windows(span, &facts.zone);
    let mut charges = Vec::new();
    for ledger in &facts.ledgers {
        let within = span.within(ledger.span());
        for run in ledger.runs() {
            for share in run.shares(within) {
                let first = days.partition_point(|(_, window)| window.to <= share.span.from);
                let of_share = days.iter().skip(first).take_while(|(_, window)| window.from < share.span.to);
                let of_day = of_share.map(|(day, window)| Charge::new(&run, &share, *day, share.span.within(*window)));
                charges.extend(of_day.filter(|charge| charge.seconds != Some(0) || charge.cost != RunCost::default()));
            }
        }
        let region = ledger.region().map(ToString::to_string).unwrap_or_default();
        charges.extend(ledger.folded().map(|(key, sum)| Charge {
            day: facts.zone.to_datetime(key.span().from.max(within.from)).date(),
            span: key.span().within(within),
            region: region.clone(),
            name: format!("{} resources, kept as a sum", sum.runs),
            team: team_label(key.team.as_ref()),
            service: service(key.kind),
            what: key.what.clone(),
            cost: sum.spent,
            ..Charge::default()
        }));
    }
    charges
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

    fn focus_columns(&self, account: &str, month: TimeSpan) -> Vec<(&'static str, String)> {
        let text = |text: &str| text.to_owned();
        let hours = self
            .seconds
            .map(|seconds| format!("{}.{:04}", seconds / 3_600, (seconds % 3_600).saturating_mul(10_000) / 3_600));
        vec![
            ("BilledCost", self.cost()),
            // The account that pays the bill; Curfew knows only the one that it runs in.
            ("BillingAccountId", String::new()),
            ("BillingCurrency", text("USD")),
            ("BillingPeriodStart", moment(month.from)),
            ("BillingPeriodEnd", moment(month.to)),
            ("ChargeCategory", text("Usage")),
            ("ChargeClass", String::new()),
            ("ChargeDescription", format!("{}, estimated by Curfew", self.what)),
            ("ChargeFrequency", text("Usage-Based")),
            ("ChargePeriodStart", moment(self.span.from)),
            ("ChargePeriodEnd", moment(self.span.to)),
            ("ConsumedQuantity", hours.unwrap_or_default()),
            ("ConsumedUnit", text(if self.seconds.is_some() { "Hours" } else { "" })),
            ("ContractedCost", String::new()),
            ("EffectiveCost", self.cost()),
            ("InvoiceIssuerName", text("Amazon Web Services")),
            ("ListCost", String::new()),
            ("PricingCategory", text(self.pricing)),
            ("ProviderName", text("Amazon Web Services")),
            ("PublisherName", text("Amazon Web Services")),
            ("RegionId", self.region.clone()),
            ("ResourceId", self.resource.clone()),
            ("ResourceName", self.name.clone()),
            ("ResourceType", text(self.service.kind)),
            ("ServiceCategory", text(self.service.category)),
            ("ServiceName", text(self.service.name)),
            ("SubAccountId", account.to_owned()),
            ("x_InstanceType", self.what.clone()),
            ("x_Team", self.team.clone()),
            ("x_Owner", self.owner.clone()),
            ("x_Job", self.job.clone()),
            ("x_UncertainCost", micros(self.cost.uncertain)),
            ("x_UnpricedSeconds", self.cost.unpriced_seconds.to_string()),
        ]
    }
}

const fn service(kind: RunKind) -> Service {
    match kind {
        RunKind::Instance => Service { kind: "instance", category: "Compute", name: "Amazon Elastic Compute Cloud" },
        RunKind::Volume => Service { kind: "volume", category: "Storage", name: "Amazon Elastic Block Store" },
        RunKind::SageMaker => {
            Service { kind: "sagemaker", category: "AI and Machine Learning", name: "Amazon SageMaker" }
        }
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

fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn micros(amount: Amount) -> String {
    let micros = amount.usd_micros();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn write_line<'a>(text: &mut String, cells: impl Iterator<Item = &'a str>) {
    let line: Vec<String> = cells.map(cell).collect();
    text.push_str(&line.join(","));
    text.push('\n');
}

/// A cell (RFC 4180) of one line. A spreadsheet runs a text from a tag that begins as a formula (OWASP, "CSV Injection"): an apostrophe
/// before it makes it a text.
fn cell(text: &str) -> String {
    let line = one_line(text, TEXT_CHARACTERS_MAX);
    let is_formula = line.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '|', '%']);
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, line.replace('"', "\"\""))
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
        check("", r#""""#);
        check("=HYPERLINK(\"http://x\")", r#""'=HYPERLINK(""http://x"")""#);
        for begin in ["+", "-", "@", " =", "\t=", "＝"] {
            assert!(cell(&format!("{begin}1")).starts_with("\"'"), "{begin:?}");
        }
        assert!(!cell("a\r\nb").contains(['\r', '\n']));
    }
}
