//! The examples of the AWS pages, and what they leave open.

use proptest::prelude::*;
use serde_json::json;

use super::Delivery::{Delivered, FilteredOut, Unknown};
use super::*;

fn evaluate(policy: &str, scope: &str, attributes: &Value, body: &str) -> Delivery {
    FilterPolicy::parse(policy, scope).unwrap().evaluate(attributes.as_object().unwrap(), body)
}

/// A condition for one property, against its value as attribute and in the body.
#[track_caller]
fn check(condition: &str, cases: &[(Value, Delivery)]) {
    let policy = format!(r#"{{"key": {condition}}}"#);
    for (value, expect) in cases {
        let properties = json!({ "key": value, "other": "value" });
        assert_eq!(evaluate(&policy, "MessageAttributes", &properties, ""), *expect, "{condition} {value}");
        assert_eq!(
            evaluate(&policy, "MessageBody", &json!({}), &properties.to_string()),
            *expect,
            "{condition} {value}"
        );
    }
}

#[track_caller]
fn check_policy(policy: &str, cases: &[(Value, Delivery)]) {
    for (attributes, expect) in cases {
        assert_eq!(evaluate(policy, "", attributes, ""), *expect, "{policy} {attributes}");
    }
}

fn absent(condition: &str) -> Delivery {
    evaluate(&format!(r#"{{"key": {condition}}}"#), "", &json!({ "other": "value" }), "")
}

#[test]
fn texts_match_as_the_string_page_shows() {
    check(
        r#"["rugby", "tennis"]"#,
        &[
            (json!("rugby"), Delivered),
            (json!("tennis"), Delivered),
            (json!(["rugby", "tennis"]), Delivered),
            (json!("baseball"), FilteredOut),
            (json!(["baseball"]), FilteredOut),
            (json!("Rugby"), FilteredOut),
        ],
    );
    check(r#"[{"prefix": "bas"}]"#, &[(json!("baseball"), Delivered), (json!("rugby"), FilteredOut)]);
    check(r#"[{"suffix": "ball"}]"#, &[(json!("baseball"), Delivered), (json!("rugby"), FilteredOut)]);
    check(
        r#"[{"equals-ignore-case": "tennis"}]"#,
        &[
            (json!("TENNIS"), Delivered),
            (json!("Tennis"), Delivered),
            (json!("rugby"), FilteredOut),
            (json!("ténnis"), Unknown),
        ],
    );
    check(
        r#"[{"cidr": "10.0.0.0/24"}]"#,
        &[
            (json!("10.0.0.0"), Delivered),
            (json!("10.0.0.255"), Delivered),
            (json!("10.1.1.0"), FilteredOut),
            (json!("::10.0.0.1"), FilteredOut),
            (json!("nlp"), FilteredOut),
        ],
    );
    check(r#"[{"cidr": "2001:db8::/32"}]"#, &[(json!("2001:db8::7"), Delivered), (json!("2001:db9::"), FilteredOut)]);
    check(r#"[{"cidr": "0.0.0.0/0"}]"#, &[(json!("192.0.2.1"), Delivered), (json!("::1"), FilteredOut)]);
    for malformed in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", ""] {
        check(&format!(r#"[{{"cidr": "{malformed}"}}]"#), &[(json!("10.0.0.0"), Unknown)]);
    }
}

#[test]
fn wildcards_stand_for_any_characters() {
    let cases = [
        ("*ball", "baseball", true),
        ("*ball", "ball", true),
        ("*ball", "balls", false),
        ("nl*", "nlp", true),
        ("log-*-2025.txt", "log-app-2025.txt", true),
        ("*/src/*.js", "app/src/index.js", true),
        ("*/src/*.js", "app/src.js", false),
        ("*a*b*c*", "-a-b-c-", true),
        ("*a*b*c*", "-b-a-c-", false),
        ("aa*aa", "aaa", false),
        ("*", "", true),
        ("é*", "éa", true),
        ("nlp", "nlp", true),
        ("nlp", "nlp2", false),
    ];
    for (pattern, text, expect) in cases {
        assert_eq!(matches_wildcard(pattern, text), expect, "{pattern} {text}");
    }
    check(r#"[{"wildcard": "*ball"}]"#, &[(json!("football"), Delivered), (json!("rugby"), FilteredOut)]);
    check(r#"[{"wildcard": "n**p"}]"#, &[(json!("nlp"), Unknown)]);
    check(r#"[{"wildcard": "n\\*p"}]"#, &[(json!("nlp"), Unknown)]);
}

#[test]
fn anything_but_excludes() {
    check(
        r#"[{"anything-but": ["rugby", "tennis"]}]"#,
        &[
            (json!("baseball"), Delivered),
            (json!("football"), Delivered),
            (json!("rugby"), FilteredOut),
            (json!(["soccer", "baseball"]), Delivered),
            (json!(["rugby"]), FilteredOut),
            // Two editions of the page contradict each other.
            (json!(["rugby", "baseball"]), Unknown),
        ],
    );
    check(r#"[{"anything-but": "rugby"}]"#, &[(json!("nlp"), Delivered), (json!("rugby"), FilteredOut)]);
    check(
        r#"[{"anything-but": {"prefix": "order-"}}]"#,
        &[
            (json!("data-entry"), Delivered),
            (json!("order_number"), Delivered),
            (json!("order-cancelled"), FilteredOut),
        ],
    );
    check(
        r#"[{"anything-but": {"suffix": "ball"}}]"#,
        &[(json!("rugby"), Delivered), (json!("baseball"), FilteredOut)],
    );
    check(
        r#"[{"anything-but": {"wildcard": "*ball"}}]"#,
        &[(json!("rugby"), Delivered), (json!("baseball"), FilteredOut)],
    );
    check(
        r#"[{"anything-but": [100, 500]}]"#,
        &[(json!(101), Delivered), (json!(100.1), Delivered), (json!(100), FilteredOut), (json!("nlp"), Unknown)],
    );
    for unclear in
        [r#"{"prefix": ["a"]}"#, r#"{"numeric": ["=", 1]}"#, "{}", "[]", r#"["a", 1]"#, "null", r#"{"future": "a"}"#]
    {
        check(&format!(r#"[{{"anything-but": {unclear}}}]"#), &[(json!("nlp"), Unknown)]);
    }
}

#[test]
fn numbers_match_as_the_numeric_page_shows() {
    check(
        r#"[{"numeric": ["=", 301.5]}]"#,
        &[(json!(301.5), Delivered), (json!(3.015e2), Delivered), (json!(301), FilteredOut)],
    );
    check(r#"[{"numeric": ["<", 0]}]"#, &[(json!(-1), Delivered), (json!(0), FilteredOut)]);
    check(
        r#"[{"numeric": [">", 0, "<=", 150]}]"#,
        &[(json!(150), Delivered), (json!(0), FilteredOut), (json!(151), FilteredOut)],
    );
    check(r#"[{"numeric": [">=", 100]}]"#, &[(json!(100), Delivered), (json!(99.9), FilteredOut)]);
    check("[100]", &[(json!(100.0), Delivered), (json!(101), FilteredOut)]);
    // Beyond the accuracy and the range of the constraints.
    check("[100]", &[(json!(100.000_000_1), Unknown)]);
    check("[2000000000]", &[(json!(1), Unknown), (json!(u64::MAX), Unknown)]);
    for malformed in ["[]", r#"["="]"#, r#"["!=", 1]"#, r#"["=", "1"]"#, r#"["<", 1, 2]"#, "1", r#""=""#] {
        check(&format!(r#"[{{"numeric": {malformed}}}]"#), &[(json!(1), Unknown)]);
    }
}

#[test]
fn no_page_says_whether_a_text_is_a_number() {
    for condition in ["[100]", r#"[{"numeric": ["=", 100]}]"#] {
        check(condition, &[(json!("100"), Unknown), (json!("1e2"), Unknown), (json!("nlp"), FilteredOut)]);
    }
    check(r#"["100"]"#, &[(json!(100), Unknown), (json!(true), FilteredOut)]);
    check("[true]", &[(json!(true), Delivered), (json!("true"), Unknown), (json!("nlp"), FilteredOut)]);
    check("[null]", &[(json!("null"), Unknown), (json!("nlp"), FilteredOut)]);
}

#[test]
fn exists_is_about_the_key() {
    check(r#"[{"exists": true}]"#, &[(json!("fans"), Delivered), (json!(["a"]), Delivered), (json!(""), Unknown)]);
    check(
        r#"[{"exists": false}]"#,
        &[(json!("fans"), FilteredOut), (json!(null), Unknown), (json!({ "a": 1 }), Unknown)],
    );
    check(r#"[{"exists": "true"}]"#, &[(json!("fans"), Unknown)]);
    assert_eq!(absent(r#"[{"exists": true}]"#), FilteredOut);
    assert_eq!(absent(r#"[{"exists": false}]"#), Delivered);
    assert_eq!(absent(r#"[{"anything-but": ["rugby"]}]"#), FilteredOut);
    assert_eq!(absent(r#"[{"anything-but": ["rugby"]}, {"exists": false}]"#), Delivered);
    assert_eq!(absent(r#"["rugby"]"#), FilteredOut);
    assert_eq!(absent(r#"[{"future": 1}]"#), Unknown);
    check_policy(r#"{"key": [{"exists": false}]}"#, &[(json!({}), FilteredOut)]);
}

#[test]
fn keys_must_all_match_and_objects_of_or_need_one() {
    check_policy(
        r#"{"customer_interests": ["rugby"], "price_usd": [{"numeric": [">", 100]}]}"#,
        &[
            (json!({ "customer_interests": "rugby", "price_usd": 101 }), Delivered),
            (json!({ "customer_interests": "rugby", "price_usd": 100 }), FilteredOut),
            (json!({ "customer_interests": "rugby" }), FilteredOut),
        ],
    );
    let or =
        r#"{"source": ["aws.cloudwatch"], "$or": [{"metricName": ["CPUUtilization"]}, {"namespace": ["AWS/EC2"]}]}"#;
    check_policy(
        or,
        &[
            (json!({ "source": "aws.cloudwatch", "metricName": "CPUUtilization" }), Delivered),
            (json!({ "source": "aws.cloudwatch", "namespace": "AWS/EC2" }), Delivered),
            (json!({ "source": "aws.cloudwatch", "namespace": "AWS/RDS" }), FilteredOut),
            (json!({ "namespace": "AWS/EC2" }), FilteredOut),
        ],
    );
    // A property of that name, by the page.
    check_policy(r#"{"$or": [{"numeric": 123}, {"prefix": "abc"}]}"#, &[(json!({ "a": "b" }), FilteredOut)]);
    for property in [r#"[{"a": ["b"]}]"#, "[{}, {}]"] {
        check_policy(&format!(r#"{{"$or": {property}}}"#), &[(json!({ "a": "b" }), Unknown)]);
    }
    check_policy(r#"{"$or": ["x"]}"#, &[(json!({ "$or": "x" }), Delivered), (json!({ "a": "b" }), FilteredOut)]);
    check_policy("{}", &[(json!({}), Delivered), (json!({ "a": "b" }), Delivered)]);
}

#[test]
fn an_unknown_operator_decides_only_what_is_open() {
    let team = |conditions: &str| format!(r#"{{"severity": ["warning"], "team": {conditions}}}"#);
    let message = |severity: &str| json!({ "severity": severity, "team": "nlp" });
    for unclear in [
        r#"[{"future": "x"}]"#,
        r#"[{"prefix": "n", "suffix": "p"}]"#,
        r#"[["nlp"]]"#,
        "[]",
        r#""nlp""#,
        r#"{"a": ["b"]}"#,
    ] {
        check_policy(&team(unclear), &[(message("warning"), Unknown), (message("error"), FilteredOut)]);
    }
    check_policy(&team(r#"["nlp", {"future": "x"}]"#), &[(message("warning"), Delivered)]);
    check(r#"["a\"b"]"#, &[(json!("a\"b"), Unknown)]);
}

#[test]
fn a_body_is_matched_by_nested_keys_if_it_is_json() {
    let policy = r#"{"finding": {"region": ["us-east-1"], "a": {"b": {"c": {"d": [{"exists": false}]}}}}}"#;
    let check = |policy: &str, body: &str, expect| {
        assert_eq!(evaluate(policy, "MessageBody", &json!({ "a": "b" }), body), expect, "{body}");
    };
    check(policy, r#"{"finding": {"region": "us-east-1"}}"#, Delivered);
    check(policy, r#"{"finding": {"region": "us-east-1", "a": {"b": {"c": {"d": 1}}}}}"#, FilteredOut);
    check(policy, r#"{"finding": {"region": "eu-west-1"}}"#, FilteredOut);
    check(policy, r#"{"finding": [{"region": "us-east-1"}]}"#, Unknown);
    check(policy, r#"{"finding": "us-east-1"}"#, FilteredOut);
    for other in ["Curfew stopped i-1.", "", "[]", "{}", "1", "{\"finding\":"] {
        check(policy, other, FilteredOut);
    }
    check(r#"{"a.b": ["c"]}"#, r#"{"a": {"b": "c"}}"#, Unknown);
    check(r#"{"a": ["c"]}"#, r#"{"a": [{"b": "c"}]}"#, Unknown);
    check("{}", "plain text", Delivered);
}

#[test]
fn hostile_policies_are_errors() {
    let parse = |json: &str| FilterPolicy::parse(json, "MessageBody").map(drop);
    let invalid = [
        "",
        "[]",
        "null",
        "\"a\"",
        "{",
        r#"{"a": ["b"],}"#,
        r#"{"a": [1e999]}"#,
        r#"{"a": [NaN]}"#,
        r#"{"a": ["b"], "a": ["c"]}"#,
        r#"{"a": {"b": ["c"], "b": ["d"]}}"#,
        "{} {}",
        r#"{"$or": [{"a": ["b"]}, {"a": ["b"], "c\":": ["d"], "a": ["b"]}]}"#,
    ];
    for json in invalid {
        assert_eq!(parse(json), Err(FilterPolicyError::InvalidJson), "{json}");
    }
    for json in
        [r#"{"a:": [":", "\\", "\":", {"b": "\\\":"}], "b": {"a:": []}}"#, " { } ", r#"{"\u003a": ["\u0022:"]}"#]
    {
        assert_eq!(parse(json), Ok(()), "{json}");
    }
    for (open, close) in [(r#"{"a":"#, "}"), ("[", "]")] {
        let deep = format!(r#"{{"a": {}1{}}}"#, open.repeat(100_000 / open.len()), close.repeat(100_000 / open.len()));
        assert_eq!(parse(&deep), Err(FilterPolicyError::InvalidJson));
    }
    let long = |bytes: usize| format!(r#"{{"a": ["{}"]}}"#, "x".repeat(bytes - 11));
    assert_eq!(parse(&long(POLICY_BYTES_MAX)), Ok(()));
    assert_eq!(parse(&long(POLICY_BYTES_MAX + 1)), Err(FilterPolicyError::TooLarge));
    assert_eq!(FilterPolicy::parse("{}", "MessageHeaders"), Err(FilterPolicyError::UnknownScope));
}

fn json_values() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "a",
        "",
        "*",
        "a*b",
        "10.0.0.0/8",
        "10.0.0.1",
        "=",
        "<",
        "$or",
        "1",
        "\"",
        "é",
        "anything-but",
        "cidr",
        "equals-ignore-case",
        "exists",
        "numeric",
        "prefix",
        "suffix",
        "wildcard",
        "team",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5)
                .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_policy_panics(policy in json_values(), properties in json_values(), text in ".{0,40}") {
        let properties = json!({ "team": properties, "a": "b" });
        for scope in ["MessageAttributes", "MessageBody"] {
            for json in [&policy.to_string(), &json!({ "team": policy }).to_string(), &json!({ "team": [policy] }).to_string(), &text] {
                if let Ok(policy) = FilterPolicy::parse(json, scope) {
                    let _ = policy.evaluate(properties.as_object().unwrap(), &properties.to_string());
                }
            }
        }
    }

    #[test]
    fn a_wildcard_matches_what_it_was_made_of(parts in prop::collection::vec("[ab]{0,3}", 1..5), fill in "[abc]{0,4}") {
        prop_assert!(matches_wildcard(&parts.join("*"), &parts.join(&fill)) || parts.len() == 1 && !fill.is_empty());
    }

    #[test]
    fn anything_but_is_the_opposite(condition in json_values(), value in json_values()) {
        let negated = json!({ "anything-but": condition });
        let (is, is_not) = (evaluate_condition(&condition, Some(&value)), evaluate_condition(&negated, Some(&value)));
        prop_assert!(is_not == Unknown || condition.is_array() || value.is_array() || is_not == is.negate(), "{condition} {value}: {is:?} {is_not:?}");
    }
}
