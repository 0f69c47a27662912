//! The end of an element whose content nobody needs.
//!
//! Most of what EC2 says of an instance no decision needs. To read that event by event took 23 % of the instructions of a run that knows its
//! 10,000 instances already (callgrind, release).

use memchr::{memchr2, memchr3};

/// Place of the end tag of the open element. `content` begins after its start tag.
///
/// `None` if the content is not well-formed, or has more than elements and text: attributes, references, comments. Then the caller must
/// read it event by event, and decide.
pub(super) fn find_end_tag(content: &[u8]) -> Option<usize> {
    let mut open_names: Vec<&[u8]> = Vec::new();
    let mut rest = content;
    loop {
        rest = &rest[memchr2(b'<', b'&', rest)?..];
        if let Some(end_tag) = rest.strip_prefix(b"</") {
            let Some(open) = open_names.pop() else { return Some(content.len() - rest.len()) };
            rest = end_tag.strip_prefix(open)?.strip_prefix(b">")?;
            continue;
        }
        // A quote comes first where there is an attribute, which may hold another `>`.
        let (tag, after) = rest.split_at(memchr3(b'>', b'"', b'\'', rest)?);
        rest = after.strip_prefix(b">")?;
        match tag {
            [b'<', b'!' | b'?', ..] => return None,
            [b'<', .., b'/'] => {}
            [b'<', name @ ..] if !name.is_empty() => open_names.push(name),
            _ => return None,
        }
    }
}

/// Place after the end tag of this element, which begins with its start tag.
///
/// `None` if it has one of these names, or is as [`find_end_tag`] leaves it to the caller.
pub(super) fn find_end_of_other(element: &[u8], names: &[&str]) -> Option<usize> {
    let (tag, after) = element.split_at(memchr3(b'>', b'"', b'\'', element)?);
    let content = after.strip_prefix(b">")?;
    let tag = tag.strip_prefix(b"<")?;
    let name = tag.strip_suffix(b"/").unwrap_or(tag);
    let is_plain = !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric);
    if !is_plain || names.iter().any(|wanted| wanted.as_bytes() == name) {
        return None;
    }
    let rest = if name.len() < tag.len() {
        content
    } else {
        let end_tag = &content[find_end_tag(content)?..];
        end_tag.strip_prefix(b"</")?.strip_prefix(name)?.strip_prefix(b">")?
    };
    Some(element.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_content_is_skipped_to_its_own_end_tag() {
        let check = |content: &str, expect: &str| {
            let end = find_end_tag(content.as_bytes());
            assert_eq!(end.map(|end| &content[end..]), Some(expect), "{content}");
        };
        check("</a>", "</a>");
        check("text > é</a><b>", "</a><b>");
        check("<a><a/></a> <b>c</b>\n</a></a>", "</a></a>");
        // The caller compares the name.
        check("<a></a></b>", "</b>");
    }

    #[test]
    fn plain_elements_of_other_names_are_skipped_whole() {
        let check = |element: &str, expect: Option<&str>| {
            let end = find_end_of_other(element.as_bytes(), &["key", "value"]);
            assert_eq!(end.map(|end| &element[end..]), expect, "{element}");
        };
        check("<a/> <b>", Some(" <b>"));
        check("<keys><key>b</key></keys>\n</a>", Some("\n</a>"));
        for left in [
            "<key>a</key>",
            "<value/>",
            "</a><b/>",
            "<a></b>",
            "<a></a ><b/>",
            "<a b='/>'/>",
            "<a b=c/>",
            "<key />",
            "<b:key/>",
            "<!--/--><b/>",
            "<?a/>",
            "</>",
            "<>",
            "<a",
        ] {
            check(left, None);
        }
    }

    #[test]
    fn everything_else_is_left_to_the_reader_of_events() {
        for content in [
            "",
            "text",
            "<",
            "<a",
            "<a></a>",
            "<a></b></a>",
            "<a></a ></a>",
            "<></></a>",
            "R&amp;D</a>",
            "R&D</a>",
            "<!-- </a> --></a>",
            "<![CDATA[</a>]]></a>",
            "<?a </a> ?></a>",
            "<b c='>'/></a>",
            "<b c='></a>'></b></a>",
            "<b c='/><c>'/></a>",
            "<b ></b></a>",
        ] {
            assert_eq!(find_end_tag(content.as_bytes()), None, "{content}");
        }
    }
}
