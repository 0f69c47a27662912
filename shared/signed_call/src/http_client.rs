//! The HTTP client of every call to AWS.

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// A client with the trusted certificates of the system, through the proxy that the environment names (`HTTPS_PROXY`, `NO_PROXY`).
#[must_use]
pub fn http_client() -> SharedHttpClient {
    client_through(ProxyConfig::from_env)
}

/// A client without a proxy, for a machine whose credentials come from its own metadata: those answer no proxy.
#[must_use]
pub fn direct_http_client() -> SharedHttpClient {
    client_through(ProxyConfig::disabled)
}

fn client_through(proxy: fn() -> ProxyConfig) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::Ring)).proxy_config(proxy());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}
