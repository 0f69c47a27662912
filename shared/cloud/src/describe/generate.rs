//! Answers for tests: everything that EC2 may write, in every form, and how the SDK decodes it.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::Tag;
use model::id::Region;
use model::instance::Tags;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::document;
use crate::replay::{ReplayAnswer, aws};

pub(super) fn wrapped(answer: document::XmlAnswer, inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{0} xmlns=\"http://ec2.amazonaws.com/doc/\">{inner}</{0}>\n",
        answer.root
    )
}

/// Decodes this answer by the SDK itself.
pub(super) fn of_sdk<O>(body: &str, ask: impl AsyncFnOnce(Client) -> O) -> O {
    let body = body.to_owned();
    let (aws, _) = aws(move |_| ReplayAnswer::Raw(200, body.clone().into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(aws.ec2(&Region::from("us-east-1"))))
}

/// A text as XML: each odd character in one of the ways to write it.
pub(super) fn text() -> impl Strategy<Value = String> {
    let odd = select(vec!['&', '<', '>', '"', '\'', '\n', '\t', '\r', ' ', ';', '#', ']', 'é', '\u{2028}', '漢', '🦀']);
    let character = prop_oneof![3 => proptest::char::range('!', '~'), 2 => odd, 1 => any::<char>()];
    let written = (character, 0..3_u8).prop_map(|(character, way)| match (character, way) {
        ('&', 0) => "&amp;".to_owned(),
        ('<', 0) => "&lt;".to_owned(),
        ('>', 0) => "&gt;".to_owned(),
        ('"', 0) => "&quot;".to_owned(),
        ('\'', 0) => "&apos;".to_owned(),
        ('\0', _) => String::new(),
        (_, 1) => format!("&#{};", u32::from(character)),
        ('&' | '<' | '>', _) | (_, 2) => format!("&#x{:X};", u32::from(character)),
        ('\u{1}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}', _) => String::new(),
        _ => character.to_string(),
    });
    vec(written, 0..12).prop_map(|characters| characters.concat())
}

pub(super) fn element(name: &'static str) -> impl Strategy<Value = String> {
    text().prop_map(move |text| format!("<{name}>{text}</{name}>"))
}

/// Mostly one of these.
pub(super) fn known(name: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
    let known = select(values).prop_map(move |value| format!("<{name}>{value}</{name}>"));
    prop_oneof![4 => known, 1 => element(name)].boxed()
}

/// One of these, or now and then what the SDK refuses.
pub(super) fn rarely_wrong(name: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
    let wrong = prop_oneof![Just("soon"), Just(""), Just(" true "), Just("2026-08-31")];
    prop_oneof![40 => select(values).boxed(), 1 => wrong.boxed()]
        .prop_map(move |value| format!("<{name}>{value}</{name}>"))
        .boxed()
}

pub(super) fn within(name: &'static str, inner: impl Strategy<Value = Vec<String>> + 'static) -> BoxedStrategy<String> {
    inner.prop_map(move |inner| format!("<{name}>{}</{name}>", inner.concat())).boxed()
}

pub(super) fn tag_set() -> BoxedStrategy<String> {
    let item = (element("key"), element("value"), any::<bool>());
    let item = item.prop_map(|(key, value, turned)| if turned { value + &key } else { key + &value });
    within("tagSet", vec(item.prop_map(|inner| format!("<item>{inner}</item>")), 0..6))
}

/// A number, or now and then what the SDK refuses.
pub(super) fn number(name: &'static str) -> BoxedStrategy<String> {
    let wrong = select(vec!["2147483648", "1.5", "+5", " 7 ", "", "many"]);
    let number =
        prop_oneof![40 => any::<i32>().prop_map(|number| number.to_string()), 1 => wrong.prop_map(str::to_owned)];
    number.prop_map(move |number| format!("<{name}>{number}</{name}>")).boxed()
}

pub(super) fn truth(name: &'static str) -> BoxedStrategy<String> {
    rarely_wrong(name, &["true", "false"])
}

pub(super) fn time(name: &'static str) -> BoxedStrategy<String> {
    rarely_wrong(name, &["2026-08-31T12:00:00.000Z", "1970-01-01T00:00:00Z", "2026-02-28T23:59:59+02:00"])
}

pub(super) fn operator() -> BoxedStrategy<String> {
    let parts = (truth("managed"), element("principal"));
    parts.prop_map(|(managed, principal)| format!("<operator>{managed}{principal}</operator>")).boxed()
}

/// An item with most of these elements, each at most once and anywhere among others.
pub(super) fn item(own: Vec<BoxedStrategy<String>>, noise: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let own: Vec<_> = own.into_iter().map(|element| option::weighted(0.8, element)).collect();
    let all = (own, vec(noise, 0..4)).prop_map(|(own, noise)| own.into_iter().flatten().chain(noise).collect());
    all.prop_shuffle().prop_map(|all: Vec<String>| format!("<item>{}</item>", all.concat())).boxed()
}

/// A page of such items.
pub(super) fn page(answer: document::XmlAnswer, item: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let parts = (vec(item, 0..5), option::of(element("nextToken")), any::<bool>());
    let page = parts.prop_map(move |(items, token, turned)| {
        let set = format!("<{0}>{1}</{0}>", answer.set, items.concat());
        let token = token.unwrap_or_default();
        wrapped(answer, &if turned { token + &set } else { set + &token })
    });
    page.boxed()
}

pub(super) fn tags(item: Option<Vec<Tag>>) -> Tags {
    item.unwrap_or_default().into_iter().filter_map(|tag| Some((tag.key?, tag.value?))).collect()
}
