//! The network interfaces of a machine that works together with others: with Elastic Fabric Adapters (EFA) where its type has them.
//!
//! A machine that reaches S3 by a public address alone must have one interface: EC2 gives a public address only to a request of exactly one (EC2
//! API reference, "`InstanceNetworkInterfaceSpecification`"), and a machine without a way to S3 never sends a heartbeat.
//!
//! **Never tried on AWS.** The layout is that of AWS `ParallelCluster` since 3.15: one `interface` with an address, and one `efa-only` on each card that
//! has EFA. On a later card AWS's texts name device index 0 or 1; here it is 0, as in the newest of them.

use model::id::{ResourceId, TypeName};
use serde::{Deserialize, Serialize};

use super::LaunchObstacle;

/// The wish for EFA of machines that work together, `[network] efa` of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EfaChoice {
    /// Take all that type and subnet allow.
    #[default]
    Auto,
    /// Take all that the type has, or launch nothing.
    Required,
    Off,
}

/// The network cards of a type (`DescribeInstanceTypes`, `NetworkInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkCards {
    /// The cards, by index.
    pub cards: Vec<NetworkCard>,
    /// `EfaInfo.MaximumEfaInterfaces`; 0: it has none.
    pub efas_max: u32,
}

/// One network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkCard {
    /// `NetworkCardIndex`.
    pub index: u32,
    /// `MaximumNetworkInterfaces`.
    pub interfaces_max: u32,
    /// `true` if `InterfaceTypes` names `efa`.
    pub has_efa: bool,
    /// `true` if `InterfaceTypes` names `efa-only`.
    pub has_efa_only: bool,
}

/// A subnet, as far as it matters to the interfaces in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetAddresses {
    pub subnet: ResourceId,
    /// `MapPublicIpOnLaunch`; `None`: EC2 did not say, which counts as `true`.
    pub are_public: Option<bool>,
}

/// A network interface that a launch makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// `NetworkCardIndex`.
    pub card: u32,
    /// `DeviceIndex`: 0 on card 0 is the primary interface.
    pub device: u32,
    #[serde(rename = "type")]
    pub kind: InterfaceKind,
}

/// `InterfaceType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// Only addresses.
    Interface,
    /// Addresses and EFA.
    Efa,
    /// Only EFA: it may have no address.
    EfaOnly,
}

/// The interfaces of a machine, the primary one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceLayout {
    pub interfaces: Vec<NetworkInterface>,
    /// Cards with EFA that are used, of those that the type has.
    pub efa_cards: (usize, usize),
    /// The reason for which not all are used; `None` if all are, or none was wanted.
    pub why_fewer: Option<String>,
}

impl InterfaceKind {
    /// Its name in EC2's API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Efa => "efa",
            Self::EfaOnly => "efa-only",
        }
    }

    /// Returns `true` if it has EFA.
    #[must_use]
    pub const fn is_efa(self) -> bool {
        matches!(self, Self::Efa | Self::EfaOnly)
    }
}

impl InterfaceLayout {
    /// One interface without EFA.
    fn plain() -> Self {
        let interfaces = vec![NetworkInterface { card: 0, device: 0, kind: InterfaceKind::Interface }];
        Self { interfaces, efa_cards: (0, 0), why_fewer: None }
    }

    /// Describes it in a few words: `EFA, 4 cards each`, or `EFA: 1 of 4 cards, because …`; `None` if no EFA was wanted.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let (used, of) = self.efa_cards;
        match &self.why_fewer {
            Some(why) => Some(format!("EFA: {used} of {of} cards, because {why}")),
            None if of == 0 => None,
            None => Some(format!("EFA, {of} {} each", if of == 1 { "card" } else { "cards" })),
        }
    }
}

/// Chooses the interfaces of each machine of that type in that subnet.
///
/// # Errors
/// If EFA is required, and not all of it can be had.
pub fn choose_interfaces(
    choice: EfaChoice,
    instance_type: &TypeName,
    cards: &NetworkCards,
    subnet: &SubnetAddresses,
) -> Result<InterfaceLayout, LaunchObstacle> {
    let layout = match choice {
        EfaChoice::Off => return Ok(InterfaceLayout::plain()),
        EfaChoice::Auto | EfaChoice::Required => most_interfaces(cards, subnet),
    };
    let refusal = match (layout.efa_cards, &layout.why_fewer) {
        ((_, 0), _) => format!("{instance_type} has no EFA"),
        ((used, of), Some(why)) => format!("{instance_type} would get {used} of its {of} cards with EFA: {why}"),
        (_, None) => return Ok(layout),
    };
    match choice {
        EfaChoice::Required => Err(LaunchObstacle::new(format!("`network.efa` is \"required\", and {refusal}"))),
        EfaChoice::Auto | EfaChoice::Off => Ok(layout),
    }
}

/// The interfaces with all the EFA that can be had.
fn most_interfaces(cards: &NetworkCards, subnet: &SubnetAddresses) -> InterfaceLayout {
    let efas_max = usize::try_from(cards.efas_max).unwrap_or(usize::MAX);
    let with_efa: Vec<&NetworkCard> = cards.cards.iter().filter(|card| card.has_efa).take(efas_max).collect();
    let of = with_efa.len();
    let is_on_first = with_efa.first().is_some_and(|card| card.index == 0);
    let one = |kind: InterfaceKind, why: String| InterfaceLayout {
        interfaces: vec![NetworkInterface { card: 0, device: 0, kind }],
        efa_cards: (usize::from(kind.is_efa()), of),
        why_fewer: Some(why),
    };
    let first = if is_on_first { InterfaceKind::Efa } else { InterfaceKind::Interface };
    if of == 0 {
        return InterfaceLayout::plain();
    }
    if of == 1 && is_on_first {
        // With one interface the machine keeps its public address.
        return InterfaceLayout { why_fewer: None, ..one(first, String::new()) };
    }
    if subnet.are_public != Some(false) {
        let id = &subnet.subnet;
        return one(first, format!("{id} gives public addresses only to machines with one interface"));
    }
    let has_room = |card: &&NetworkCard| card.has_efa_only && card.interfaces_max > u32::from(card.index == 0);
    if let Some(card) = with_efa.iter().find(|card| !has_room(card)) {
        return one(first, format!("EC2 describes card {} without room for an EFA beside addresses", card.index));
    }
    let efa = |card: &&NetworkCard| NetworkInterface {
        card: card.index,
        // The primary interface is device 0 of card 0.
        device: u32::from(card.index == 0),
        kind: InterfaceKind::EfaOnly,
    };
    let InterfaceLayout { mut interfaces, .. } = InterfaceLayout::plain();
    interfaces.extend(with_efa.iter().map(efa));
    InterfaceLayout { interfaces, efa_cards: (of, of), why_fewer: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cards as `DescribeInstanceTypes` says them of real types.
    fn cards(count: u32, efas_max: u32, first_has_efa: bool) -> NetworkCards {
        let card = |index| {
            let has_efa = efas_max > 0 && (index > 0 || first_has_efa);
            NetworkCard { index, interfaces_max: 2, has_efa, has_efa_only: has_efa }
        };
        NetworkCards { cards: (0..count).map(card).collect(), efas_max }
    }

    fn check(choice: EfaChoice, cards: &NetworkCards, are_public: Option<bool>, expect: &str) {
        let subnet = SubnetAddresses { subnet: "subnet-1".into(), are_public };
        let layout = choose_interfaces(choice, &"p5.48xlarge".into(), cards, &subnet);
        let found = layout.map(|layout| {
            let one = |one: &NetworkInterface| format!("{}/{} {}", one.card, one.device, one.kind.as_str());
            let all: Vec<String> = layout.interfaces.iter().map(one).collect();
            let described = layout.describe().unwrap_or_default();
            match all.as_slice() {
                [first, second, .., last] if all.len() > 3 => format!("{first}, {second} … {last}; {described}"),
                few => format!("{}; {described}", few.join(", ")),
            }
        });
        assert_eq!(found.unwrap_or_else(|why| why.to_string()), expect);
    }

    #[test]
    fn one_card_is_one_interface_with_a_public_address() {
        for are_public in [Some(true), Some(false), None] {
            check(EfaChoice::Auto, &cards(1, 1, true), are_public, "0/0 efa; EFA, 1 card each");
            check(EfaChoice::Required, &cards(1, 1, true), are_public, "0/0 efa; EFA, 1 card each");
            check(EfaChoice::Off, &cards(1, 1, true), are_public, "0/0 interface; ");
            check(EfaChoice::Auto, &cards(1, 0, true), are_public, "0/0 interface; ");
        }
        let refused = "`network.efa` is \"required\", and p5.48xlarge has no EFA";
        check(EfaChoice::Required, &cards(1, 0, true), Some(false), refused);
    }

    #[test]
    fn several_cards_need_a_subnet_without_public_addresses() {
        let p5 = cards(32, 32, true);
        check(EfaChoice::Auto, &p5, Some(false), "0/0 interface, 0/1 efa-only … 31/0 efa-only; EFA, 32 cards each");
        check(EfaChoice::Required, &p5, Some(false), "0/0 interface, 0/1 efa-only … 31/0 efa-only; EFA, 32 cards each");
        let why = "subnet-1 gives public addresses only to machines with one interface";
        for are_public in [Some(true), None] {
            let words = format!("0/0 efa; EFA: 1 of 32 cards, because {why}");
            check(EfaChoice::Auto, &p5, are_public, &words);
            let words =
                format!("`network.efa` is \"required\", and p5.48xlarge would get 1 of its 32 cards with EFA: {why}");
            check(EfaChoice::Required, &p5, are_public, &words);
        }
    }

    #[test]
    fn the_first_card_of_a_p6_b300_has_no_efa() {
        let b300 = cards(17, 16, false);
        check(EfaChoice::Auto, &b300, Some(false), "0/0 interface, 1/0 efa-only … 16/0 efa-only; EFA, 16 cards each");
        let words = "0/0 interface; EFA: 0 of 16 cards, because subnet-1 gives public addresses only to machines with one interface";
        check(EfaChoice::Auto, &b300, Some(true), words);
    }

    #[test]
    fn a_card_without_room_is_said() {
        let mut p4d = cards(4, 4, true);
        p4d.cards[2].has_efa_only = false;
        let words = "0/0 efa; EFA: 1 of 4 cards, because EC2 describes card 2 without room for an EFA beside addresses";
        check(EfaChoice::Auto, &p4d, Some(false), words);
        // More than EC2 counts are not asked for.
        check(
            EfaChoice::Auto,
            &cards(4, 2, true),
            Some(false),
            "0/0 interface, 0/1 efa-only, 1/0 efa-only; EFA, 2 cards each",
        );
    }
}
