//! A filter policy, by which SNS decides which messages a subscription receives.
//!
//! Source of the rules: SNS developer guide, "Amazon SNS subscription filter policies" (sns-subscription-filter-policies.html) and its
//! pages "Filter policy scope", "Filter policy constraints", "String value matching", "Numeric value matching", "Key matching" and
//! "AND/OR logic". Where these pages leave a case open or contradict each other, the result is [`Delivery::Unknown`].
//!
//! SNS also limits a policy to 5 keys and 150 combinations of values. The evaluation visits each condition once, so that it needs neither.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::discriminant;
use std::net::IpAddr;

use serde_json::{Map, Value};

/// "Filter policy constraints": the maximum size of a policy.
const POLICY_BYTES_MAX: usize = 256 * 1024;
/// "Filter policy constraints": SNS compares numbers up to a billion, with five digits after the decimal point.
const NUMBER_MAX: f64 = 1e9;
const NUMBER_ACCURACY: f64 = 1e-5;

/// Operators, none of which may be a key in an object of `$or` ("AND/OR logic").
const OPERATORS: [&str; 8] =
    ["anything-but", "cidr", "equals-ignore-case", "exists", "numeric", "prefix", "suffix", "wildcard"];

/// Decision of SNS about one message. `min` is the result of conditions that must all hold, `max` of alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    FilteredOut,
    /// Result that Curfew cannot predict. Such a subscription is no reader.
    Unknown,
    Delivered,
}

impl Delivery {
    const fn from_match(matches: bool) -> Self {
        if matches { Self::Delivered } else { Self::FilteredOut }
    }

    const fn negate(self) -> Self {
        match self {
            Self::FilteredOut => Self::Delivered,
            Self::Unknown => Self::Unknown,
            Self::Delivered => Self::FilteredOut,
        }
    }
}

/// Part of a message that the policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterPolicyScope {
    MessageAttributes,
    MessageBody,
}

/// A filter policy that was read. Its nesting is limited by `serde_json`, which refuses 128 levels.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPolicy {
    scope: FilterPolicyScope,
    rules: Map<String, Value>,
}

/// Reason for which a filter policy cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterPolicyError {
    TooLarge,
    /// No JSON object, or one with the same key twice.
    InvalidJson,
    UnknownScope,
}

impl fmt::Display for FilterPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the filter policy is larger than 256 KiB",
            Self::InvalidJson => "the filter policy is not a JSON object with distinct keys",
            Self::UnknownScope => "the filter policy has an unknown scope",
        })
    }
}

impl std::error::Error for FilterPolicyError {}

impl FilterPolicy {
    /// Reads the attributes `FilterPolicy` and `FilterPolicyScope` of a subscription. An empty `scope` is the default one.
    ///
    /// # Errors
    /// If the policy is too large, no JSON object, or of an unknown scope.
    pub fn parse(json: &str, scope: &str) -> Result<Self, FilterPolicyError> {
        let scope = match scope {
            "" | "MessageAttributes" => FilterPolicyScope::MessageAttributes,
            "MessageBody" => FilterPolicyScope::MessageBody,
            _ => return Err(FilterPolicyError::UnknownScope),
        };
        if json.len() > POLICY_BYTES_MAX {
            return Err(FilterPolicyError::TooLarge);
        }
        match serde_json::from_str(json) {
            Ok(rules) if has_distinct_keys(json, &rules) => Ok(Self { scope, rules }),
            _ => Err(FilterPolicyError::InvalidJson),
        }
    }

    /// Predicts whether SNS delivers a message. An attribute of type `String` is a JSON string, one of type `Number` a number.
    #[must_use]
    pub fn evaluate(&self, attributes: &Map<String, Value>, body: &str) -> Delivery {
        // The AWS CLI's `set-subscription-attributes` removes a policy by `{}`.
        if self.rules.is_empty() {
            return Delivery::Delivered;
        }
        // "Amazon SNS message filtering": a policy for the body assumes that this is a JSON object.
        let body: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
        let properties = match self.scope {
            FilterPolicyScope::MessageAttributes => attributes,
            FilterPolicyScope::MessageBody => &body,
        };
        // "Key matching": not even `"exists": false` matches a message without properties.
        if properties.is_empty() { Delivery::FilteredOut } else { self.evaluate_rules(&self.rules, properties) }
    }

    fn evaluate_rules(&self, rules: &Map<String, Value>, properties: &Map<String, Value>) -> Delivery {
        let evaluate = |(key, rule): (&String, &Value)| match rule {
            Value::Array(alternatives) if key == "$or" && is_or(alternatives) => {
                let policies = alternatives.iter().filter_map(Value::as_object);
                policies.map(|rules| self.evaluate_rules(rules, properties)).max().unwrap_or(Delivery::Unknown)
            }
            // LocalStack's filter.py reports that SNS also matches nested keys by `a.b`; the pages do not mention it.
            _ if self.scope == FilterPolicyScope::MessageBody && key.contains('.') => Delivery::Unknown,
            Value::Array(conditions) => {
                let property = properties.get(key);
                let deliveries = conditions.iter().map(|condition| evaluate_condition(condition, property));
                deliveries.max().unwrap_or(Delivery::Unknown)
            }
            Value::Object(nested) if self.scope == FilterPolicyScope::MessageBody => match properties.get(key) {
                Some(Value::Object(inner)) => self.evaluate_rules(nested, inner),
                Some(Value::Array(_)) => Delivery::Unknown,
                _ => self.evaluate_rules(nested, &Map::new()),
            },
            _ => Delivery::Unknown,
        };
        rules.iter().map(evaluate).min().unwrap_or(Delivery::Unknown)
    }
}

/// Returns `true` for at least two objects without an operator as key. Any other `$or` is the name of a property ("AND/OR logic").
fn is_or(alternatives: &[Value]) -> bool {
    let is_rules = |alternative: &Value| {
        let rules = alternative.as_object();
        rules.is_some_and(|rules| !rules.keys().any(|key| OPERATORS.contains(&key.as_str())))
    };
    alternatives.len() > 1 && alternatives.iter().all(is_rules)
}

fn evaluate_condition(condition: &Value, property: Option<&Value>) -> Delivery {
    let operation = match condition {
        // SNS refuses more than one operator in a condition.
        Value::Object(operation) if operation.len() != 1 => return Delivery::Unknown,
        Value::Object(operation) => operation.iter().next(),
        Value::Array(_) => return Delivery::Unknown,
        _ => None,
    };
    if let Some((operator, operand)) = operation
        && operator == "exists"
    {
        return evaluate_exists(operand, property);
    }
    let Some(property) = property else {
        let is_known = operation.is_none_or(|(operator, _)| OPERATORS.contains(&operator.as_str()));
        return if is_known { Delivery::FilteredOut } else { Delivery::Unknown };
    };
    let evaluate = |value: &Value| match (operation, value) {
        (_, Value::Object(_) | Value::Array(_)) => Delivery::Unknown,
        // "Filter policy constraints": a policy has to escape these two twice, or it does not match.
        (_, Value::String(text)) if text.contains(['"', '\\']) => Delivery::Unknown,
        (None, value) => match_literal(condition, value),
        (Some((operator, operand)), value) => match_operator(operator, operand, value),
    };
    match property {
        Value::Array(values) if operation.is_some_and(|(operator, _)| operator == "anything-but") => {
            // "String value matching" has said both of such an array: one value that is not excluded suffices, and none may be excluded.
            let results: BTreeSet<Delivery> = values.iter().map(evaluate).collect();
            results.first().copied().filter(|_| results.len() == 1).unwrap_or(Delivery::Unknown)
        }
        Value::Array(values) => values.iter().map(evaluate).max().unwrap_or(Delivery::Unknown),
        value => evaluate(value),
    }
}

/// "Key matching": `exists` is for leaves, and `true` needs a value that is neither null nor empty.
fn evaluate_exists(operand: &Value, property: Option<&Value>) -> Delivery {
    let Value::Bool(must_exist) = operand else { return Delivery::Unknown };
    match property {
        Some(Value::Null | Value::Object(_)) => Delivery::Unknown,
        Some(Value::String(text)) if text.is_empty() => Delivery::Unknown,
        Some(Value::Array(values)) if values.is_empty() => Delivery::Unknown,
        property => Delivery::from_match(property.is_some() == *must_exist),
    }
}

fn match_literal(literal: &Value, value: &Value) -> Delivery {
    match (literal, value) {
        (Value::Number(_), Value::Number(_)) => match_comparison("=", literal, value),
        (Value::String(text), other) | (other, Value::String(text)) if !other.is_string() => may_be_equal(text, other),
        _ => Delivery::from_match(literal == value),
    }
}

/// A text against a number or keyword: the pages do not say whether `"100"` is the number 100, or `"true"` the keyword.
fn may_be_equal(text: &str, other: &Value) -> Delivery {
    let may_be = match other {
        Value::Number(_) => text.trim().parse::<f64>().is_ok(),
        other => text.trim().eq_ignore_ascii_case(&other.to_string()),
    };
    if may_be { Delivery::Unknown } else { Delivery::FilteredOut }
}

fn match_operator(operator: &str, operand: &Value, value: &Value) -> Delivery {
    match (operator, operand) {
        ("anything-but", Value::Object(inner)) => match inner.iter().next() {
            Some((operator, operand))
                if inner.len() == 1
                    && value.is_string()
                    && matches!(operator.as_str(), "prefix" | "suffix" | "wildcard") =>
            {
                match_text(operator, operand, value).negate()
            }
            _ => Delivery::Unknown,
        },
        ("anything-but", Value::Array(excluded)) => match_none(excluded, value),
        ("anything-but", excluded) => match_none(std::slice::from_ref(excluded), value),
        ("numeric", Value::Array(comparisons)) => match comparisons.as_slice() {
            [Value::String(operator), bound] => match_comparison(operator, bound, value),
            [Value::String(lower_operator), lower, Value::String(upper_operator), upper] => {
                let above = match_comparison(lower_operator, lower, value);
                above.min(match_comparison(upper_operator, upper, value))
            }
            _ => Delivery::Unknown,
        },
        _ => match_text(operator, operand, value),
    }
}

/// `anything-but` with a list. Its values and the message's must be of one type: the pages show no other.
fn match_none(excluded: &[Value], value: &Value) -> Delivery {
    if excluded.iter().any(|one| discriminant(one) != discriminant(value)) {
        return Delivery::Unknown;
    }
    excluded.iter().map(|one| match_literal(one, value)).max().map_or(Delivery::Unknown, Delivery::negate)
}

fn match_comparison(operator: &str, bound: &Value, value: &Value) -> Delivery {
    let Some(bound_number) = bound.as_f64() else { return Delivery::Unknown };
    let number = match value {
        Value::String(text) => return may_be_equal(text, bound),
        value => match value.as_f64() {
            Some(number) => number,
            None => return Delivery::FilteredOut,
        },
    };
    let difference = number - bound_number;
    if number.abs().max(bound_number.abs()) > NUMBER_MAX || (difference != 0.0 && difference.abs() < NUMBER_ACCURACY) {
        return Delivery::Unknown;
    }
    Delivery::from_match(match operator {
        "=" => difference == 0.0,
        "<" => difference < 0.0,
        "<=" => difference <= 0.0,
        ">" => difference > 0.0,
        ">=" => difference >= 0.0,
        _ => return Delivery::Unknown,
    })
}

fn match_text(operator: &str, operand: &Value, value: &Value) -> Delivery {
    let Some(pattern) = operand.as_str().filter(|pattern| !pattern.is_empty()) else { return Delivery::Unknown };
    let Some(text) = value.as_str() else { return Delivery::Unknown };
    match operator {
        "prefix" => Delivery::from_match(text.starts_with(pattern)),
        "suffix" => Delivery::from_match(text.ends_with(pattern)),
        "equals-ignore-case" if text.eq_ignore_ascii_case(pattern) => Delivery::Delivered,
        "equals-ignore-case" if text.is_ascii() && pattern.is_ascii() => Delivery::FilteredOut,
        // EventBridge refuses `**` and knows escapes; the pages of SNS mention neither.
        "wildcard" if !pattern.contains("**") && !pattern.contains('\\') => {
            Delivery::from_match(matches_wildcard(pattern, text))
        }
        "cidr" => match_cidr(pattern, text),
        _ => Delivery::Unknown,
    }
}

/// Returns `true` if the text is the pattern with any characters in place of each `*`.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let text = text.strip_prefix(first).and_then(|text| text.strip_suffix(last));
    let find = |text: &str, part: &str| text.find(part).map(|at| at + part.len());
    text.is_some_and(|text| {
        let mut remaining = Some(text);
        for part in middle.split('*') {
            remaining = remaining.and_then(|text| find(text, part).and_then(|end| text.get(end..)));
        }
        remaining.is_some()
    })
}

/// "IP address matching": `10.0.0.0/24` holds the addresses 10.0.0.0 to 10.0.0.255.
fn match_cidr(pattern: &str, text: &str) -> Delivery {
    let Some((network, prefix_length)) = pattern.split_once('/') else { return Delivery::Unknown };
    let (Ok(network), Ok(prefix_length)) = (network.parse::<IpAddr>(), prefix_length.parse::<u32>()) else {
        return Delivery::Unknown;
    };
    let (network, width) = to_bits(network);
    let Some(host_width) = width.checked_sub(prefix_length) else { return Delivery::Unknown };
    let Ok(address) = text.parse::<IpAddr>() else { return Delivery::FilteredOut };
    let network_bits = |bits: u128| bits.checked_shr(host_width).unwrap_or(0);
    let (address, address_width) = to_bits(address);
    Delivery::from_match(address_width == width && network_bits(address) == network_bits(network))
}

fn to_bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), u32::BITS),
        IpAddr::V6(address) => (address.to_bits(), u128::BITS),
    }
}

/// Returns `true` if no object of the JSON text has a key twice: SNS may use either value. Each key has one colon outside of strings.
fn has_distinct_keys(json: &str, parsed: &Map<String, Value>) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_colon = |byte: &u8| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        *byte == b':' && !is_quoted
    };
    let keys: usize = parsed.values().map(|value| 1 + count_keys(value)).sum();
    json.bytes().filter(is_colon).count() == keys
}

fn count_keys(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(count_keys).sum(),
        Value::Object(object) => object.values().map(|value| 1 + count_keys(value)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
