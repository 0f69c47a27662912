//! The command line.

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    apply, budget, cancel, completions, config, doctor, explain, gpu_box, gpus, jobs, keep, logs, metrics, mode, plans,
    recommend, report, rerun, run, run_now, scan, schedule, ssh, submit, team, undo, uninstall, version, watch,
};
use crate::global_options::GlobalOptions;

/// Controls GPU spend on EC2: find waste before you deploy anything, review before Curfew acts, undo after.
#[derive(Debug, Parser)]
#[command(name = "curfew", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 nothing found, or done; 1 something found, or not done; 2 error or \
                        incomplete result.\n\n\
                        Permissions: docs/command.md lists those of each command; an error names the one that is missing.\n\n\
                        Example:\n  curfew scan --profile research")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Scan(scan::Scan),
    #[command(subcommand)]
    Config(config::Config),
    Explain(explain::Explain),
    Plans(plans::Plans),
    Budget(budget::Budget),
    Report(report::Report),
    Watch(watch::Watch),
    Recommend(Box<recommend::Recommend>),
    Gpus(gpus::Gpus),
    Apply(apply::Apply),
    Keep(keep::Keep),
    Protect(keep::Protect),
    Release(keep::Release),
    Undo(undo::Undo),
    Submit(submit::Submit),
    Run(Box<run::Run>),
    Rerun(rerun::Rerun),
    Jobs(jobs::Jobs),
    Logs(logs::Logs),
    Ssh(ssh::Ssh),
    Cancel(cancel::Cancel),
    #[command(subcommand)]
    Box(gpu_box::GpuBox),
    #[command(subcommand)]
    Schedule(schedule::Schedule),
    #[command(subcommand)]
    Team(team::Team),
    Doctor(doctor::Doctor),
    #[command(subcommand)]
    Metrics(metrics::Metrics),
    Mode(mode::SetMode),
    RunNow(run_now::RunNow),
    Uninstall(uninstall::Uninstall),
    Version(version::Version),
    Completions(completions::Completions),
}

/// The parsed command line. Help, which has no foreign text, is printed here, and ends the process.
pub(crate) fn read() -> Result<Arguments, clap::Error> {
    let mut command = command();
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let read =
        read.and_then(|matches| Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    read.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        _ => error,
    })
}

/// The command line. Each command's usage is stored before parsing: an error's usage would otherwise list as mandatory every option that a variable
/// has set.
pub(crate) fn command() -> clap::Command {
    let mut named = Arguments::command();
    named.build();
    with_usage(Arguments::command(), &mut named)
}

/// `named` is the same command, built, so that it knows its whole name and the global options.
fn with_usage(command: clap::Command, named: &mut clap::Command) -> clap::Command {
    let subs: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let usage = named.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    subs.iter().fold(command.override_usage(usage), |command, name| match named.find_subcommand_mut(name) {
        Some(named) => command.mut_subcommand(name, |sub| with_usage(sub, named)),
        None => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_fits_together() {
        command().debug_assert();
    }

    /// Every command, by its words.
    fn commands(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let mut found = vec![(words.to_vec(), command.clone())];
        for sub in command.get_subcommands() {
            found.extend(commands(sub, &[words, &[sub.get_name().to_owned()]].concat()));
        }
        found
    }

    #[test]
    fn every_help_ends_with_an_example_of_itself_that_parses() {
        for (words, command) in commands(&command(), &["curfew".to_owned()]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_group = command.has_subcommands() && words.len() > 1;
            if help.is_empty() && is_group {
                continue;
            }
            let (_, examples) = help.split_once("Example:\n").unwrap_or_else(|| panic!("{words:?} has no example"));
            for example in examples.lines() {
                let line = example.split(['>', '|']).next().unwrap_or_default();
                // Every second part is between quotes.
                let parts = line.split('\'').enumerate();
                let typed: Vec<&str> = parts
                    .flat_map(
                        |(at, part)| {
                            if at.is_multiple_of(2) { part.split_whitespace().collect() } else { vec![part] }
                        },
                    )
                    .collect();
                assert!(
                    typed.iter().zip(&words).all(|(typed, word)| typed == word),
                    "{example} is no example of {words:?}"
                );
                let parsed = Arguments::try_parse_from(&typed);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_argument_is_explained() {
        for (words, command) in commands(&command(), &["curfew".to_owned()]) {
            assert!(command.get_about().is_some() || words.len() == 1, "{words:?}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{words:?} {}", argument.get_id());
            }
        }
    }
}
