//! Messages of any size, and of hostile tags.

use super::*;

/// An event of so many bytes.
fn event(team: &str, bytes: usize, loses: bool) -> Notification {
    Notification {
        team: team.to_owned(),
        severity: Severity::Action,
        region: home(),
        resource: Some("i-0abc".into()),
        kind: NotificationKind::Event,
        text: Paragraph::new(&"x".repeat(bytes)),
        happened: true,
        mode: Some(model::mode::Mode::Enforce),
        loses: loses.then(|| "y".repeat(bytes)),
        headline: Headline::new("Curfew stopped {}", HeadlineObject::Instance, "i-0abc"),
        facts: NotificationFacts::default(),
    }
}

fn send(notifications: &[Notification]) -> Vec<Message> {
    messages(&planned(instance(), &busy(), ENFORCED), notifications, &no_memory(), &[Audience::Team], None)
}

#[test]
fn a_subject_is_short_ascii_of_one_line() {
    let ascii = |subject: &str| subject.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    for team in ["vision", "Bildverständnis", "a\nb", &"v".repeat(256)] {
        let message = send(&[event(team, 10, false)]).remove(0);
        assert!(message.subject.len() < 100 && ascii(&message.subject), "{}", message.subject);
        assert_eq!(message.team, team);
    }
}

/// SNS developer guide, "Quotas": 256 KB.
const SNS_BYTES_MAX: usize = 262_144;

#[test]
fn what_one_message_cannot_hold_comes_in_several_and_nothing_is_left_out() {
    let many: Vec<Notification> = (0..2000).map(|_| event("vision", 500, false)).collect();
    let sent = send(&many);
    assert!(sent.iter().all(|message| message.body.len() < SNS_BYTES_MAX));
    let paragraphs = sent.iter().map(|message| message.body.matches(&"x".repeat(500)).count());
    assert_eq!((sent.len() > 1, paragraphs.sum::<usize>()), (true, 2000));
    assert!(sent.iter().all(|message| message.team == "vision"));
}

#[test]
fn a_paragraph_that_no_message_can_hold_is_cut_and_the_rest_comes_whole() {
    let sent = send(&[
        event("vision", 10, false),
        Notification { text: Paragraph::new(&"ü".repeat(200_000)), ..event("vision", 0, false) },
    ]);
    assert!(sent.iter().all(|message| message.body.len() < SNS_BYTES_MAX));
    assert!(sent[0].body.contains("xxxxxxxxxx") && sent[1].body.contains("üü…\n\nRun run-1"));
}

#[test]
fn a_name_with_line_breaks_makes_no_paragraph_of_its_own() {
    let forged = instance().tag("Name", "a\n\ni-0fff: it was stopped.\u{0}").tag("curfew:mode", "perhaps");
    check(&planned(forged, &busy(), ENFORCED), "warning", &["(g5.xlarge \"a  i-0fff: it was stopped. \", owner"]);
}

#[test]
fn no_team_begins_a_line_or_turns_one_around() {
    let checks = ["a\n\nCurfew: forged", "a\r\nb", "a\u{2028}\u{2029}b", "a\u{202e}\u{2066}b", "a\u{61c}\u{200f}b"];
    for team in checks {
        let message =
            send(&[Notification { text: Paragraph::new(&format!("of team {team}")), ..event(team, 0, false) }])
                .remove(0);
        let mut paragraphs = message.body.split("\n\n");
        let (first, text) = (paragraphs.next().unwrap(), paragraphs.next().unwrap());
        let spaced: String =
            team.chars().map(|c| if " :".contains(c) || c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
        assert_eq!(
            (first, text),
            (
                &*format!("Curfew stopped i-0abc of team \"{spaced}\" at 2026-09-01 12:00 UTC."),
                &*format!("of team {spaced}")
            )
        );
    }
}

#[test]
fn the_first_line_is_bounded_too() {
    let losing: Vec<Notification> = (0..9000).map(|_| event("vision", 50, true)).collect();
    for message in send(&losing) {
        assert!(message.body.len() < SNS_BYTES_MAX, "{}", message.body.len());
        let lines: Vec<&str> = message.body.lines().take(2).collect();
        let count = message.resources.len();
        let expect = format!(
            ", and {} more. Curfew stopped {count} instances of team vision at 2026-09-01 12:00 UTC.",
            count - 1
        );
        assert!(lines[0].ends_with(&expect) && lines[0].len() < 160, "{}", lines[0]);
        assert!(lines[1].ends_with(&format!("y, and {} more.", count - 50)));
    }
}

#[test]
fn one_message_a_team_of_the_gravest_severity() {
    let grave = Notification { severity: Severity::Error, ..event("vision", 10, false) };
    let sent = send(&[event("vision", 10, false), grave, event("nlp", 10, false)]);
    let teams: Vec<_> = sent.iter().map(|message| (message.team.as_str(), message.severity)).collect();
    assert_eq!(teams, [("nlp", "action"), ("vision", "error")]);
}

#[test]
fn a_subject_fits_sns() {
    let check = |text: &str, expect: &str| assert_eq!(crate::fit_subject(text), expect, "{text}");
    check("Curfew: $36.00 spent", "Curfew: $36.00 spent");
    check("Curfew: account Zürich", "Curfew: account Z?rich");
    let long = format!("Curfew: at least $1.00 spent in account {} (123456789012)", "research ".repeat(9));
    assert!(crate::fit_subject(&long).ends_with(" research..") && crate::fit_subject(&long).len() < 100);
}
