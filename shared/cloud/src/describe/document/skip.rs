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
        let start = content.len() - rest.len();
        // A quote comes first where there is an attribute, which may hold another `>`.
        let (tag, after) = rest.split_at(memchr3(b'>', b'"', b'\'', rest)?);
        rest = after.strip_prefix(b">")?;
        match tag {
            [b'<', b'/', name @ ..] => match open_names.pop() {
                None => return Some(start),
                Some(open) if open == name => {}
                Some(_) => return None,
            },
            [b'<', b'!' | b'?', ..] => return None,
            [b'<', .., b'/'] => {}
            [b'<', name @ ..] if !name.is_empty() => open_names.push(name),
            _ => return None,
        }
    }
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
