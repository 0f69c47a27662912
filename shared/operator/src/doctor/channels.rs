//! Channels that a parameter of the stack opens: mail to people, and links in announcements. A configuration that wants one of them gets
//! nothing if the parameter is missing or names another address.

use std::collections::BTreeMap;

use model::config::Config;

use super::DoctorFinding;

/// The check's name.
pub const CHECK: &str = "channels";

/// Beginning of the names of stacks of `deploy/reply-url.yaml`, as docs/replies.md names them.
pub const REPLY_URL_STACKS: &str = "curfew-reply-url";

/// The parameter `ReportSender`, from which alone the functions may send mail.
#[must_use]
pub fn mail_sender(parameters: &BTreeMap<String, String>) -> Option<&String> {
    parameters.get("ReportSender").filter(|sender| !sender.is_empty())
}

/// The address of links, if the stack has them; empty if they have none.
#[must_use]
pub fn reply_url(parameters: &BTreeMap<String, String>) -> Option<&str> {
    let has_links = parameters.get("ReplyLinks").is_some_and(|links| links == "yes");
    has_links.then(|| parameters.get("ReplyUrl").map_or("", String::as_str))
}

/// Judges whether the functions may send the mail that the configuration asks for.
#[must_use]
pub fn check_mail(config: &Config, parameters: &BTreeMap<String, String>) -> Option<DoctorFinding> {
    let has_recipients =
        config.notify.owners || config.report.email.is_some() || config.teams.values().any(|team| team.email.is_some());
    let wanted = config.report.sender.as_ref().filter(|_| has_recipients)?;
    let found = match mail_sender(parameters) {
        Some(granted) if granted == wanted => return None,
        Some(granted) => format!("mail is to come from {wanted}, and the stack allows it from {granted} alone"),
        None => format!("mail is to come from {wanted}, and the stack allows none"),
    };
    Some(DoctorFinding::problem("[report] sender", found, format!("make deploy ARGS=\"ReportSender={wanted}\"")))
}

/// Judges whether links lead anywhere, by the addresses that the stacks of `deploy/reply-url.yaml` in the home region made.
#[must_use]
pub fn check_links(url: &str, addresses: &[&str]) -> Option<DoctorFinding> {
    if url.is_empty() {
        let found = "the function of links has no address, so announcements have no links";
        return Some(DoctorFinding::warning("ReplyUrl", found, "give it one: docs/replies.md, from step 2"));
    }
    let found = format!("no stack {REPLY_URL_STACKS} of this region made this address, so links may lead nowhere");
    let remedy = "deploy deploy/reply-url.yaml, and its output ReplyUrl as the parameter of that name: docs/replies.md, from step 2";
    (!addresses.contains(&url)).then(|| DoctorFinding::warning(url, found, remedy))
}

/// Summarises the channels for people, if all is well.
#[must_use]
pub fn summary(parameters: &BTreeMap<String, String>) -> String {
    let mail = mail_sender(parameters).map_or_else(|| "no mail".to_owned(), |sender| format!("mail from {sender}"));
    let links = reply_url(parameters).map_or_else(|| "no links".to_owned(), |url| format!("links to {url}"));
    format!("{mail}; {links}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn check_mail(config: &str, sender: &str, expect: &str) {
        let found = super::check_mail(&Config::read(config).unwrap(), &parameters(&[("ReportSender", sender)]));
        let found = found.map_or(String::new(), |finding| finding.found);
        assert!(
            if expect.is_empty() { found.is_empty() } else { found.ends_with(expect) },
            "{config} {sender}: {found}"
        );
    }

    #[test]
    fn mail_needs_the_address_that_the_stack_names() {
        let sender = "[report]\nsender = \"a@example.com\"\n";
        check_mail("[notify]\nowners = true", "", "");
        check_mail(sender, "", "");
        for recipient in
            ["email = \"b@example.com\"", "[notify]\nowners = true", "[teams.vision]\nemail = \"b@example.com\""]
        {
            let config = format!("{sender}{recipient}");
            check_mail(&config, "", "the stack allows none");
            check_mail(&config, "a@example.com", "");
            check_mail(&config, "c@example.com", "the stack allows it from c@example.com alone");
        }
    }

    #[test]
    fn links_need_an_address_that_is_there() {
        let url = "https://abc.lambda-url.us-east-1.on.aws/";
        let on = parameters(&[("ReplyLinks", "yes"), ("ReplyUrl", url)]);
        assert_eq!(reply_url(&on), Some(url));
        assert_eq!(reply_url(&parameters(&[("ReplyLinks", "no"), ("ReplyUrl", url)])), None);
        assert_eq!(reply_url(&parameters(&[("ReplyLinks", "yes")])), Some(""));
        assert_eq!(check_links(url, &["https://other.on.aws/", url]), None);
        assert_eq!(check_links(url, &[]).unwrap().at, url);
        assert!(check_links("", &[""]).unwrap().found.ends_with("so announcements have no links"));
        assert_eq!(summary(&on), format!("no mail; links to {url}"));
    }
}
