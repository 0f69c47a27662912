//! Capacity that an account reserves for instances of one type.

use jiff::Timestamp;

use crate::id::{Region, ResourceId, TypeName};
use crate::instance::Tags;

/// An active capacity reservation, as `DescribeCapacityReservations` returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    pub id: ResourceId,
    pub region: Region,
    /// Its availability zone, by name, where EC2 says so.
    pub zone: Option<String>,
    pub instance_type: TypeName,
    pub kind: ReservationKind,
    /// Number of instances that it reserves.
    pub total: u32,
    /// Number of instances that could still be launched in it; at most `total`.
    pub unused: u32,
    /// `true` if only instances that name it run in it; otherwise it takes every matching instance.
    pub is_targeted: bool,
    /// `true` if it is for plain Linux/UNIX on shared hardware, the subject of the price table.
    pub plain_linux: bool,
    pub starts_at: Option<Timestamp>,
    /// The end of a reservation that ends by itself.
    pub ends_at: Option<Timestamp>,
    /// The account that pays for its unused part. A reservation that another account shares is billed to that one, unless it assigned the
    /// billing (EC2 user guide, "Billing assignment for shared Capacity Reservations").
    pub billed_to: Option<String>,
    pub tags: Tags,
}

/// The ways to reserve capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationKind {
    /// An on-demand capacity reservation: billed by the second, used or not, until it is cancelled (EC2 user guide, "Capacity Reservation
    /// pricing and billing").
    OnDemand,
    /// A Capacity Block: paid up front. It cannot be cancelled, so that nothing of its price comes back (EC2 user guide, "Capacity Blocks for
    /// ML").
    CapacityBlock,
}

impl CapacityReservation {
    /// The beginning of each id (EC2 API reference, "`CapacityReservation`").
    pub const ID_PREFIX: &str = "cr-";

    /// `true` if this account pays for its unused part, as far as is known.
    #[must_use]
    pub fn is_billed_to(&self, account: Option<&str>) -> bool {
        match (&self.billed_to, account) {
            (Some(payer), Some(account)) => payer == account,
            _ => true,
        }
    }

    /// The command that gives it up, or a smaller part of it; `None` for a Capacity Block.
    #[must_use]
    pub fn release_command(&self) -> Option<String> {
        let Self { id, region, total, unused, .. } = self;
        if self.kind == ReservationKind::CapacityBlock {
            return None;
        }
        let used = total.saturating_sub(*unused);
        Some(if used == 0 {
            format!("aws ec2 cancel-capacity-reservation --region {region} --capacity-reservation-id {id}")
        } else {
            format!(
                "aws ec2 modify-capacity-reservation --region {region} --capacity-reservation-id {id} --instance-count {used}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::reservation;

    #[test]
    fn the_command_gives_up_only_what_is_unused() {
        let command = |total, unused| reservation(total, unused).release_command().unwrap();
        assert_eq!(
            command(2, 2),
            "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc"
        );
        assert_eq!(
            command(8, 3),
            "aws ec2 modify-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc --instance-count 5"
        );
        let block = CapacityReservation { kind: ReservationKind::CapacityBlock, ..reservation(2, 2) };
        assert_eq!(block.release_command(), None);
    }

    #[test]
    fn a_shared_reservation_is_billed_to_one_account() {
        let shared = CapacityReservation { billed_to: Some("222222222222".to_owned()), ..reservation(1, 1) };
        assert!(shared.is_billed_to(Some("222222222222")) && shared.is_billed_to(None));
        assert!(!shared.is_billed_to(Some("111111111111")));
        assert!(reservation(1, 1).is_billed_to(Some("111111111111")));
    }
}
