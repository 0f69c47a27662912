//! The digest of an image's tag, asked of its registry: Amazon ECR by a signed call, any other as an anonymous client of the OCI distribution
//! specification does, "Pulling manifests".

use std::net::Ipv4Addr;

use aws_config::BehaviorVersion;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::ErrorMetadata;
use jobs::{EcrRegistry, ImageReference};
use model::fault::{InvalidValue, error_sentence};
use model::id::Region;
use serde_json::{Value, json};
use signed_call::{AwsService, JsonProtocol, Repeats, SignedCall, with_fips};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const DESCRIBE_IMAGES: &str = "ecr:DescribeImages";

/// Host that serves the images of Docker Hub.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// The manifests of one image and of one for several architectures (OCI image specification; Docker image manifest version 2).
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// Tag of an image that names none.
const LATEST: &str = "latest";

/// Reason for an unknown digest.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The registry refused, or answered something else.
    #[error(transparent)]
    Registry(#[from] InvalidValue),
}

/// The digest that the image's tag has now.
///
/// # Errors
/// If its registry does not say.
pub async fn find_digest(aws: &Aws, image: &ImageReference) -> Result<String, RegistryError> {
    match image.ecr() {
        Some(registry) => ask_ecr(aws, &registry, image).await,
        None => Ok(ask_registry(aws, image).await?),
    }
}

async fn ask_ecr(aws: &Aws, registry: &EcrRegistry, image: &ImageReference) -> Result<String, RegistryError> {
    let call = SignedCall {
        call: DESCRIBE_IMAGES,
        region: &registry.region,
        service: AwsService::Ecr,
        protocol: JsonProtocol::Target { prefix: "AmazonEC2ContainerRegistry_V20150921", operation: "DescribeImages" },
        repeats: Repeats::LikeTheSdk,
    };
    let asked = json!({
        "registryId": registry.account,
        "repositoryName": image.repository,
        "imageIds": [{ "imageTag": image.tag.as_deref().unwrap_or(LATEST) }],
    });
    let config = aws.sdk_config();
    let config = if registry.is_fips { with_fips(config) } else { config.clone() };
    let answer = Box::pin(call.send(&config, &asked)).await;
    let region = Region::from(registry.region.as_str());
    let answer = answer.map_err(|error| call_error(DESCRIBE_IMAGES, &region, &error))?;
    let digest = answer.pointer("/imageDetails/0/imageDigest").and_then(Value::as_str);
    Ok(digest.ok_or_else(|| InvalidValue::new("Amazon ECR knows no digest of it"))?.to_owned())
}

async fn ask_registry(aws: &Aws, image: &ImageReference) -> Result<String, InvalidValue> {
    let host = if image.registry == "docker.io" { DOCKER_HUB } else { &image.registry };
    // As Docker does: a registry on this machine has no certificate.
    let scheme = if is_local(host) { "http" } else { "https" };
    let base = format!("{scheme}://{host}");
    let path = format!("/v2/{}/manifests/{}", image.repository, image.tag.as_deref().unwrap_or(LATEST));
    let mut answer = request(aws, "HEAD", &base, &path, None).await?;
    if answer.status == 401 {
        let challenge = answer.challenge.as_deref().and_then(read_challenge);
        let challenge =
            challenge.ok_or_else(|| InvalidValue::new("its registry asks for another login than a token"))?;
        let token = fetch_token(aws, &challenge, &image.repository, scheme).await?;
        answer = request(aws, "HEAD", &base, &path, Some(&token)).await?;
    }
    match (answer.status, answer.digest) {
        (200, Some(digest)) => Ok(digest),
        (200, None) => Err(InvalidValue::new("its registry answers no digest")),
        (404, _) => Err(InvalidValue::new("its registry does not know it")),
        (401 | 403, _) => Err(InvalidValue::new("its registry does not give it to everybody; copy it to Amazon ECR")),
        (429, _) => Err(InvalidValue::new("its registry limits anonymous requests; try again later")),
        (status, _) => Err(InvalidValue::new(format!("its registry answers HTTP status {status}"))),
    }
}

fn is_local(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// A token for anybody (Docker, "Token Authentication Specification").
async fn fetch_token(
    aws: &Aws,
    challenge: &TokenChallenge,
    repository: &str,
    scheme: &str,
) -> Result<String, InvalidValue> {
    let wrong = || InvalidValue::new(format!("its registry sends to {:?} for a token", challenge.realm));
    let rest = challenge.realm.strip_prefix(&format!("{scheme}://")).ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let service = challenge.service.as_deref().map(|service| format!("service={service}&")).unwrap_or_default();
    let path = format!("/{path}?{service}scope=repository:{repository}:pull");
    let answer = request(aws, "GET", &format!("{scheme}://{host}"), &path, None).await?;
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let token = ["token", "access_token"].into_iter().find_map(|name| document.get(name)?.as_str());
    let token = token.filter(|_| answer.status == 200);
    Ok(token.ok_or_else(|| InvalidValue::new(format!("{host} gives no token for it")))?.to_owned())
}

#[derive(Debug, PartialEq, Eq)]
struct TokenChallenge {
    realm: String,
    service: Option<String>,
}

/// RFC 6750, "The `WWW-Authenticate` Response Header Field".
fn read_challenge(header: &str) -> Option<TokenChallenge> {
    let parameters = header.strip_prefix("Bearer ")?;
    // None of the two has a comma.
    let value = |name: &str| {
        let found = parameters.split(',').find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('='))?;
        let value = found.trim_matches('"');
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._~:/%".contains(letter);
        value.chars().all(is_plain).then(|| value.to_owned())
    };
    Some(TokenChallenge { realm: value("realm")?, service: value("service") })
}

#[derive(Debug, Default)]
struct RegistryResponse {
    status: u16,
    digest: Option<String>,
    challenge: Option<String>,
    body: Vec<u8>,
}

/// One request, with the connections, the timeouts and the retries of the calls to AWS, and without a signature.
async fn request(
    aws: &Aws,
    method: &'static str,
    base: &str,
    path: &str,
    token: Option<&str>,
) -> Result<RegistryResponse, InvalidValue> {
    let config = aws.sdk_config();
    let (path, bearer) = (path.to_owned(), token.map(|token| format!("Bearer {token}")));
    let mut call = Operation::builder()
        .service_name("registry")
        .operation_name("Manifest")
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(base)
        .no_auth()
        .no_retry()
        .serializer(move |()| {
            let mut request = HttpRequest::new(SdkBody::empty());
            request.set_method(method)?;
            request.set_uri(path.as_str())?;
            request.headers_mut().insert("accept", MANIFESTS);
            if let Some(bearer) = bearer.clone() {
                request.headers_mut().try_insert("authorization", bearer)?;
            }
            Ok(request)
        })
        .deserializer(|response: &HttpResponse| Ok::<_, OrchestratorError<ErrorMetadata>>(read_response(response)));
    if let Some(http_client) = config.http_client() {
        call = call.http_client(http_client);
    }
    if let Some(timeouts) = config.timeout_config() {
        call = call.timeout_config(timeouts.clone());
    }
    if let Some(sleep) = config.sleep_impl() {
        call = call.sleep_impl(sleep);
    }
    let sent = call.build().invoke(()).await;
    sent.map_err(|error| InvalidValue::new(format!("{base} does not answer: {}", error_sentence(&error))))
}

fn read_response(response: &HttpResponse) -> RegistryResponse {
    let header = |name: &str| response.headers().get(name).map(str::to_owned);
    RegistryResponse {
        status: response.status().as_u16(),
        digest: header("docker-content-digest"),
        challenge: header("www-authenticate"),
        body: response.body().bytes().unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_says_where_its_tokens_are() {
        let check = |header: &str, expect: Option<(&str, Option<&str>)>| {
            let expect = expect.map(|(realm, service)| TokenChallenge {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            });
            assert_eq!(read_challenge(header), expect, "{header}");
        };
        check(
            "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a:pull\"",
            Some(("https://auth.docker.io/token", Some("registry.docker.io"))),
        );
        check(
            "Bearer realm=\"https://public.ecr.aws/token/\", service=\"public.ecr.aws\"",
            Some(("https://public.ecr.aws/token/", Some("public.ecr.aws"))),
        );
        check("Bearer service=\"a\"", None);
        check("Bearer realm=\"https://a/b?c&d\"", None);
        check("Basic realm=\"a\"", None);
    }

    #[test]
    fn only_a_registry_on_this_machine_has_no_certificate() {
        let check = |host: &str, expect| assert_eq!(is_local(host), expect, "{host}");
        check("localhost:5000", true);
        check("127.0.0.1:5000", true);
        check("127.evil.example", false);
        check("registry-1.docker.io", false);
    }
}
