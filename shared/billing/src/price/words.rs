//! Prices in words, each with its caveat.

use std::collections::BTreeSet;

use model::known_sum::KnownSum;
use model::money;
use model::money::Rate;

use super::{PriceSource, Quote, cost, rate};

/// A price for people, with its caveat: `$55.04/h ($40,179 a month; table of 2026-09-24)`; or that it is unknown. Of what is paid for anyway both
/// figures: what it costs, and that a stop saves nothing.
#[must_use]
pub fn format_quote(quote: Option<Quote>) -> String {
    if let Some(Quote { source: PriceSource::Prepaid { costs }, .. }) = quote {
        return format!("{}, of which a stop saves nothing", money::format_rate(costs));
    }
    shown(rate(quote), quote.and_then(|quote| quote.source.caveat()))
}

/// The sum of several costs, with what it lacks. If stops save less, both figures.
#[must_use]
pub fn format_quote_sum(quotes: impl Iterator<Item = Option<Quote>> + Clone) -> String {
    let costs = KnownSum::from_parts(quotes.clone().map(cost));
    let saves = KnownSum::from_parts(quotes.clone().map(rate));
    if costs.known().is_none() && saves.known().is_none() {
        return money::format_rate(None);
    }
    let is_less = saves.known().is_some_and(|saves| costs.known() != Some(saves));
    let saving = saves.to_string();
    let costs_more = if is_less { format!(", of which stops save {saving}") } else { String::new() };
    let known = quotes.flatten();
    costs.describe(|rate| shown(Some(rate), caveats(known.clone()))) + &costs_more
}

/// Formats an amount that is too small for an hour: `$8.00 a month (table of 2026-09-30)`.
#[must_use]
pub fn format_monthly_quote(quote: Option<Quote>) -> String {
    with_caveats(money::format_monthly_rate(rate(quote)), quote.into_iter())
}

/// `It costs $1.01/h ($734 a month; table of 2026-09-30)`, or that the price is unknown; without a full stop.
#[must_use]
pub fn describe_cost(quote: Option<Quote>) -> String {
    if let Some(Quote { source: PriceSource::Prepaid { costs: None }, .. }) = quote {
        return "Its price is unknown, and a stop saves nothing of it".to_owned();
    }
    quote.map_or("Its price is unknown".to_owned(), |_| format!("It costs {}", format_quote(quote)))
}

/// `That saves $1.01/h ($734 a month; table of 2026-09-30).`
#[must_use]
pub fn describe_saving(quote: Option<Quote>) -> String {
    match quote {
        None => "What that saves is unknown.".to_owned(),
        Some(Quote { source: PriceSource::Prepaid { .. }, .. }) => {
            "That saves nothing: its capacity is paid for anyway.".to_owned()
        }
        Some(_) => format!("That saves {}.", format_quote(quote)),
    }
}

/// [`describe_cost`] by the month, for volumes.
#[must_use]
pub fn describe_monthly_cost(quote: Option<Quote>) -> String {
    quote.map_or("Its price is unknown".to_owned(), |_| format!("It costs {}", format_monthly_quote(quote)))
}

/// A figure that is made of these prices, with their caveats.
#[must_use]
pub fn with_caveats(figure: String, quotes: impl Iterator<Item = Quote>) -> String {
    figure + &caveats(quotes).map(|caveats| format!(" ({caveats})")).unwrap_or_default()
}

fn shown(rate: Option<Rate>, caveat: Option<String>) -> String {
    let shown = money::format_rate(rate);
    match (caveat, shown.strip_suffix(')')) {
        (Some(caveat), Some(shown)) => format!("{shown}; {caveat})"),
        _ => shown,
    }
}

/// The caveats of several prices, each once: `table of 2026-09-24`; `None` if there are none.
#[must_use]
pub fn caveats(quotes: impl Iterator<Item = Quote>) -> Option<String> {
    let caveats: BTreeSet<String> = quotes.filter_map(|quote| quote.source.caveat()).collect();
    (!caveats.is_empty()).then(|| caveats.into_iter().collect::<Vec<_>>().join(", "))
}
