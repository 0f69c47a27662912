//! Pages of a link: the question, its result, and errors. They need no script and load nothing; `maud` escapes all foreign text.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::foreign_text::{harmless, shell_word};
use model::reply_link::{BoxLink, LINK_PATH, LinkDocument, ReplyLink, ReplyToken};

use super::{ReplyChoice, ReplyOffer, ReplyState, ReplyTerms};

const CSS: &str = ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:34rem;padding:1rem;\
                   overflow-wrap:anywhere}h1{font-size:1.3rem}dt{opacity:.7;font-size:.85rem}dd{margin:0 0 .6rem}button{display:block;\
                   width:100%;min-height:3rem;margin:.6rem 0;padding:.5rem;font:inherit;border:1px solid;border-radius:.5rem;cursor:pointer}\
                   .loss{border-left:.3rem solid #c0392b;padding-left:.7rem}small{opacity:.8}";

/// An answer that is the same for everybody: it repeats nothing of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorPage {
    /// The address has no page, or no link is known.
    NotFound,
    /// Neither a read nor an answer.
    MethodNotAllowed,
    /// The link was used, or is too old.
    Over,
    /// Something failed.
    Failed,
    /// Another stack may act in the place of this one.
    Standby,
}

impl ErrorPage {
    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Over => 410,
            Self::Failed | Self::Standby => 503,
        }
    }

    /// The sentences of the page.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "There is no such page.",
            Self::MethodNotAllowed => "This is not possible here.",
            Self::Over => {
                "This link was used, or is too old. The next announcement has a new one; until then, `curfew keep` works, and \
                 `curfew box extend` for a box."
            }
            Self::Standby => {
                "Nothing was changed: another stack of Curfew acts, or may act, in the place of this one. Use `curfew keep` or \
                 `curfew box extend` with the region of that stack, or the link of its next announcement."
            }
            Self::Failed => {
                "Something failed, and what became of your answer is unknown. Look at the resource, or use `curfew keep` or \
                 `curfew box extend`; the function's log says more."
            }
        }
    }

    #[must_use]
    pub fn html(self) -> String {
        page("Curfew", &html! { h1 { "Curfew" } p { (self.text()) } })
    }
}

/// The page that asks: what will happen to which resource, what is lost, and a button for each choice.
#[must_use]
pub fn question_page(token: &ReplyToken, link: &LinkDocument, state: &ReplyState, terms: &ReplyTerms) -> String {
    let loses = match link {
        LinkDocument::Resource(link) => link.loses.as_ref().map(|loses| format!("{}.", harmless(loses))),
        LinkDocument::Box(_) => Some("what runs, and all that is not in the home.".to_owned()),
    };
    let body = html! {
        (facts(link, terms))
        @if let Some(loses) = loses { p.loss { "Lost for good by it: " (loses) } }
        p #situation { (state.situation) }
        @for ReplyOffer { choice, label, .. } in &state.offers {
            form method="post" action=(format!("/{LINK_PATH}{}/{}", token.as_str(), choice.as_str())) { button id=(choice.as_str()) { (label) } }
        }
        p { small {
            "This link was sent to " (harmless(&link.sent_to().team)) " on " (terms.local(link.sent_to().at))
            ". It works once, until " (terms.local(link.expires_at())) ". Your IP address is recorded with your answer."
        } }
    };
    page(&title(link), &body)
}

/// The page that says what the choice has done.
#[must_use]
pub fn result_page(link: &LinkDocument, offer: &ReplyOffer, terms: &ReplyTerms) -> String {
    let back = match link {
        LinkDocument::Resource(_) if offer.choice == ReplyChoice::Undo => None,
        LinkDocument::Resource(link) => Some(("To take it back: ", format!("curfew release {}", link.resource))),
        LinkDocument::Box(link) => {
            Some(("To end it earlier: ", format!("curfew box down {}", shell_word(&link.ending.name))))
        }
    };
    let body = html! {
        (facts(link, terms))
        p #result { (offer.result) }
        @if let Some((what, command)) = back { p { small { (what) code { (command) } } } }
    };
    page(&title(link), &body)
}

fn title(link: &LinkDocument) -> String {
    format!("Curfew: {}", harmless(link.name()))
}

fn facts(link: &LinkDocument, terms: &ReplyTerms) -> Markup {
    match link {
        LinkDocument::Resource(link) => facts_of_resource(link),
        LinkDocument::Box(link) => facts_of_box(link, terms),
    }
}

fn facts_of_box(link: &BoxLink, terms: &ReplyTerms) -> Markup {
    let BoxLink { ending, .. } = link;
    html! {
        h1 { (harmless(&ending.name)) }
        dl {
            dt { "Box" } dd { (harmless(&ending.name)) ", job " (harmless(&ending.job)) }
            @if let Some(owner) = &ending.owner { dt { "Owner" } dd { (harmless(owner)) } }
            dt { "Announced" } dd { "end: " (terms.local(ending.ends_at)) " at the latest" }
            dt { "By command" } dd { code { "curfew box extend " (shell_word(&ending.name)) " 3h" } }
        }
    }
}

fn facts_of_resource(link: &ReplyLink) -> Markup {
    let optional = [("Name", link.name.as_deref()), ("Owner", link.owner.as_deref())];
    html! {
        h1 { (link.resource) }
        dl {
            dt { "Resource" } dd { (harmless(&link.what)) ", " (link.region) }
            @for (label, value) in optional { @if let Some(value) = value { dt { (label) } dd { (harmless(value)) } } }
            dt { "Announced" } dd { (link.action) ": " (link.why) }
        }
    }
}

fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}
