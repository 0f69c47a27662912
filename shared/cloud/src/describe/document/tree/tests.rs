use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::describe::generate::text;

fn read(body: &str) -> Result<XmlElement, XmlError> {
    XmlElement::read(body.as_bytes(), "Answer")
}

fn check_refused(body: &[u8], expect: &str) {
    let why = XmlElement::read(body, "Answer").unwrap_err().to_string();
    assert!(why.contains(expect), "{why}");
}

#[test]
fn children_and_members_are_found_by_name() {
    let answer = read(
        "<?xml version=\"1.0\"?>\n<Answer xmlns=\"https://iam.amazonaws.com/doc/\">\n  <Name>a &amp; b&#33;<![CDATA[ <c>]]></Name>\
         <List><member>1</member><other>2</other><member><Name>3</Name></member></List><Empty/></Answer>\n",
    )
    .unwrap();
    assert_eq!((answer.text("Name"), answer.text("Empty"), answer.text("None")), (Some("a & b! <c>"), Some(""), None));
    let members: Vec<&XmlElement> = answer.members("List").collect();
    assert_eq!((members[0].text.as_str(), members[1].text("Name"), members.len()), ("1", Some("3"), 2));
    assert_eq!((answer.members("Empty").count(), answer.members("None").count()), (0, 0));
}

#[test]
fn an_ill_formed_answer_is_refused() {
    check_refused(b"", "ends within");
    check_refused(b"<Other/>", "not a Answer: <Other>");
    check_refused(b"<Answer><a></Answer>", "well-formed");
    check_refused(b"<Answer/><Answer/>", "followed by <Answer>");
    check_refused(b"<Answer/>text", "text around it");
    check_refused(b"<Answer>&evil;</Answer>", "&evil;");
    check_refused(b"<Answer>\xff</Answer>", "UTF-8");
    check_refused(br#"{"Answer":1}"#, "text around it");
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("<Answer>{}{}</Answer>", "<a>".repeat(depth), "</a>".repeat(depth));
    read(&nested(DEPTH_MAX - 1)).unwrap();
    check_refused(nested(DEPTH_MAX).as_bytes(), "nested");
    check_refused("<Answer>".repeat(1_000_000).as_bytes(), "nested");
}

fn tree() -> impl Strategy<Value = String> {
    text().prop_recursive(4, 32, 4, |inner| {
        vec((prop_oneof![Just("a"), Just("member")], inner), 0..4).prop_map(|children| {
            children.iter().map(|(name, inner)| format!("<{name}>{inner}</{name}>")).collect::<Vec<_>>().concat()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_cut_off_anywhere_is_no_answer(inner in tree(), at in any::<Index>()) {
        let body = format!("<Answer>{inner}</Answer>");
        prop_assert!(XmlElement::read(&body.as_bytes()[..at.index(body.len())], "Answer").is_err());
    }

    #[test]
    fn bytes_of_any_kind_are_read_or_refused(mut body in tree().prop_map(String::into_bytes), changes in vec(any::<(Index, u8)>(), 0..8)) {
        body = [b"<Answer>".as_slice(), &body, b"</Answer>"].concat();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = XmlElement::read(&body, "Answer");
    }
}
