//! `curfew version`: the versions of the command, of the stack and of the state bucket.

use clap::Args;
use cloud::operator::read_stack;
use operator::doctor::version::{self, DocumentSchema};
use operator::doctor::{CheckResult, CheckState, DoctorFinding};
use serde::Serialize;
use store::Store;

use super::doctor::section::{unanswered, unread};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;
use crate::screen;

pub(super) const COMMAND_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Show the versions of this command, of the deployed stack and of its documents
///
/// Works without credentials, and then shows only its own.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 they fit; 1 something is too old or too new; 2 something that is deployed could not be read.\n\n\
                        Example:\n  curfew version"
)]
pub(crate) struct Version {}

/// `stack` and `bucket` are null if they are unknown.
#[derive(Serialize)]
struct VersionOutput<'a> {
    command: &'a str,
    stack: Option<StackVersion>,
    bucket: Option<BucketSchemas>,
    #[serde(flatten)]
    checked: &'a CheckResult,
}

#[derive(Serialize)]
struct StackVersion {
    name: String,
    /// Null if the stack does not state it.
    version: Option<String>,
    mode: Option<String>,
}

#[derive(Serialize)]
struct BucketSchemas {
    name: String,
    documents: Vec<DocumentSchema>,
}

/// The versions of a deployment, and the findings about them.
#[derive(Default)]
struct DeployedVersions {
    stack: Option<StackVersion>,
    bucket: Option<BucketSchemas>,
    findings: Vec<DoctorFinding>,
}

impl Version {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let as_json = global.json;
        let mut versions = DeployedVersions::default();
        match CommandContext::connect_if_possible(global).await? {
            Ok(context) => versions.read(&context).await,
            Err(absent) => screen::progress(format!("Only the command: {}", absent.problem)),
        }
        let DeployedVersions { stack, bucket, findings } = versions;
        let checked = CheckResult::new(version::CHECK, findings);
        let ending = match checked.state {
            CheckState::Ok => CommandStatus::Success,
            CheckState::Finding => CommandStatus::Findings,
            CheckState::Unknown => CommandStatus::Error,
        };
        let output = VersionOutput { command: COMMAND_VERSION, stack, bucket, checked: &checked };
        if as_json {
            screen::json(&output)?;
        } else {
            output.show();
        }
        Ok(ending)
    }
}

impl DeployedVersions {
    async fn read(&mut self, context: &CommandContext) {
        let name = &context.global.stack;
        let mut bucket = context.global.bucket.clone();
        match read_stack(&context.aws, name).await {
            Ok(Some(stack)) => {
                let version = stack.outputs.get(version::OUTPUT).cloned();
                self.findings.extend(version::check_stack(COMMAND_VERSION, version.as_deref()));
                let mode = stack.parameters.get("Mode").cloned();
                bucket = bucket.or_else(|| stack.state_bucket().cloned());
                self.stack = Some(StackVersion { name: stack.name, version, mode });
            }
            Ok(None) => screen::progress(format!("There is no stack {name} in {}", context.aws.home())),
            Err(error) => self.findings.push(unanswered(&error)),
        }
        if let Some(name) = bucket {
            let store = Store::new(context.aws.sdk_config(), name.clone());
            let (documents, findings) = check_bucket(context, &store).await;
            self.findings.extend(findings);
            self.bucket = Some(BucketSchemas { name, documents });
        }
    }
}

/// The documents of the bucket, and the findings about them.
pub(super) async fn check_bucket(context: &CommandContext, store: &Store) -> (Vec<DocumentSchema>, Vec<DoctorFinding>) {
    match store.read_schemas(context.aws.home()).await {
        Ok(documents) => {
            let documents: Vec<DocumentSchema> = documents
                .into_iter()
                .map(|store::DocumentSchema { key, found, known }| DocumentSchema { key, found, known })
                .collect();
            let findings = version::check_schemas(&documents);
            (documents, findings)
        }
        Err(error) => (Vec::new(), vec![unread(&error)]),
    }
}

impl VersionOutput<'_> {
    fn show(&self) {
        screen::print_line(format!("command  {}", self.command));
        if let Some(StackVersion { name, version, mode }) = &self.stack {
            let version = version.as_deref().unwrap_or("unknown");
            let mode = mode.as_deref().map(|mode| format!(", Mode={mode}")).unwrap_or_default();
            screen::print_line(format!("stack    {version}  ({name}{mode})"));
        }
        if let Some(BucketSchemas { name, documents }) = &self.bucket {
            let known = |one: &DocumentSchema| {
                let found = one.found.map_or_else(|| "none yet".to_owned(), |found| format!("schema {found}"));
                format!("{} {found}", one.key)
            };
            let shown: Vec<String> = documents.iter().map(known).collect();
            screen::print_line(format!("bucket   {name}: {}", shown.join(", ")));
        }
        for DoctorFinding { at, found, remedy, .. } in &self.checked.findings {
            screen::print_line(format!("{at}: {found}"));
            screen::print_line(format!("  -> {remedy}"));
        }
    }
}
