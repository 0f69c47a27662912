//! Documents: a file, standard input, or the deployed one.

use std::io::Read as _;
use std::path::Path;

use model::config;
use model::config::{Config, Settings, mistakes};
use model::foreign_text::shell_word;
use store::Store;

use crate::command_error::CommandError;
use crate::context::CommandContext;

/// A configuration, and where it was read.
pub(super) struct ConfigDocument {
    pub(super) config: Config,
    pub(super) settings: Settings,
    pub(super) text: String,
    /// `s3://…`, or a file; `defaults` if there is no document.
    pub(super) from: String,
    /// The bucket of a deployment: lines of an organization's hub may count beside the document.
    pub(super) store: Option<Store>,
}

impl ConfigDocument {
    pub(super) fn new(config: Config, text: &str, from: String) -> Self {
        let settings = Settings::from_document(&config, text);
        Self { settings, config, text: text.to_owned(), from, store: None }
    }
}

/// The bytes of a file, up to one more than the limit; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    let bytes_max = u64::try_from(config::BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if is_stdin(file) {
        std::io::stdin().lock().take(bytes_max).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(bytes_max).read_to_end(&mut bytes))
    };
    read.map_err(|error| CommandError::new(format!("{} cannot be read: {error}", named(file))))?;
    Ok(bytes)
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The file name as compilers print it.
pub(super) fn named(file: &Path) -> String {
    if is_stdin(file) { "<stdin>".to_owned() } else { file.display().to_string().replace(char::is_control, "?") }
}

/// The configuration of a file, or else its first mistake.
pub(super) fn read_document_file(file: &Path) -> Result<ConfigDocument, CommandError> {
    let bytes = read(file)?;
    let config = Config::read_bytes(&bytes).map_err(|first| {
        let name = named(file);
        let problem = format!("{name}:{}:{}: key `{}`: {}", first.line, first.column, first.key, first.problem);
        match mistakes(&bytes).len() {
            0 | 1 => CommandError::new(problem),
            count => CommandError::with(
                problem,
                format!("one of {count}: curfew config check {}", shell_word(&file.to_string_lossy())),
            ),
        }
    })?;
    Ok(ConfigDocument::new(config, &String::from_utf8_lossy(&bytes), named(file)))
}

/// The configuration in force: the deployed document, or the defaults without a deployment or document.
pub(super) async fn deployed(context: &CommandContext) -> Result<ConfigDocument, CommandError> {
    let deployed = context.deployed().await?;
    let store = deployed.as_ref().map(|deployed| deployed.store.clone());
    let document = match deployed {
        Some(deployed) => {
            let read = deployed.store.read_config_document().await?;
            read.map(|document| (document, format!("s3://{}/{}", deployed.bucket, config::KEY)))
        }
        None => None,
    };
    let document = match document {
        Some(((config, text), from)) => ConfigDocument::new(config, &text, from),
        None => ConfigDocument::new(Config::default(), "", "defaults".to_owned()),
    };
    Ok(ConfigDocument { store, ..document })
}
