//! The data that an action loses, in the first line.

use super::*;

fn scratch() -> InstanceBuilder {
    instance().instance_storage(250).tag("curfew:local-disk", "expendable")
}

#[test]
fn nvme_scratch_stands_in_the_first_line() {
    assert_snapshot!(first_line(&planned(scratch(), &idle(), ENFORCED)), @"Will lose: the NVMe scratch of i-0abc (250 GB). Curfew will stop i-0abc (g5.xlarge) of team vision at 2026-09-01 13:00 UTC: $1.01/h.");
    assert_snapshot!(first_line(&done(scratch().tag(MARKED, DUE), &idle(), ENFORCED)), @"Lost: the NVMe scratch of i-0abc (250 GB). Curfew stopped i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.");
    assert_snapshot!(first_line(&observed(scratch().tag(MARKED, DUE), &idle(), "")), @"Would lose: the NVMe scratch of i-0abc (250 GB). Curfew would stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.");
}

#[test]
fn what_is_terminated_loses_its_root_volume() {
    let doomed = instance().tag("curfew:on-idle", "terminate");
    assert_snapshot!(first_line(&planned(doomed, &idle(), ENFORCED)), @"Will lose: i-0abc with its root volume. Curfew will terminate i-0abc (g5.xlarge) of team vision at 2026-09-01 13:00 UTC: $1.01/h.");
}

#[test]
fn the_first_line_names_no_loss_where_there_is_none() {
    assert!(!first_line(&planned(instance(), &idle(), ENFORCED)).contains("ost"));
    assert!(!first_line(&done(scratch().tag(MARKED, DUE), &busy(), ENFORCED)).contains("ost"));
    let failed = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation");
    let not_stopped = with(planned(scratch().tag(MARKED, DUE), &idle(), ENFORCED), &failed);
    assert!(!first_line(&not_stopped).contains("ost"));
}
