//! `send-report`: it reads what the other functions wrote, and how hard instances worked.

use super::budgets::DENIED;
use super::{FunctionActions, nothing_else};

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    looks: &[
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeSpotInstanceRequests",
        "cloudwatch:ListMetrics",
        "cloudwatch:GetMetricData",
    ],
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
    further: nothing_else,
    is_reader: true,
    other: "reap-instances",
};
