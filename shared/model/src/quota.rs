//! EC2's quotas for the vCPUs of GPU instances that an account may run, by family and market (EC2 user guide, "Amazon EC2 instance type
//! quotas"; Service Quotas user guide has the codes).

use serde::Serialize;

use crate::id::TypeName;

/// The families that have a quota of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum InstanceFamily {
    /// G and VT.
    #[serde(rename = "G and VT")]
    G,
    P,
    /// P5, which has a quota of its own on Spot, and counts as P on demand.
    P5,
    Trn,
    Inf,
    #[serde(rename = "DL")]
    Dl,
}

/// Market of an instance, as far as quotas go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseMarket {
    /// Paid by the second.
    OnDemand,
    Spot,
}

/// Date of the look-up of [`QUOTAS`].
pub const TABLE_DATE: &str = "2026-11-22";

/// Every quota, as of [`TABLE_DATE`]: its family, its market, its code (AWS General Reference, "Amazon EC2 endpoints and quotas").
pub const QUOTAS: [(InstanceFamily, PurchaseMarket, &str); 11] = [
    (InstanceFamily::G, PurchaseMarket::OnDemand, "L-DB2E81BA"),
    (InstanceFamily::G, PurchaseMarket::Spot, "L-3819A6DF"),
    (InstanceFamily::P, PurchaseMarket::OnDemand, "L-417A185B"),
    (InstanceFamily::P, PurchaseMarket::Spot, "L-7212CCBC"),
    (InstanceFamily::P5, PurchaseMarket::Spot, "L-C4BD4855"),
    (InstanceFamily::Trn, PurchaseMarket::OnDemand, "L-2C3B7624"),
    (InstanceFamily::Trn, PurchaseMarket::Spot, "L-6B0D517C"),
    (InstanceFamily::Inf, PurchaseMarket::OnDemand, "L-1945791B"),
    (InstanceFamily::Inf, PurchaseMarket::Spot, "L-B5D1601B"),
    (InstanceFamily::Dl, PurchaseMarket::OnDemand, "L-6E869C2A"),
    (InstanceFamily::Dl, PurchaseMarket::Spot, "L-85EED4F7"),
];

impl InstanceFamily {
    /// Every family.
    pub const ALL: [Self; 6] = [Self::G, Self::P, Self::P5, Self::Trn, Self::Inf, Self::Dl];

    /// Returns AWS's name of the family.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::G => "G and VT",
            Self::P => "P",
            Self::P5 => "P5",
            Self::Trn => "Trn",
            Self::Inf => "Inf",
            Self::Dl => "DL",
        }
    }

    /// Returns the family whose quota counts a type, by the letters that its name begins with: quotas, unlike accelerators, go by name.
    #[must_use]
    pub fn from_type(instance_type: &TypeName) -> Option<Self> {
        let name = instance_type.as_str();
        let letters = name.find(|c: char| !c.is_ascii_lowercase()).map_or(name, |end| &name[..end]);
        match letters {
            "g" | "gr" | "vt" => Some(Self::G),
            "p" => Some(Self::P),
            "trn" => Some(Self::Trn),
            "inf" => Some(Self::Inf),
            "dl" => Some(Self::Dl),
            _ => None,
        }
    }
}

/// The code of the quota that counts a type, bought so; `None` if it has none of its own.
#[must_use]
pub fn code(instance_type: &TypeName, market: PurchaseMarket) -> Option<&'static str> {
    if is_standard(instance_type) {
        return Some(match market {
            PurchaseMarket::OnDemand => "L-1216C47A",
            PurchaseMarket::Spot => "L-34B43A08",
        });
    }
    let family = match (InstanceFamily::from_type(instance_type)?, market) {
        (InstanceFamily::P, PurchaseMarket::Spot) => family_on_spot(instance_type)?,
        (family, _) => family,
    };
    QUOTAS.iter().find(|(of, bought, _)| *of == family && *bought == market).map(|(.., code)| *code)
}

/// "Standard (A, C, D, H, I, M, R, T, Z) instances", of which CPU jobs have their machines.
fn is_standard(instance_type: &TypeName) -> bool {
    let mut letters = instance_type.as_str().chars();
    letters.next().is_some_and(|first| "acdhimrtz".contains(first))
        && letters.next().is_some_and(|next| next.is_ascii_digit())
}

/// P4, P3 and P2 share one Spot quota, and P5 has its own. Under which one AWS counts P6 is not documented: none is named.
fn family_on_spot(instance_type: &TypeName) -> Option<InstanceFamily> {
    let generation = instance_type.as_str().trim_start_matches('p').chars().next()?.to_digit(10)?;
    match generation {
        2..=4 => Some(InstanceFamily::P),
        5 => Some(InstanceFamily::P5),
        _ => None,
    }
}
