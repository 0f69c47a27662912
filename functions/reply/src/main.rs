//! `reply`: answers links of announcements. A person opens one, and keeps or protects the resource, or starts it again; or asks to keep a box.
//!
//! Woken by requests to the function's address, which is public, and by buttons of a chat. Only a POST acts, because mail programs and their
//! scanners open links; and only on the resource of the link, once.

mod link;
mod response;

use std::net::IpAddr;
use std::process::ExitCode;

use cloud::Aws;
use jiff::Timestamp;
use model::fault::one_line;
use model::mode::Mode;
use model::reply_link::{LINK_PATH, ReplyToken};
use operator::reply::ReplyChoice;
use operator::reply::page::{ErrorPage, question_page, result_page};
use runtime::{Event, EventKind, Failure, FunctionSettings, Invocation, InvocationResponse, ReplyRequest};
use store::Store;

use crate::link::{LinkError, OpenLink};
use crate::response::{ButtonResponse, PageResponse};

/// The recorded origin of an answer by a button.
const CHAT: &str = "chat";

/// The clients that all requests share.
struct Clients {
    aws: Aws,
    store: Store,
    mode: Mode,
}

fn main() -> ExitCode {
    runtime::serve(
        &[EventKind::Reply],
        async |FunctionSettings { bucket, mode, home, .. }| {
            let aws = Aws::connect().await;
            let store = Store::new(aws.sdk_config(), bucket);
            let store = match home {
                Some(home) => store.knowing_home(aws.sdk_config(), home, false),
                None => store,
            };
            Clients { aws, store, mode }
        },
        answer,
    )
}

async fn answer(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    match invocation.event {
        Event::Reply(ReplyRequest::Page { method, path, from }) => {
            let page = Box::pin(answer_request(clients, &method, &path, &from, invocation.now)).await;
            let page = page.unwrap_or_else(|error| PageResponse::error(error.page()));
            Ok(InvocationResponse::from_value(&page)?)
        }
        Event::Reply(ReplyRequest::Button { token, choice }) => {
            let message = Box::pin(answer_button(clients, &token, &choice, invocation.now)).await;
            let message = message.unwrap_or_else(|error| error.page().text().to_owned());
            Ok(InvocationResponse::from_value(&ButtonResponse { message })?)
        }
        other => Err(Failure::because("Unexpected", format!("{:?} is no request", other.kind()))),
    }
}

/// Answers a request by a browser. A reload of the result's page opens the link, which is over by then.
async fn answer_request(
    clients: &Clients,
    method: &str,
    path: &str,
    from: &str,
    now: Timestamp,
) -> Result<PageResponse, LinkError> {
    if !matches!(method, "GET" | "POST") {
        return Ok(PageResponse::error(ErrorPage::MethodNotAllowed));
    }
    let (token, choice) = read_path(path).ok_or(LinkError::NotFound)?;
    let open = OpenLink::open(clients, &token, now).await?;
    if method == "GET" {
        return Ok(PageResponse::new(200, question_page(&token, &open.link, &open.state, &open.terms)));
    }
    let choice = choice.ok_or(LinkError::NotFound)?;
    let Some(offer) = open.state.offer(choice).cloned() else {
        return Ok(PageResponse::new(409, question_page(&token, &open.link, &open.state, &open.terms)));
    };
    let (link, terms) = (open.link.clone(), open.terms.clone());
    open.carry_out(clients, &offer, address(from)).await?;
    Ok(PageResponse::new(200, result_page(&link, &offer, &terms)))
}

/// Answers a button of a chat, whose message has the token.
async fn answer_button(clients: &Clients, token: &str, choice: &str, now: Timestamp) -> Result<String, LinkError> {
    let token = ReplyToken::read(token).ok_or(LinkError::NotFound)?;
    let choice = ReplyChoice::read(choice).ok_or(LinkError::NotFound)?;
    let open = OpenLink::open(clients, &token, now).await?;
    let resource = open.link.name().to_owned();
    let Some(offer) = open.state.offer(choice).cloned() else {
        return Ok(format!("{resource}: nothing was changed. {}", open.state.situation));
    };
    open.carry_out(clients, &offer, CHAT.to_owned()).await?;
    Ok(format!("{resource}: {}", one_line(&offer.result, usize::MAX)))
}

/// The IP address, as Lambda says it; nothing else is recorded.
fn address(from: &str) -> String {
    from.parse::<IpAddr>().map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
}

/// `/r/<token>`, and behind it the choice of a form.
fn read_path(path: &str) -> Option<(ReplyToken, Option<ReplyChoice>)> {
    let path = path.strip_prefix('/')?.strip_prefix(LINK_PATH)?;
    match path.split_once('/') {
        Some((token, choice)) => Some((ReplyToken::read(token)?, Some(ReplyChoice::read(choice)?))),
        None => Some((ReplyToken::read(path)?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_paths_are_read() {
        let token = "0a".repeat(32);
        let check = |path: &str, expect: Option<Option<ReplyChoice>>| {
            let found = read_path(&path.replace("TOKEN", &token));
            assert_eq!(found.map(|(_, choice)| choice), expect, "{path}");
        };
        check("/r/TOKEN", Some(None));
        check("/r/TOKEN/protect", Some(Some(ReplyChoice::Protect)));
        for other in ["", "/", "/r/", "r/TOKEN", "/r/TOKEN/", "/r/TOKEN/protect/", "/R/TOKEN", "//r/TOKEN", "/r/TOKEN0"]
        {
            check(other, None);
        }
    }
}
