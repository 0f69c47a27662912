//! Live prices: the Price List, and the history of Spot prices. Both are free.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::price::list::{SAGEMAKER_SERVICE, SERVICE, STORAGE_FAMILIES};
use billing::price::{PriceDocument, PriceQueries, PriceQuery, SageMakerPrices, SpotPrice, StoragePrices, list};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use model::id::{Region, TypeName};
use model::money::Rate;
use model::observation::Gap;
use model::partition::Partition;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::aws::Aws;
use crate::convert::timestamp;
use crate::error::{CallError, CallErrorKind, call_error, gaps};
use crate::http_call::{AwsService, HttpCall};
use crate::observe::pages::all_pages;

const GET_PRODUCTS: &str = "pricing:GetProducts";
const SPOT_PRICES: &str = "ec2:DescribeSpotPriceHistory";

/// AWS Billing user guide, "Using the AWS Price List Query API": its endpoints.
const AMERICA: &str = "us-east-1";
const EUROPE: &str = "eu-central-1";
const ASIA: &str = "ap-south-1";

/// The maximum of `GetProducts` (AWS Price List Service API reference).
const PRODUCTS_A_PAGE: u32 = 100;
/// A query has one or a few dozen products.
const PAGES_MAX: usize = 5;
/// The maximum of `DescribeSpotPriceHistory` (EC2 API reference).
const CHANGES_A_PAGE: i32 = 1000;
/// Concurrent queries to the Price List, which allows a few calls a second.
const AT_ONCE: usize = 4;

/// The product of Spot prices: Curfew knows prices of plain Linux only.
const LINUX: &str = "Linux/UNIX";

/// Queries all wanted prices, and stores the answers. A query without an answer within `timeout` is a gap, and the old price stays.
pub async fn prices(
    aws: &Aws,
    known: &mut PriceDocument,
    wanted: &PriceQueries,
    now: Timestamp,
    timeout: Duration,
) -> Vec<Gap> {
    let deadline = Instant::now() + timeout;
    // Without a list the dated table counts.
    let has_list = home_partition(aws).is_some_and(|partition| partition.has_price_list);
    let asked = wanted.listed.iter().filter(|_| has_list);
    let listed = stream::iter(asked).map(|question| async move {
        let home = aws.home();
        let late = |_| Err(CallError::timed_out(GET_PRODUCTS, home, timeout));
        timeout_at(deadline, ask_list(aws, question)).await.unwrap_or_else(late)
    });
    let is_in_usd = home_partition(aws).is_some_and(|partition| partition.is_billed_in_usd);
    let spot = stream::iter(&wanted.spot).map(|(region, (types, since))| async move {
        if !is_in_usd {
            return (region, types, Ok(Vec::new()));
        }
        let late = |_| Err(CallError::timed_out(SPOT_PRICES, region, timeout));
        let changes = timeout_at(deadline, spot_changes(aws, region, types, *since, now)).await;
        (region, types, changes.unwrap_or_else(late))
    });
    let (listed, spot) = futures::join!(
        listed.buffer_unordered(AT_ONCE).collect::<Vec<_>>(),
        spot.buffer_unordered(AT_ONCE).collect::<Vec<_>>()
    );
    let mut errors = Vec::new();
    for answer in listed {
        match answer {
            Ok(PriceResponse::Instance(region, name, price)) => known.learn_listed(region, name, price, now),
            Ok(PriceResponse::Family(region, prices)) => known.learn_family(&region, prices, now),
            Ok(PriceResponse::Storage(region, prices)) => known.learn_storage(region, prices, now),
            Ok(PriceResponse::SageMaker(region, name, prices)) => known.learn_sagemaker(region, name, prices, now),
            Err(error) => errors.push(error),
        }
    }
    for (region, types, changes) in spot {
        match changes {
            Ok(changes) => known.learn_spot(region, types, changes, now),
            Err(error) => errors.push(error),
        }
    }
    gaps(errors)
}

/// The answer of the Price List.
enum PriceResponse {
    Instance(Region, TypeName, Option<u64>),
    Family(Region, BTreeMap<TypeName, Option<u64>>),
    Storage(Region, StoragePrices),
    SageMaker(Region, TypeName, SageMakerPrices),
}

/// Queries the nearest endpoint of the list, and the others if that one fails. A refusal of the first holds for the others, too.
async fn ask_list(aws: &Aws, question: &PriceQuery) -> Result<PriceResponse, CallError> {
    let [nearest, others @ ..] = endpoints(aws.home());
    let mut answer = ask_list_in(aws, &nearest, question).await;
    for region in others {
        match &answer {
            Err(error) if !matches!(error.kind, CallErrorKind::Denied { .. }) => {
                answer = ask_list_in(aws, &region, question).await;
            }
            _ => break,
        }
    }
    answer
}

/// The partition of the account.
fn home_partition(aws: &Aws) -> Option<&'static Partition> {
    Partition::find(aws.home().as_str())
}

/// The list's regions, the nearest to home first.
fn endpoints(home: &Region) -> [Region; 3] {
    let continent = home.as_str().split('-').next().unwrap_or_default();
    let order = match continent {
        "eu" | "me" | "il" | "af" => [EUROPE, ASIA, AMERICA],
        "ap" => [ASIA, EUROPE, AMERICA],
        _ => [AMERICA, EUROPE, ASIA],
    };
    order.map(Region::from)
}

async fn ask_list_in(aws: &Aws, endpoint: &Region, question: &PriceQuery) -> Result<PriceResponse, CallError> {
    let unreadable = |error: list::UnreadableProduct| {
        CallError::new(GET_PRODUCTS, endpoint, CallErrorKind::Other, error.to_string())
    };
    match question {
        PriceQuery::Instance(region, name) => {
            let products = products(aws, endpoint, SERVICE, &list::instance_filters(region, name)).await?;
            let price = list::on_demand(&products, region, name).map_err(unreadable)?;
            Ok(PriceResponse::Instance(region.clone(), name.clone(), price.map(Rate::usd_micros_per_hour)))
        }
        PriceQuery::Family(region, family) => {
            let products = products(aws, endpoint, SERVICE, &list::family_filters(region, *family)).await?;
            let prices = list::on_demand_of_family(&products, region).map_err(unreadable)?;
            let prices = prices.into_iter().map(|(name, price)| (name, price.map(Rate::usd_micros_per_hour)));
            Ok(PriceResponse::Family(region.clone(), prices.collect()))
        }
        PriceQuery::Storage(region) => {
            let mut all = Vec::new();
            for family in STORAGE_FAMILIES {
                all.extend(products(aws, endpoint, SERVICE, &list::storage_filters(region, family)).await?);
            }
            Ok(PriceResponse::Storage(region.clone(), list::storage(&all, region).map_err(unreadable)?))
        }
        PriceQuery::SageMaker(region, name) => {
            let instance_name = format!("ml.{name}");
            let filters = list::sagemaker_filters(region, &instance_name);
            let products = products(aws, endpoint, SAGEMAKER_SERVICE, &filters).await?;
            let prices = list::sagemaker(&products, region, name).map_err(unreadable)?;
            Ok(PriceResponse::SageMaker(region.clone(), name.clone(), prices))
        }
    }
}

/// Every product with these attributes, each as a JSON text.
async fn products(
    aws: &Aws,
    endpoint: &Region,
    service: &str,
    attributes: &[(&str, &str)],
) -> Result<Vec<String>, CallError> {
    let filter = |(field, value): &(&str, &str)| json!({ "Type": "TERM_MATCH", "Field": field, "Value": value });
    let filters: Vec<Value> = attributes.iter().map(filter).collect();
    let operation = ("AWSPriceListService", "GetProducts");
    let call = HttpCall::json_1_1(GET_PRODUCTS, endpoint, AwsService::Pricing, operation);
    let mut request = json!({
        "ServiceCode": service, "Filters": filters, "FormatVersion": "aws_v1", "MaxResults": PRODUCTS_A_PAGE,
    });
    let error = |message: String| CallError::new(GET_PRODUCTS, endpoint, CallErrorKind::Other, message);
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = call.send(aws, &request).await?;
        // An empty list is one; an answer whose body was lost has none.
        let products = page.get("PriceList").and_then(Value::as_array);
        let products = products.ok_or_else(|| error("the answer of the Price List has no list".to_owned()))?;
        // Each product is a JSON document in a text.
        all.extend(products.iter().map(|product| product.as_str().unwrap_or_default().to_owned()));
        match page.get("NextToken").and_then(Value::as_str) {
            Some(next) => request["NextToken"] = json!(next),
            None => return Ok(all),
        }
    }
    Err(error(format!("more than {PAGES_MAX} pages of products: more than any account should have")))
}

/// Every change of the Spot prices of these types since then, and for each zone the price in force then.
async fn spot_changes(
    aws: &Aws,
    region: &Region,
    types: &BTreeSet<TypeName>,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<SpotPrice>, CallError> {
    let names = types.iter().map(|name| aws_sdk_ec2::types::InstanceType::from(name.as_str()));
    let moment = |at: Timestamp| aws_sdk_ec2::primitives::DateTime::from_secs(at.as_second());
    let call = aws
        .ec2(region)
        .describe_spot_price_history()
        .set_instance_types(Some(names.collect()))
        .product_descriptions(LINUX)
        .start_time(moment(since))
        .end_time(moment(now))
        .max_results(CHANGES_A_PAGE);
    let mut all = Vec::new();
    all_pages(SPOT_PRICES, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(SPOT_PRICES, region, &error))?;
        all.extend(page.spot_price_history.unwrap_or_default().iter().filter_map(change));
        Ok(page.next_token)
    })
    .await?;
    Ok(all)
}

/// `None` if a part is missing or unreadable: a price of zero is no price.
fn change(price: &aws_sdk_ec2::types::SpotPrice) -> Option<SpotPrice> {
    if price.product_description()?.as_str() != LINUX {
        return None;
    }
    Some(SpotPrice {
        instance_type: TypeName::new(price.instance_type()?.as_str()),
        zone: price.availability_zone()?.to_owned(),
        from: timestamp(price.timestamp()?)?,
        usd_micros_per_hour: list::usd_micros(price.spot_price()?)
            .filter(|usd_micros| list::is_believable(*usd_micros))?,
    })
}

#[cfg(test)]
mod tests;
