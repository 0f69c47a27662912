//! `curfew explain`.

mod account;
mod gone;
mod outcome;
mod show;

use clap::Args;
use serde::Serialize;

use self::account::Account;
use self::outcome::Explained;
use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::named::Named;
use crate::screen;

/// Say of one resource what every rule finds, and whether and when it would be acted on
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 explained; 2 not found, or nobody can say.\n\nExample:\n  curfew explain i-0123456789abcdef0"
)]
pub(crate) struct Explain {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0, or snap-0123456789abcdef0 of a snapshot that Curfew made
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<Named>,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct All {
    schema: u32,
    explained: Vec<Explained>,
    unexplained: Vec<Unexplained>,
}

#[derive(Serialize)]
struct Unexplained {
    resource: String,
    error: String,
}

impl Explain {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let account = Account::of(context).await?;
        let mut all = All { schema: screen::SCHEMA, explained: Vec::new(), unexplained: Vec::new() };
        for named in &self.resources {
            match account.explain(named).await {
                Ok(explained) => all.explained.push(explained),
                Err(error) => all.unexplained.push(Unexplained { resource: named.id.to_string(), error }),
            }
        }
        if context.global.json {
            screen::json(&all)?;
        } else {
            for (place, explained) in all.explained.iter().enumerate() {
                if place > 0 {
                    screen::say("");
                }
                show::explained(explained);
            }
        }
        for Unexplained { resource, error } in &all.unexplained {
            screen::complain(&Failure::of(format!("{resource}: {error}")));
        }
        Ok(if all.unexplained.is_empty() { Ending::Fine } else { Ending::Trouble })
    }
}
