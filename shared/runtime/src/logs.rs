//! One JSON object a line on stdout, where Lambda collects it.
//!
//! Each has `timestamp` and `level`, without which Lambda takes an error for information (Lambda developer guide,
//! "Log-level filtering").

use std::ffi::OsString;
use std::io::Write as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging, and makes every panic one line of the log.
pub(crate) fn start(variable: impl Fn(&str) -> Option<OsString>) {
    let text = |name| variable(name).and_then(|value| value.into_string().ok());
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_ansi(false);
    let filter = filter(text("RUST_LOG").as_deref(), text("AWS_LAMBDA_LOG_LEVEL").as_deref());
    // Fails only if a test has started it before.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("without a message");
        tracing::error!(location, "panic: {message}");
    }));
}

/// Writes a line that is not one of the log's own: the log nests no objects. A line that cannot be written is lost, as one of the log is.
#[expect(clippy::disallowed_methods, reason = "this is where a function's log goes")]
pub(crate) fn write_line(line: &str) {
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// `RUST_LOG`, if it can be read; otherwise Lambda's level for all (`AWS_LAMBDA_LOG_LEVEL`; Lambda developer guide, "Log-level filtering"),
/// and warnings of the SDK, which logs each credential it loads.
fn filter(rust_log: Option<&str>, lambda_level: Option<&str>) -> Targets {
    let asked = rust_log.filter(|text| !text.is_empty()).and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| {
        let level = match lambda_level {
            Some(level) if level.eq_ignore_ascii_case("fatal") => LevelFilter::ERROR,
            Some(level) => level.parse().unwrap_or(LevelFilter::INFO),
            None => LevelFilter::INFO,
        };
        let foreign = if level == LevelFilter::INFO { LevelFilter::WARN } else { level };
        Targets::new().with_default(level).with_targets([
            ("aws_", foreign),
            ("hyper", foreign),
            ("lambda_runtime", foreign),
        ])
    });
    // It would log the error of a handler a second time.
    filter.with_target("lambda_runtime::layers::panic", LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn check(rust_log: Option<&str>, lambda_level: Option<&str>, target: &str, most: Level) {
        let filter = filter(rust_log, lambda_level);
        let shown = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE]
            .into_iter()
            .filter(|level| filter.would_enable(target, level))
            .max();
        assert_eq!(shown, Some(most), "{target}");
    }

    #[test]
    fn information_is_the_default_and_the_sdk_only_warns() {
        check(None, None, "reap_instances", Level::INFO);
        check(None, Some("LOUD"), "reap_instances", Level::INFO);
        check(None, None, "aws_smithy_runtime::client", Level::WARN);
    }

    #[test]
    fn lambdas_level_holds_for_all() {
        check(None, Some("DEBUG"), "aws_smithy_runtime::client", Level::DEBUG);
        check(None, Some("FATAL"), "reap_instances", Level::ERROR);
        check(None, Some("WARN"), "reap_instances", Level::WARN);
    }

    #[test]
    fn rust_log_comes_first_where_it_can_be_read() {
        check(Some("warn,cloud=trace"), Some("INFO"), "cloud::act", Level::TRACE);
        check(Some("warn,cloud=trace"), Some("INFO"), "store", Level::WARN);
        check(Some("cloud=trace=trace"), None, "store", Level::INFO);
        check(Some(""), None, "store", Level::INFO);
    }

    #[test]
    fn a_failure_is_logged_once() {
        for rust_log in [None, Some("trace")] {
            assert!(!filter(rust_log, None).would_enable("lambda_runtime::layers::panic", &Level::ERROR));
        }
    }
}
