//! Lines of a function's log from which `CloudWatch` takes metrics (`CloudWatch` user guide, "Specification: Embedded metric format"). They cost no
//! call and need no permission beside that of writing the log.

use jiff::Timestamp;
use model::config::ACCOUNT_METRICS_NAMESPACE;
use serde_json::{Map, Value, json};

use super::AccountMetrics;

impl AccountMetrics {
    /// One line, without its end, for each value of a dimension: a line can have only one value of each.
    pub fn to_emf_lines(&self, at: Timestamp) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(move |(dimension, values)| {
            let metrics: Vec<Value> =
                values.keys().map(|metric| json!({ "Name": metric.as_str(), "Unit": metric.unit() })).collect();
            let directive =
                json!({ "Namespace": ACCOUNT_METRICS_NAMESPACE, "Dimensions": [[dimension.name()]], "Metrics": metrics });
            let mut line = Map::new();
            line.insert("_aws".to_owned(), json!({ "Timestamp": at.as_millisecond(), "CloudWatchMetrics": [directive] }));
            line.insert(dimension.name().to_owned(), json!(dimension.value()));
            line.extend(values.iter().map(|(metric, value)| (metric.as_str().to_owned(), json!(value))));
            Value::Object(line).to_string()
        })
    }
}
