//! `send-report`: it reads what the other functions wrote, and how hard instances worked.

use super::ExpectedPermission::Always;
use super::budgets::DENIED;
use super::{CaseBuilder, FunctionActions, PUT, PermissionCase, REPORTS};

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[],
    never: &[],
    denied: DENIED,
    own: &[
        ("notices/send-report/", true),
        ("reports/", true),
        ("ledger/", false),
        ("budgets/", false),
        ("prices/", false),
        ("plans/", false),
        ("jobs/", false),
    ],
    further,
    is_reader: true,
    other: "reap-instances",
};

fn further(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    vec![table.object(PUT, "exports/2026-09/curfew-focus.csv", Always, REPORTS)]
}
