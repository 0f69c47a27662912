//! Products of `SageMaker` as the Price List writes them, and what resources cost by them.

use model::config::PricesConfig;
use model::fixture::{SageMakerBuilder, app, endpoint, notebook, time, training_job};
use model::money;
use serde_json::{Value, json};

use super::*;
use crate::price::{PriceDocument, PriceQuery, list};

const NOW: &str = "2026-09-01T12:00:00Z";

/// A product as `GetProducts` returns it.
fn product(usage_type: &str, attributes: Value, unit: &str, usd: &str) -> String {
    let mut product = json!({
        "product": {"productFamily": "ML Instance", "attributes": {
            "regionCode": "us-east-1", "locationType": "AWS Region", "instanceName": "ml.g5.xlarge", "usagetype": usage_type,
        }},
        "terms": {"OnDemand": {"A.JRTCKXETXF": {"priceDimensions": {"A.JRTCKXETXF.6YS6EN2CT7": {
            "unit": unit, "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": usd}
        }}}}}
    });
    let own = product.pointer_mut("/product/attributes").and_then(Value::as_object_mut).unwrap();
    own.extend(attributes.as_object().unwrap().clone());
    product.to_string()
}

fn hourly(usage_type: &str, usd: &str) -> String {
    product(usage_type, json!({}), "Hrs", usd)
}

fn listed(products: &[String]) -> SageMakerPrices {
    list::sagemaker(products, &"us-east-1".into(), &"g5.xlarge".into()).unwrap()
}

#[test]
fn each_component_has_its_price() {
    let usages = ["Host:", "AsyncInf:", "Train:", "Processing:", "Notebk:", "Studio:JupyterLab-", "Studio:CodeEditor-"];
    let products: Vec<String> = usages
        .iter()
        .enumerate()
        .map(|(place, usage)| hourly(&format!("USE1-{usage}ml.g5.xlarge"), &format!("1.{place}000000000")))
        .chain([hourly("Studio:KernelGateway-ml.g5.xlarge", "1.7000000000")])
        .collect();
    let found: Vec<u64> = listed(&products).into_values().collect();
    assert_eq!(found, [1_000_000, 1_100_000, 1_200_000, 1_300_000, 1_400_000, 1_500_000, 1_600_000, 1_700_000]);
}

#[test]
fn a_price_is_never_guessed() {
    let none =
        |product: String| assert_eq!(listed(std::slice::from_ref(&product)), SageMakerPrices::new(), "{product}");
    none(product("USE1-Host:ml.g5.xlarge", json!({}), "Quantity", "1.4080000000"));
    none(hourly("USE1-Host:ml.g5.xlarge", "0.0000000000"));
    none(hourly("USE1-Host:ml.g5.2xlarge", "1.5150000000"));
    none(product("USE1-Host:ml.g5.xlarge", json!({"instanceName": "ml.g5.2xlarge"}), "Hrs", "1.5150000000"));
    none(product("USE1-Host:ml.g5.xlarge", json!({"regionCode": "us-west-2"}), "Hrs", "1.4080000000"));
    none(product("USE1-Host:ml.g5.xlarge", json!({"locationType": "AWS Local Zone"}), "Hrs", "1.4080000000"));
    // The upfront fee of a training plan, a batch transform, a HyperPod cluster, and what only ends as a component does.
    for usage in ["TrainingPlanUpfrontFee:", "Tsform:", "Cluster:", "SpotTrain:", "RStudio:JupyterLab-"] {
        none(hourly(&format!("USE1-{usage}ml.g5.xlarge"), "1.4080000000"));
    }
    let twice = [hourly("USE1-Host:ml.g5.xlarge", "1.4080000000"), hourly("USE1-Host:ml.g5.xlarge", "1.4090000000")];
    assert_eq!(listed(&twice), SageMakerPrices::new());
    assert!(list::sagemaker(&["{".to_owned()], &"us-east-1".into(), &"g5.xlarge".into()).is_err());
}

/// An hour ago the list said this of `g5.xlarge`, and of `g5.2xlarge` as an endpoint.
fn prices() -> PriceBook {
    use SageMakerComponent::{AsyncInference, Hosting, Notebook, Processing, StudioJupyterLab, Training};
    let mut known = PriceDocument::default();
    let of = |prices: &[(SageMakerComponent, u64)]| prices.iter().copied().collect();
    let all = [(Hosting, 1_400_000), (AsyncInference, 1_410_000), (Training, 1_420_000), (Processing, 1_430_000)];
    let all = [all.as_slice(), &[(Notebook, 1_440_000), (StudioJupyterLab, 1_450_000)]].concat();
    known.learn_sagemaker("us-east-1".into(), "g5.xlarge".into(), of(&all), time("2026-09-01T10:00:00Z"));
    known.learn_sagemaker(
        "us-east-1".into(),
        "g5.2xlarge".into(),
        of(&[(Hosting, 2_000_000)]),
        time("2026-09-01T11:00:00Z"),
    );
    PriceBook::from_document(known, &PricesConfig::default(), time(NOW))
}

fn cost(resource: SageMakerBuilder) -> String {
    money::format_rate(crate::price::rate(prices().sagemaker_cost(&resource.build())))
}

fn on(machines: &[(&str, u32)]) -> SageMakerBuilder {
    let machines = machines.iter().map(|(name, count)| (TypeName::from(*name), *count)).collect();
    endpoint().facts(|facts| facts.machines = Some(machines))
}

#[test]
fn a_resource_costs_what_its_component_does_on_all_of_its_instances() {
    let check = |resource: SageMakerBuilder, expect: &str| assert!(cost(resource).starts_with(expect), "{expect}");
    check(endpoint(), "$1.40/h");
    check(on(&[("g5.xlarge", 3), ("g5.2xlarge", 1)]), "$6.20/h");
    check(on(&[("g5.xlarge", 0)]), "$0.00/h");
    check(
        endpoint().facts(|facts| {
            facts.signs.insert(ProductionSign::AsyncInference);
        }),
        "$1.41/h",
    );
    check(training_job(), "$1.42/h");
    check(training_job().with(|job| job.instances = Some(4)), "$5.68/h");
    check(training_job().job(JobKind::Processing), "$1.43/h");
    check(notebook(), "$1.44/h");
    check(app(), "$1.45/h");
}

#[test]
fn what_is_unknown_stays_unknown() {
    let check = |resource: SageMakerBuilder| assert_eq!(cost(resource), "price unknown");
    check(on(&[("g5.xlarge", 3), ("p5.48xlarge", 1)]));
    check(endpoint().facts(|facts| facts.machines = None));
    check(endpoint().with(|endpoint| endpoint.region = "us-west-2".into()));
    check(notebook().with(|notebook| notebook.instance_type = Some("g5.2xlarge".into())));
    check(training_job().job(JobKind::Tuning));
    check(training_job().billing(|billing| billing.is_managed_spot = true));
    check(app().with(|app| {
        if let SageMakerKind::App(app) = &mut app.kind {
            app.app_type = "TensorBoard".to_owned();
        }
    }));
}

#[test]
fn the_ledger_gets_a_price_with_its_begin() {
    let check = |resource: SageMakerBuilder, expect: &[(&str, u64)]| {
        let expect: Vec<_> =
            expect.iter().map(|(from, usd)| (time(from), Rate::from_usd_micros_per_hour(*usd))).collect();
        assert_eq!(prices().known_rates_of_sagemaker(&resource.build()), expect);
    };
    check(on(&[("g5.xlarge", 2)]), &[("2026-09-01T10:00:00Z", 2_800_000)]);
    check(on(&[("g5.xlarge", 2), ("g5.2xlarge", 1)]), &[("2026-09-01T11:00:00Z", 4_800_000)]);
    check(on(&[("g5.xlarge", 0)]), &[("1970-01-01T00:00:00Z", 0)]);
    check(on(&[]), &[("1970-01-01T00:00:00Z", 0)]);
    check(on(&[("p5.48xlarge", 1)]), &[]);
    check(training_job().billing(|billing| billing.is_managed_spot = true), &[("2026-09-01T10:00:00Z", 1_420_000)]);
}

#[test]
fn each_type_is_asked_for_once_a_day() {
    let resources = [on(&[("g5.xlarge", 2), ("p5.48xlarge", 1)]).build(), notebook().build()];
    let types = sagemaker_types(&resources);
    let mut known = PriceDocument::default();
    let wanted = |known: &PriceDocument, now: &str| known.wanted(&[], &[], &types, time(now)).listed;
    let question = |name: &str| PriceQuery::SageMaker("us-east-1".into(), name.into());
    assert_eq!(wanted(&known, NOW), [question("g5.xlarge"), question("p5.48xlarge")]);
    known.learn_sagemaker("us-east-1".into(), "g5.xlarge".into(), SageMakerPrices::new(), time(NOW));
    assert_eq!(wanted(&known, "2026-09-02T11:59:59Z"), [question("p5.48xlarge")]);
    assert_eq!(wanted(&known, "2026-09-02T12:00:00Z").len(), 2);
    let text = serde_json::to_string(&known).unwrap();
    assert_eq!(serde_json::from_str::<PriceDocument>(&text).unwrap(), known);
    known.prune(time("2026-09-09T12:00:00Z"));
    assert_eq!(known, PriceDocument::default());
}
