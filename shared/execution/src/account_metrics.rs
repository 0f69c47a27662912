//! Publishes the metrics of the account, where a deployment asks for them.

use model::observation::{Gap, Observed};
use plan::report::{RunRecord, RunUsage};
use ports::{BudgetCloud, Cloud};
use report::AccountMetrics;

use crate::Run;
use crate::budgets::{BeatDocuments, in_time};

/// Destination of the metrics of the account.
#[derive(Clone, Copy)]
pub struct MetricsPublisher<'a> {
    /// The number of the account.
    pub account: &'a str,
    /// Writes one line to the log of the function, from which `CloudWatch` takes them.
    pub write_line: &'a dyn Fn(&str),
}

impl<C: Cloud, D> Run<'_, C, D> {
    /// Publishes them, and counts them in the usage of the run: AWS bills each. Nothing happens where the deployment asks for none.
    pub(crate) fn publish_metrics(&self, metrics: &AccountMetrics) {
        let Some(publisher) = &self.metrics else { return };
        for line in metrics.to_emf_lines(self.now) {
            (publisher.write_line)(&line);
        }
        self.cloud.add_usage(RunUsage { published_metrics: metrics.series(), ..RunUsage::default() });
    }
}

/// The newest record of reap-instances; `None` if there is none, or it cannot be read.
pub(crate) async fn read_newest_judgement(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
) -> Observed<Option<RunRecord>> {
    const FUNCTION: &str = "reap-instances";
    let (home, read) = (run.cloud.home(), run.store.read_newest_audit(FUNCTION, run.now));
    match in_time(read, run.timeout(), home, "s3:GetObject", || format!("the newest record of {FUNCTION}")).await {
        Ok(record) => Observed { items: record, gaps: Vec::new() },
        Err(gap) => Observed { items: None, gaps: Vec::<Gap>::from([gap]) },
    }
}
