//! `deploy/permissions.csv`: the actions of each function, and what it needs them for. A test compares it with `template.yaml`.

use std::sync::LazyLock;

use model::table::embedded_table;

use super::super::super::runs::FUNCTIONS;

/// The function that people wake by links. It has no schedule.
pub(super) const REPLY: &str = "reply";

/// One action, and the functions that may take it.
pub(super) struct StatedPermission {
    pub(super) action: &'static str,
    /// `true` if AWS grants it on everything or on nothing.
    pub(super) is_on_everything: bool,
    /// The conditions of the template under which it is granted; `None`: always.
    pub(super) condition: Option<&'static str>,
    pub(super) why: &'static str,
    functions: Vec<&'static str>,
}

impl StatedPermission {
    pub(super) fn is_of(&self, function: &str) -> bool {
        self.functions.contains(&function)
    }
}

pub(super) static STATED: LazyLock<Vec<StatedPermission>> = LazyLock::new(|| {
    let text = include_str!("../../../../../../deploy/permissions.csv");
    embedded_table("../deploy/permissions.csv", text, |row| {
        let mut functions = Vec::new();
        for function in FUNCTIONS.map(|scheduled| scheduled.function).into_iter().chain([REPLY]) {
            functions.extend(row.optional_text(function)?.map(|_| function));
        }
        Ok(StatedPermission {
            action: row.text("action")?,
            is_on_everything: row.optional_text("resource")? == Some("*"),
            condition: row.optional_text("condition")?,
            why: row.text("why")?,
            functions,
        })
    })
});
