//! Prices read from the products of the Price List (AWS Billing user guide, "Reading the service price list file").
//!
//! An answer is a list of products, each a JSON text with the attributes by which it was requested, and its terms. A price counts only if
//! all matching products give the same one. Products with several prices, prices in steps, or another currency give none: nothing is
//! guessed.

use std::collections::{BTreeMap, BTreeSet};

use model::fault::shortened;
use model::id::{Region, TypeName};
use model::money::Rate;
use serde::Deserialize;

use super::sagemaker::{SageMakerComponent, SageMakerPrices};
use super::storage::StoragePrices;

/// The service whose products instances and volumes of EC2 are.
pub const SERVICE: &str = "AmazonEC2";

/// The service whose products the instances of `SageMaker` are.
pub const SAGEMAKER_SERVICE: &str = "AmazonSageMaker";

/// The families of products by which EBS bills what Curfew prices: size, IOPS, throughput.
pub const STORAGE_FAMILIES: [&str; 3] = ["Storage", "System Operation", "Provisioned Throughput"];

/// The most that is repeated of what cannot be read, in characters.
const QUOTED_CHARACTERS_MAX: usize = 120;

/// The part after this distinguishes usage types; before it is the region, except in us-east-1.
const EBS: &str = "EBS:";

/// Linux by the second, on shared hardware, nothing installed, no reservation.
const PLAIN_INSTANCE: [(&str, &str); 5] = [
    ("operatingSystem", "Linux"),
    ("tenancy", "Shared"),
    ("preInstalledSw", "NA"),
    ("capacitystatus", "Used"),
    ("marketoption", "OnDemand"),
];

/// The attributes by which an instance is asked for: Linux by the second, on shared hardware, nothing installed, no reservation.
#[must_use]
pub fn instance_filters<'a>(region: &'a Region, instance_type: &'a TypeName) -> [(&'static str, &'a str); 7] {
    let [system, tenancy, software, capacity, market] = PLAIN_INSTANCE;
    let (name, region) = (("instanceType", instance_type.as_str()), ("regionCode", region.as_str()));
    [name, region, system, tenancy, software, capacity, market]
}

/// Families of instances with accelerators, as the attribute `instanceFamily` of the Price List names them. One query has all types of a family in
/// a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceFamily {
    Gpu,
    MachineLearning,
    Media,
}

impl InstanceFamily {
    /// Returns the family in which the list has a type, by its name. A type that it has elsewhere is not among the answer, and is asked for by
    /// itself.
    #[must_use]
    pub fn from_type(instance_type: &TypeName) -> Self {
        match instance_type.as_str() {
            name if ["trn", "inf", "dl"].iter().any(|family| name.starts_with(family)) => Self::MachineLearning,
            name if name.starts_with("vt") => Self::Media,
            _ => Self::Gpu,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "GPU instance",
            Self::MachineLearning => "Machine Learning ASIC Instances",
            Self::Media => "Media Accelerator Instances",
        }
    }
}

/// The attributes by which a family of instances is asked for: as for one type, with its family instead.
#[must_use]
pub fn family_filters(region: &Region, family: InstanceFamily) -> [(&'static str, &str); 7] {
    let [system, tenancy, software, capacity, market] = PLAIN_INSTANCE;
    let (family, region) = (("instanceFamily", family.as_str()), ("regionCode", region.as_str()));
    [family, region, system, tenancy, software, capacity, market]
}

/// The attributes by which a family of storage products is asked for.
#[must_use]
pub fn storage_filters<'a>(region: &'a Region, family: &'a str) -> [(&'static str, &'a str); 2] {
    [("regionCode", region.as_str()), ("productFamily", family)]
}

/// The attributes by which a type of `SageMaker` is asked for: `ml.g5.xlarge`. Its `instanceType` would name the component too, in some
/// products (`ml.g5.xlarge-Hosting`), and not in others.
#[must_use]
pub fn sagemaker_filters<'a>(region: &'a Region, instance_name: &'a str) -> [(&'static str, &'a str); 2] {
    [("regionCode", region.as_str()), ("instanceName", instance_name)]
}

/// Reason why a product could not be read, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a product of the Price List cannot be read: {0}")]
pub struct UnreadableProduct(String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PricedProduct {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Product {
    product_family: Option<String>,
    attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    unit: String,
    #[serde(default)]
    begin_range: Option<String>,
    price_per_unit: BTreeMap<String, String>,
}

/// Returns the on-demand price of an instance of that type; `None` if its products do not give one price.
///
/// # Errors
///
/// Where a product cannot be read.
pub fn on_demand(
    products: &[String],
    region: &Region,
    instance_type: &TypeName,
) -> Result<Option<Rate>, UnreadableProduct> {
    Ok(on_demand_of_family(products, region)?.remove(instance_type).flatten())
}

/// Returns the on-demand price of each type among these products; `None` for one whose products do not give one price.
///
/// # Errors
///
/// Where a product cannot be read.
pub fn on_demand_of_family(
    products: &[String],
    region: &Region,
) -> Result<BTreeMap<TypeName, Option<Rate>>, UnreadableProduct> {
    let mut listed: BTreeMap<TypeName, BTreeSet<Option<u64>>> = BTreeMap::new();
    for priced in read(products)? {
        let Some(instance_type) = priced.product.attributes.get("instanceType").map(TypeName::new) else {
            continue;
        };
        if priced.is_plain_instance(region, &instance_type) {
            listed.entry(instance_type).or_default().insert(priced.price(&["Hrs"]));
        }
    }
    let price = |(name, prices)| (name, single_price(prices).map(Rate::from_usd_micros_per_hour));
    Ok(listed.into_iter().map(price).collect())
}

/// Returns the storage prices in that region, as far as these products of any family of [`STORAGE_FAMILIES`] give them.
///
/// # Errors
///
/// Where a product cannot be read.
pub fn storage(products: &[String], region: &Region) -> Result<StoragePrices, UnreadableProduct> {
    let mut gib_month: BTreeMap<String, BTreeSet<Option<u64>>> = BTreeMap::new();
    let mut iops_month = gib_month.clone();
    let mut gibps_month = BTreeSet::new();
    for priced in read(products)? {
        let of_region = priced.has_attribute("regionCode", region.as_str()) && priced.is_of_a_region();
        let Some(usage) = priced.usage().filter(|_| of_region) else { continue };
        if let Some(name) = priced.product.attributes.get("volumeApiName")
            && usage.starts_with("VolumeUsage")
            && priced.product.product_family.as_deref() == Some(STORAGE_FAMILIES[0])
        {
            gib_month.entry(name.clone()).or_default().insert(priced.price(&["GB-Mo", "GB-month"]));
        } else if let Some(name) = usage.strip_prefix("VolumeP-IOPS.") {
            iops_month.entry(name.to_owned()).or_default().insert(priced.price(&["IOPS-Mo"]));
        } else if usage == "VolumeP-Throughput.gp3" {
            gibps_month.insert(priced.price(&["GiBps-mo"]));
        }
    }
    let known = |of: BTreeMap<String, BTreeSet<Option<u64>>>| -> BTreeMap<String, u64> {
        of.into_iter().filter_map(|(name, said)| Some((name, single_price(said)?))).collect()
    };
    Ok(StoragePrices {
        gib_month: known(gib_month),
        iops_month: known(iops_month),
        gibps_month: single_price(gibps_month),
    })
}

/// Returns the hourly prices of a type under `SageMaker`, for each component whose products give one price. The usage type tells the
/// component, because AWS bills by it (`USE1-Host:ml.g5.xlarge`); other products, such as the upfront fee of a training plan, have other
/// usage types.
///
/// # Errors
///
/// Where a product cannot be read.
pub fn sagemaker(
    products: &[String],
    region: &Region,
    instance_type: &TypeName,
) -> Result<SageMakerPrices, UnreadableProduct> {
    let instance_name = format!("ml.{instance_type}");
    let asked_for = sagemaker_filters(region, &instance_name);
    let mut said: BTreeMap<SageMakerComponent, BTreeSet<Option<u64>>> = BTreeMap::new();
    for priced in read(products)? {
        let is_of_type = asked_for.iter().all(|(name, value)| priced.has_attribute(name, value));
        let usage = priced.product.attributes.get("usagetype").filter(|_| is_of_type && priced.is_of_a_region());
        let component = usage.and_then(|usage| SageMakerComponent::from_usage_type(usage, &instance_name));
        if let Some(component) = component {
            said.entry(component).or_default().insert(priced.price(&["Hrs"]));
        }
    }
    let known = said.into_iter().filter_map(|(component, said)| Some((component, single_price(said)?)));
    Ok(known.collect())
}

fn read(products: &[String]) -> Result<Vec<PricedProduct>, UnreadableProduct> {
    let unreadable = |error: serde_json::Error| UnreadableProduct(shortened(&error.to_string(), QUOTED_CHARACTERS_MAX));
    products.iter().map(|product| serde_json::from_str(product).map_err(unreadable)).collect()
}

/// The one price that all say.
fn single_price(said: BTreeSet<Option<u64>>) -> Option<u64> {
    let mut said = said.into_iter();
    said.next().flatten().filter(|_| said.next().is_none())
}

impl PricedProduct {
    fn has_attribute(&self, name: &str, value: &str) -> bool {
        self.product.attributes.get(name).is_some_and(|said| said == value)
    }

    /// `true` for an instance of that type as [`instance_filters`] asks for it.
    fn is_plain_instance(&self, region: &Region, instance_type: &TypeName) -> bool {
        let asked_for = instance_filters(region, instance_type);
        asked_for.iter().all(|(name, value)| self.has_attribute(name, value)) && self.is_of_a_region()
    }

    /// Neither of a Local Zone nor of a Wavelength Zone.
    fn is_of_a_region(&self) -> bool {
        self.product.attributes.get("locationType").is_none_or(|location| location == "AWS Region")
    }

    /// `VolumeUsage.gp3` of `EUC1-EBS:VolumeUsage.gp3`.
    fn usage(&self) -> Option<&str> {
        let (_, usage) = self.product.attributes.get("usagetype")?.split_once(EBS)?;
        Some(usage)
    }

    /// Its one price by one of these units, in micro-USD; `None` if it has several, by steps, or in no USD.
    fn price(&self, units: &[&str]) -> Option<u64> {
        let mut dimensions = self.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
        let only = dimensions.next().filter(|_| dimensions.next().is_none())?;
        let from_the_first = only.begin_range.as_deref().is_none_or(|begin| begin == "0");
        (from_the_first && units.contains(&only.unit.as_str())).then_some(())?;
        usd_micros(only.price_per_unit.get("USD")?).filter(|price| is_believable(*price))
    }
}

/// True for a price, in micro-USD by the hour or by the month, that can be true. A free product is billed in another way, and no instance or
/// unit of storage costs $10,000.
#[must_use]
pub const fn is_believable(usd_micros: u64) -> bool {
    0 < usd_micros && usd_micros < 10_000 * 1_000_000
}

/// Micro-USD of USD as AWS writes them (`21.9576420000`), to the nearest where there is less than a whole one; `None` of what is
/// no such number.
#[must_use]
pub fn usd_micros(usd: &str) -> Option<u64> {
    let (whole, fraction) = usd.split_once('.').unwrap_or((usd, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let digit = |place: usize| u64::from(fraction.as_bytes().get(place).map_or(0, |byte| byte - b'0'));
    let micros = (0..6).fold(0_u64, |micros, place| micros.saturating_mul(10).saturating_add(digit(place)));
    let rounded_up = u64::from(digit(6) >= 5);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?.checked_add(rounded_up)
}

#[cfg(test)]
mod tests;
