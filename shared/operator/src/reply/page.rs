//! Pages of a link: the question, its result, and errors. They need no script and load nothing; `maud` escapes all foreign text.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::foreign_text::harmless;
use model::reply_link::{LINK_PATH, ReplyLink, ReplyToken};

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
}

impl ErrorPage {
    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Over => 410,
            Self::Failed => 503,
        }
    }

    /// The sentences of the page.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "There is no such page.",
            Self::MethodNotAllowed => "This is not possible here.",
            Self::Over => {
                "This link was used, or is too old. The next announcement has a new one; until then, `curfew keep` works."
            }
            Self::Failed => {
                "Something failed, and what became of your answer is unknown. Look at the resource, or use `curfew keep`; \
                 the function's log says more."
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
pub fn question_page(token: &ReplyToken, link: &ReplyLink, state: &ReplyState, terms: &ReplyTerms) -> String {
    let body = html! {
        (facts(link))
        @if let Some(loses) = &link.loses { p.loss { "Lost for good by it: " (harmless(loses)) "." } }
        p #situation { (state.situation) }
        @for ReplyOffer { choice, label, .. } in &state.offers {
            form method="post" action=(format!("/{LINK_PATH}{}/{}", token.as_str(), choice.as_str())) { button id=(choice.as_str()) { (label) } }
        }
        p { small {
            "This link was sent to " (harmless(&link.sent_to.team)) " on " (terms.local(link.sent_to.at))
            ". It works once, until " (terms.local(link.expires_at)) ". Your IP address is recorded with your answer."
        } }
    };
    page(&title(link), &body)
}

/// The page that says what the choice has done.
#[must_use]
pub fn result_page(link: &ReplyLink, offer: &ReplyOffer) -> String {
    let id = &link.resource;
    let body = html! {
        (facts(link))
        p #result { (offer.result) }
        @if offer.choice != ReplyChoice::Undo { p { small { "To take it back: " code { "curfew release " (id) } } } }
    };
    page(&title(link), &body)
}

fn title(link: &ReplyLink) -> String {
    format!("Curfew: {}", link.resource)
}

fn facts(link: &ReplyLink) -> Markup {
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
