//! Warnings that the machine ends: EC2's, by `IMDSv2`, and `SIGTERM` of the machine's own `init`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_config::imds::Client;
use aws_config::imds::client::error::ImdsError;
use aws_config::provider_config::ProviderConfig;
use jiff::{SignedDuration, Timestamp};
use jobs::{ExitReason, warning};
use model::fault::{error_sentence, shortened};
use serde::Deserialize;
use signed_call::direct_http_client;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::agent::{Agent, EndCause};
use crate::agent_error::AgentError;
use crate::world::{after, now, sleep_until};

/// EC2 user guide, "Spot Instance interruption notices": check every 5 seconds.
const CHECK_EVERY: SignedDuration = SignedDuration::from_secs(5);

pub(crate) const INSTANCE_ID: &str = "/latest/meta-data/instance-id";
const INTERRUPTION: &str = "/latest/meta-data/spot/instance-action";
const REBALANCE: &str = "/latest/meta-data/events/recommendations/rebalance";

/// The unit grants the agent 150 s, other units 90 (systemd, `DefaultTimeoutStopSec`); the log and the exit record need the rest.
pub(crate) const SHUTDOWN_TIME: SignedDuration = SignedDuration::from_secs(60);

/// EC2 user guide, "Spot Instance interruption notices", "instance-action".
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct InterruptionNotice {
    action: String,
    #[serde(default)]
    time: serde_json::Value,
}

pub(crate) async fn watch(agent: Arc<Agent>) {
    let mut client = client();
    let (mut rebalance, mut blind, mut odd) = (false, false, false);
    loop {
        match get(&client, INTERRUPTION).await {
            Ok(Some(text)) => {
                if let Some((why, time)) = interruption(&text, now()) {
                    return agent.end(EndCause { reason: ExitReason::Interrupted, why, until: after(time) });
                }
                if !odd {
                    let text = shortened(&text, 200);
                    agent.log.write_line(&format!(
                        "the instance metadata reports an interruption without an action, which is no warning: `{text}`"
                    ));
                }
                odd = true;
            }
            Ok(None) if blind => {
                agent.log.write_line("the instance metadata answers again");
                blind = false;
            }
            Ok(None) => {}
            Err(words) => {
                if !blind {
                    agent.log.write_line(&format!(
                        "the instance metadata does not answer, so the agent would miss an interruption warning: {words}"
                    ));
                }
                blind = true;
                // It would hold on to an expired token.
                client = self::client();
            }
        }
        if !rebalance && let Ok(Some(_)) = get(&client, REBALANCE).await {
            rebalance = true;
            agent.log.write_line(
                "EC2 recommends to move this machine, because an interruption has become likelier; the job continues",
            );
        }
        agent.pace.sleep(CHECK_EVERY).await;
    }
}

pub(crate) fn client() -> Client {
    let few = Duration::from_secs(2);
    Client::builder()
        .configure(&ProviderConfig::without_region().with_http_client(direct_http_client()))
        .max_attempts(1)
        .connect_timeout(few)
        .read_timeout(few)
        .token_ttl(Duration::from_hours(6))
        .build()
}

/// The page at `path`; `None` if there is none.
pub(crate) async fn get(client: &Client, path: &'static str) -> Result<Option<String>, AgentError> {
    match client.get(path).await {
        Ok(text) => Ok(Some(text.into())),
        Err(ImdsError::ErrorResponse(answer)) if answer.response().status().as_u16() == 404 => Ok(None),
        Err(ImdsError::ErrorResponse(answer)) => {
            Err(AgentError::new(format!("they answer {}", answer.response().status())))
        }
        Err(error) => Err(AgentError::new(error_sentence(&error))),
    }
}

/// The warning for people, and how much time it leaves. `None` if it names no action: an empty page, or that of a proxy, is no warning.
fn interruption(text: &str, now: Timestamp) -> Option<(String, SignedDuration)> {
    let InterruptionNotice { action, time } = serde_json::from_str(text).ok()?;
    let time: Option<Timestamp> = time.as_str().and_then(|time| time.parse().ok());
    let why = match time {
        Some(time) => format!("EC2 takes the machine back ({action} at {time:.0})"),
        None => format!("EC2 takes the machine back (`{}`)", shortened(text, 200)),
    };
    (!action.trim().is_empty()).then(|| (why, warning::time_to_flush(now, time)))
}

/// Catches `SIGTERM` from now on: a machine that shuts down sends it.
pub(crate) fn shutdown() -> io::Result<Signal> {
    signal(SignalKind::terminate())
}

pub(crate) async fn wait_for_shutdown(agent: Arc<Agent>, shutdown: io::Result<Signal>) {
    match shutdown {
        Ok(mut shutdown) => drop(shutdown.recv().await),
        Err(error) => {
            return agent.log.write_line(&format!("the agent would miss a shutdown of this machine: {error}"));
        }
    }
    let why = "the machine shuts down, or a person stopped the agent (SIGTERM)".to_owned();
    agent.end(EndCause { reason: ExitReason::Interrupted, why, until: after(agent.pace.scale(SHUTDOWN_TIME)) });
}

pub(crate) async fn wait_for_deadline(agent: Arc<Agent>) {
    sleep_until(agent.ends_at()).await;
    let ends_at = agent.identity.ends_at;
    let until = after(ends_at.duration_since(now()));
    let why = format!("the time of this attempt is over: its machine ends at {ends_at:.0}");
    agent.end(EndCause { reason: ExitReason::Expired, why, until });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: (&str, i64)) {
        let now: Timestamp = "2026-09-01T12:00:00Z".parse().unwrap();
        let (why, time) = interruption(text, now).unwrap();
        assert_eq!((why.as_str(), time.as_secs()), expect);
    }

    #[test]
    fn a_warning_has_its_time() {
        let text = r#"{"action": "terminate", "time": "2026-09-01T12:01:40Z"}"#;
        check(text, ("EC2 takes the machine back (terminate at 2026-09-01T12:01:40Z)", 95));
    }

    #[test]
    fn a_warning_with_an_unreadable_time_counts() {
        check(r#"{"action": "hibernate"}"#, (r#"EC2 takes the machine back (`{"action": "hibernate"}`)"#, 115));
        let text = r#"{"action": "stop", "time": "soon"}"#;
        check(text, (&format!("EC2 takes the machine back (`{text}`)"), 115));
    }

    #[test]
    fn a_page_without_an_action_is_no_warning() {
        for text in
            ["", "<html>", "{}", "null", r#"{"action": ""}"#, r#"{"action": null, "time": "2026-09-01T12:01:40Z"}"#]
        {
            assert_eq!(interruption(text, now()), None, "{text}");
        }
    }
}
