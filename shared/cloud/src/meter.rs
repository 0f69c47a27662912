//! Counts what AWS bills of Curfew's own calls, those to the state bucket included: all pass through one HTTP client. A retry is a request,
//! and is billed as one.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_ec2::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use plan::report::RunUsage;

/// Usage that was counted and is in no record yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageMeter(Arc<Mutex<RunUsage>>);

impl UsageMeter {
    pub(crate) fn add(&self, more: RunUsage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += more;
    }

    /// Returns the counted usage, and begins anew.
    pub(crate) fn take(&self) -> RunUsage {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the client with its requests counted.
    pub(crate) fn metered(&self, client: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(MeteredClient { client, meter: self.clone() })
    }
}

#[derive(Debug)]
struct MeteredClient {
    client: SharedHttpClient,
    meter: UsageMeter,
}

impl HttpClient for MeteredClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(MeteredConnector { connector, meter: self.meter.clone() })
    }
}

#[derive(Debug)]
struct MeteredConnector {
    connector: SharedHttpConnector,
    meter: UsageMeter,
}

impl HttpConnector for MeteredConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let signature = request.headers().get("authorization").unwrap_or_default();
        self.meter.add(billed(signature, request.method(), request.uri()));
        self.connector.call(request)
    }
}

/// Usage that AWS bills for a request. `GetMetricData` is billed by the metric, which its caller counts; calls to EC2, IAM, Systems Manager
/// and the Price List are free.
fn billed(signature: &str, method: &str, uri: &str) -> RunUsage {
    let none = RunUsage::default();
    // `Credential=<key>/<date>/<region>/<service>/aws4_request` (AWS IAM user guide, "Elements of an AWS API request signature").
    match signature.split('/').nth(3) {
        // Amazon S3 pricing, "Requests & data retrievals": PUT, COPY, POST and LIST cost the same, and DELETE nothing.
        Some("s3") if method == "DELETE" => none,
        Some("s3") if method == "PUT" || method == "POST" || uri.contains("list-type=2") => {
            RunUsage { s3_writes: 1, ..none }
        }
        Some("s3") => RunUsage { s3_reads: 1, ..none },
        Some("monitoring") if uri.ends_with("/operation/ListMetrics") => RunUsage { metric_lists: 1, ..none },
        Some("sns") => RunUsage { messages: 1, ..none },
        Some("ce") => RunUsage { cost_explorer_requests: 1, ..none },
        _ => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(service: &str, method: &str, uri: &str, expect: RunUsage) {
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261124/eu-central-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        assert_eq!(billed(&signature, method, uri), expect, "{service} {method} {uri}");
    }

    #[test]
    fn each_request_is_counted_as_it_is_billed() {
        let none = RunUsage::default();
        check("s3", "GET", "https://b.s3.amazonaws.com/prices/current.json", RunUsage { s3_reads: 1, ..none });
        check("s3", "HEAD", "https://b.s3.amazonaws.com/x", RunUsage { s3_reads: 1, ..none });
        check("s3", "GET", "https://b.s3.amazonaws.com/?list-type=2&prefix=x", RunUsage { s3_writes: 1, ..none });
        check("s3", "PUT", "https://b.s3.amazonaws.com/x", RunUsage { s3_writes: 1, ..none });
        check("s3", "DELETE", "https://b.s3.amazonaws.com/x", none);
        let cloudwatch =
            "https://monitoring.eu-central-1.amazonaws.com/service/GraniteServiceVersion20100801/operation";
        check("monitoring", "POST", &format!("{cloudwatch}/ListMetrics"), RunUsage { metric_lists: 1, ..none });
        check("monitoring", "POST", &format!("{cloudwatch}/GetMetricData"), none);
        check("sns", "POST", "https://sns.eu-central-1.amazonaws.com/", RunUsage { messages: 1, ..none });
        check("ce", "POST", "https://ce.us-east-1.amazonaws.com/", RunUsage { cost_explorer_requests: 1, ..none });
        check("ec2", "POST", "https://ec2.eu-central-1.amazonaws.com/", none);
        assert_eq!(billed("", "GET", "http://169.254.170.2/credentials"), none);
    }

    #[test]
    fn what_was_taken_is_counted_once() {
        let meter = UsageMeter::default();
        meter.clone().add(RunUsage { metrics: 500, ..RunUsage::default() });
        meter.add(RunUsage { metrics: 7, runs: 1, ..RunUsage::default() });
        assert_eq!(meter.take(), RunUsage { metrics: 507, runs: 1, ..RunUsage::default() });
        assert_eq!(meter.take(), RunUsage::default());
    }
}
