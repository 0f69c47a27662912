//! A message as a custom notification of Amazon Q Developer in chat applications, which Slack and Teams show.
//!
//! Amazon Q Developer in chat applications administrator guide, "Custom notifications": `version`, `source` and
//! `content.description` are required. Anything else that is published to its topic is not shown.

use model::fault::{breaks_line, shortened};
use model::foreign_text::ends_with_www;
use model::id::RunId;
use model::reply_link::LinkSubject;
use serde_json::json;

use crate::{Message, ReplyUrls};

/// A section of a Slack message has at most 3,000 characters (Slack API, "Section block"). AWS's own limit is higher.
const DESCRIPTION_CHARACTERS_MAX: usize = 2800;
const RESOURCES_MAX: usize = 10;
const KEYWORD_CHARACTERS_MAX: usize = 60;
/// Last sentence of a message that a chat does not show in full.
const REST: &str = "\n\nThe rest is in the message to the topic, and in the audit record.";

/// The message for the chat topic, with the same attributes. Messages of one run are one thread, where the channel allows threads. `urls`: the
/// links of the run, which stay links. A message about a single resource has its token, for the buttons of the chat: with
/// several, a button would not say which one it is about.
#[must_use]
pub fn to_chat(message: &Message, urls: &ReplyUrls, run: &RunId) -> Message {
    let (first_line, rest) = message.body.split_once('\n').unwrap_or((&message.body, ""));
    let title = neutralize(first_line.trim_end_matches('.'));
    let own_urls: Vec<(&LinkSubject, &str)> =
        urls.iter().map(|(subject, url)| (subject, url.as_str())).filter(|(_, url)| rest.contains(url)).collect();
    let neutralize_line = |line: &str| match own_urls.iter().find_map(|(_, url)| Some((url, line.strip_suffix(*url)?)))
    {
        Some((url, label)) => format!("{}{url}", neutralize(label)),
        None => neutralize(line),
    };
    let description = rest.trim().lines().map(neutralize_line).collect::<Vec<_>>().join("\n");
    let description = match shortened(&description, DESCRIPTION_CHARACTERS_MAX) {
        // Amazon Q refuses an empty one.
        whole if whole.is_empty() => title.clone(),
        whole if whole == description => whole,
        part => part + REST,
    };
    let short = |text: &str| shortened(&neutralize_from(text, true), KEYWORD_CHARACTERS_MAX);
    let (team, function, severity) = (short(&message.team), message.function, message.severity);
    let resources: Vec<String> = message.resources.iter().take(RESOURCES_MAX).map(|id| short(id.as_str())).collect();
    let token = match (own_urls.as_slice(), message.resources.as_slice()) {
        // A warning of an agent names no resource.
        ([(subject, url)], [] | [_]) if message.paragraphs == 1 => {
            url.rsplit_once('/').map(|(_, token)| (button_variable(subject), token))
        }
        _ => None,
    };
    let mut notification = json!({
        "version": "1.0",
        "source": "custom",
        "content": {
            "textType": "client-markdown",
            "title": title,
            "description": description,
            "keywords": [team, severity, function],
        },
        "metadata": {
            "threadId": run,
            "summary": title,
            "eventType": crate::DETAIL_TYPE,
            "relatedResources": resources,
            "additionalContext": { "team": team, "function": function, "severity": severity, "run": run },
        },
    });
    if let Some((variable, token)) = token {
        notification["metadata"]["additionalContext"][variable] = token.into();
    }
    Message { body: notification.to_string(), ..message.clone() }
}

/// The variable by which a chat shows the buttons of a link: a box has others than a resource.
const fn button_variable(subject: &LinkSubject) -> &'static str {
    match subject {
        LinkSubject::Resource(..) => "reply",
        LinkSubject::Box(_) => "box_reply",
    }
}

/// Replaces every character by which Slack's or Teams' markdown would format the text, mention somebody or make a link, by a look-alike.
/// Slack can escape three of them, Teams others; so none is escaped. Both make links of bare host names, so that text in quotes or
/// backticks, which is foreign, has no dot before a letter either.
fn neutralize(text: &str) -> String {
    neutralize_from(text, false)
}

/// Does the work of [`neutralize`]; `is_foreign`: the whole text is foreign.
fn neutralize_from(text: &str, is_foreign: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    let mut open_quote = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        let is_inside_word = before.is_alphanumeric() && next.is_alphanumeric();
        open_quote = match (open_quote, letter) {
            (_, '\n') => None,
            (None, '"' | '`') => Some(letter),
            // Another kind of quote does not end it.
            (Some(quote), _) if quote == letter => None,
            (open, _) => open,
        };
        let is_quoted = is_foreign || open_quote.is_some();
        shown.push(match letter {
            '<' => '‹',
            '>' => '›',
            '&' => '＆',
            '@' => '＠',
            '#' => '＃',
            '*' => '∗',
            '~' => '∼',
            '`' => '‘',
            '[' => '［',
            ']' => '］',
            '|' => '¦',
            '\\' => '＼',
            // `max_usd` is no emphasis.
            '_' if !is_inside_word => '＿',
            // Only the addresses of S3 are Curfew's own.
            '/' if before == ':' && !shown.ends_with("s3:") => '⁄',
            '.' if next.is_alphabetic() && (is_quoted || ends_with_www(&shown)) => '․',
            '\n' => '\n',
            other if breaks_line(other) => ' ',
            other => other,
        });
        before = letter;
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_is_neutral(text: &str) {
        let shown = neutralize(text);
        assert!(!shown.contains(['<', '>', '&', '@', '#', '*', '~', '`', '[', ']', '|', '\\']), "{shown}");
        let letters: Vec<char> = shown.chars().collect();
        for (place, letter) in letters.iter().enumerate() {
            let is_in_word = |at: Option<&char>| at.is_some_and(|other| other.is_alphanumeric());
            let before = place.checked_sub(1).and_then(|before| letters.get(before));
            assert!(*letter != '_' || (is_in_word(before) && is_in_word(letters.get(place + 1))), "{shown}");
        }
        assert!(shown.match_indices("://").all(|(at, _)| shown[..at].ends_with("s3")), "{shown}");
        assert_eq!(letters.len(), text.chars().count());
    }

    proptest! {
        #[test]
        fn no_tag_value_formats_mentions_or_links(text in "[<>&@#*~`\\[\\]|\\\\_:/a-s3 é\u{1f525}]{0,40}") {
            check_is_neutral(&text);
        }

        #[test]
        fn no_text_at_all_does(text in any::<String>()) {
            check_is_neutral(&text);
        }
    }

    #[test]
    fn what_people_copy_stays_as_it_is() {
        for text in [
            "Keep it: curfew keep i-0abc 7d",
            "aws ec2 start-instances --region us-east-1 --instance-ids i-0abc",
            "actions_max = 10",
            "s3://state/reports/2026-11-21/report.html",
        ] {
            assert_eq!(neutralize(text), text);
        }
        assert_eq!(
            neutralize("<!channel> @here [x](http://evil) *b* _i_"),
            "‹!channel› ＠here ［x］(http:⁄/evil) ∗b∗ ＿i＿"
        );
        assert_eq!(neutralize("\"evil.example\" www.evil g5.xlarge"), "\"evil․example\" www․evil g5.xlarge");
        assert_eq!(
            neutralize("`evil.example` g5.xlarge `a\"evil.example` \"b`evil.example\""),
            "‘evil․example‘ g5.xlarge ‘a\"evil․example‘ \"b‘evil․example\""
        );
        assert_eq!(neutralize("`evil\ng5.xlarge"), "‘evil\ng5.xlarge");
        assert_eq!(neutralize_from("a\"evil.example\nevil.example", true), "a\"evil․example\nevil․example");
        assert_eq!(neutralize_from("evil.example\u{202e}\u{200b}", true), "evil․example  ");
    }
}
