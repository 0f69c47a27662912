//! The decisions about reserved capacity that nothing runs in: on-demand capacity reservations and Capacity Blocks. No list of instances shows
//! it, and AWS bills it like what runs. Curfew never changes a reservation: it notifies the owner.
//!
//! Capacity is **unused**, if and only if
//! - its reservation is active, is for an accelerated type, and this account pays for it,
//! - and each look of the last `[reservations].empty_after` found some of it unused.
//!
//! The owner is notified once, and again after a look that found all of it in use. `curfew:protected` and `curfew:keep-until` count as on any
//! resource.

use billing::price;
use billing::price::Quote;
use jiff::Timestamp;
use model::capacity_reservation::{CapacityReservation, ReservationKind};
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::mark::whole_second;
use model::money::Rate;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs, ResourceRecord};
use model::observation::Observation;
use plan::{FindingKind, LeftCost, OwnerFinding, ResourceMemory, SkipReason, Skipped, Target};

use crate::engine::{PlanDecision, ResourceCase, ResourceFacts, decide_unchanged};
use crate::policy::Policy;
use crate::scan::{self, FoundKind, ScanFinding, find_in_each};

/// The decisions about these reservations, which have unused capacity: none of them is changed.
#[must_use]
pub fn decide(
    seen: &[CapacityReservation],
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Vec<Skipped> {
    let empty_log = NotificationLog::default();
    let case = |reservation| ReservationCase::new(reservation, memory, &empty_log, policy, now);
    decide_unchanged(seen.iter().map(case))
}

/// Every reservation with unused capacity that is neither protected nor kept. A scan has no memory: EC2 does not say since when it is unused.
#[must_use]
pub fn scan(seen: &[CapacityReservation], policy: &Policy, now: Timestamp) -> Observation<ScanFinding> {
    let (memory, empty_log) = (NotificationLogs::default(), NotificationLog::default());
    let cases = seen.iter().map(|reservation| ReservationCase::new(reservation, &memory, &empty_log, policy, now));
    find_in_each(cases, ReservationCase::scan_finding)
}

/// The cost of what is unused: the on-demand price of each instance that could run there (EC2 user guide, "Capacity Reservation pricing and
/// billing"). `None` where it is unknown: a Capacity Block was paid up front, at a price of its own.
#[must_use]
pub fn unused_cost(reservation: &CapacityReservation, policy: &Policy) -> Option<Quote> {
    let CapacityReservation { region, zone, instance_type, unused, plain_linux, kind, .. } = reservation;
    if !plain_linux || *kind == ReservationKind::CapacityBlock {
        return None;
    }
    let Quote { rate, source } = policy.prices.on_demand_in_zone(region, instance_type, zone.as_deref()?)?;
    let all = rate.usd_micros_per_hour().saturating_mul(u64::from(*unused));
    Some(Quote { rate: Rate::from_usd_micros_per_hour(all), source })
}

/// One reservation with everything that is known about it.
#[derive(Clone, Copy)]
struct ReservationCase<'a> {
    reservation: &'a CapacityReservation,
    log: &'a NotificationLog,
    policy: &'a Policy,
    /// Time of the first look that found some of it unused, without one in between that found all of it in use.
    since: Timestamp,
    now: Timestamp,
}

impl<'a> ReservationCase<'a> {
    fn new(
        reservation: &'a CapacityReservation,
        memory: &'a NotificationLogs,
        empty_log: &'a NotificationLog,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let log = memory.get(&reservation.region).unwrap_or(empty_log);
        // Nobody saw it in the future: such a record is damaged.
        let seen_since = log.record(&reservation.id).and_then(|record| record.since).filter(|since| *since <= now);
        Self { reservation, log, policy, since: seen_since.unwrap_or_else(|| whole_second(now)), now }
    }

    /// `2 of its 4 instances`.
    fn describe_unused(self) -> String {
        let CapacityReservation { total, unused, .. } = self.reservation;
        let plural = if *total == 1 { "" } else { "s" };
        if unused == total {
            return format!("all of its capacity ({total} instance{plural})");
        }
        format!("capacity for {unused} of its {total} instance{plural}")
    }

    /// The cost, and the ways to end it.
    fn describe_remedy(self) -> String {
        let reservation = self.reservation;
        let takes = if reservation.is_targeted { "instances that name it" } else { "matching instances" };
        if reservation.kind == ReservationKind::CapacityBlock {
            let until = reservation.ends_at.map(|at| format!(" until {at}")).unwrap_or_default();
            return format!(
                "It is a Capacity Block: it was paid in advance, and ending it saves nothing. It takes {takes}{until}"
            );
        }
        let cost = match unused_cost(reservation, self.policy) {
            None => "Its price is unknown".to_owned(),
            known => format!(
                "That costs {} at most: Savings Plans and Regional Reserved Instances cover what is unused too",
                price::format_quote(known)
            ),
        };
        let command = reservation.release_command().map(|command| format!(", or give that up: `{command}`"));
        let ends = reservation.ends_at.map(|at| format!(" It ends at {at}.")).unwrap_or_default();
        format!("{cost}.{ends} It takes {takes}: launch them{}", command.unwrap_or_default())
    }

    fn scan_finding(self) -> Option<ScanFinding> {
        if self.is_exempt() {
            return None;
        }
        let CapacityReservation { total, unused, .. } = self.reservation;
        let found = FoundKind {
            kind: scan::FindingKind::UnusedCapacity,
            evidence: format!("{} is unused. {}", self.describe_unused(), self.describe_remedy()),
            in_short: format!("{unused} of {total} unused"),
        };
        let finding = ScanFinding::from_kinds(self.target(), vec![found], None, &self.curfew_tags())?;
        Some(ScanFinding { price: unused_cost(self.reservation, self.policy), ..finding })
    }
}

impl<'a> ResourceCase<'a> for ReservationCase<'a> {
    fn facts(self) -> ResourceFacts<'a> {
        let Self { reservation: CapacityReservation { region, id, tags, .. }, log, policy, since, now } = self;
        ResourceFacts { region, id, tags, began: since, since, log, policy, now }
    }

    fn target(self) -> Target {
        let CapacityReservation { total, instance_type, tags, kind, .. } = self.reservation;
        let kind = match kind {
            ReservationKind::OnDemand => "reserved",
            ReservationKind::CapacityBlock => "in a Capacity Block",
        };
        self.facts().target(tags, format!("{total} x {instance_type} {kind}"))
    }

    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>> {
        CurfewTags::read_volume(&self.reservation.tags)
    }

    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        ResourceMemory { active_keys, record: ResourceRecord::about(self.since), host_tags: None }
    }

    fn skip_of_kind(self, _: &CurfewTags) -> Option<Skipped> {
        None
    }

    fn decide_by_rules(self, _: &CurfewTags) -> PlanDecision {
        if self.now.duration_since(self.since) < self.policy.config.reservations.empty_after {
            return self.skip(SkipReason::Young, Vec::new()).into();
        }
        let unused = self.describe_unused();
        let text = format!("{unused} has been unused since {}. {}", self.since, self.describe_remedy());
        // Told once for each time that it fell empty: how much of it is unused changes by the hour.
        let what = self.since.to_string();
        let skipped = self.skip(SkipReason::Notified, vec![FindingKind::UnusedCapacity.key()]);
        let cost = LeftCost {
            price: unused_cost(self.reservation, self.policy),
            waste: Some(format!("{unused} is unused since {}", self.since)),
        };
        let finding = OwnerFinding { kind: FindingKind::UnusedCapacity, what, text };
        Skipped { finding: Some(finding), left_cost: Some(cost), ..skipped }.into()
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use model::fixture::{NOW, reservation, time};
    use model::id::Region;

    use super::*;
    use crate::fixture::enforcing;

    fn decided(reservation: CapacityReservation, since: Option<&str>, config: &str) -> Skipped {
        let record = since.map(|since| (reservation.id.clone(), ResourceRecord::about(time(since))));
        let log = NotificationLog { resources: record.into_iter().collect(), ..NotificationLog::default() };
        let memory = NotificationLogs::from([(Region::from("us-east-1"), log)]);
        decide(&[reservation], &memory, &enforcing(config), time(NOW)).remove(0)
    }

    fn text(reservation: CapacityReservation) -> String {
        decided(reservation, Some("2026-08-31T12:00:00Z"), "").finding.unwrap().text
    }

    const EMPTY_FOR_A_DAY: Option<&str> = Some("2026-08-31T12:00:00Z");

    #[test]
    fn a_reservation_that_is_briefly_empty_is_no_finding() {
        let check = |since, config, reason, has_finding| {
            let skipped = decided(reservation(2, 2), since, config);
            assert_eq!((skipped.reason, skipped.finding.is_some()), (reason, has_finding), "{since:?} {config}");
        };
        check(None, "", SkipReason::Young, false);
        check(Some("2026-08-31T12:00:01Z"), "", SkipReason::Young, false);
        check(EMPTY_FOR_A_DAY, "", SkipReason::Notified, true);
        check(Some("2026-09-01T11:00:00Z"), "[reservations]\nempty_after = \"1h\"", SkipReason::Notified, true);
        check(None, "[reservations]\nempty_after = \"0s\"", SkipReason::Notified, true);
        // A record of the future is damaged.
        check(Some("2026-09-02T12:00:00Z"), "", SkipReason::Young, false);
    }

    #[test]
    fn the_first_look_is_remembered() {
        let record = |since| decided(reservation(2, 2), since, "").memory.record;
        assert_eq!(record(None), ResourceRecord::about(time(NOW)));
        assert_eq!(record(EMPTY_FOR_A_DAY), ResourceRecord::about(time("2026-08-31T12:00:00Z")));
    }

    #[test]
    fn its_owner_is_told_once_while_how_much_is_unused_changes() {
        let what = |unused| decided(reservation(8, unused), EMPTY_FOR_A_DAY, "").finding.unwrap().what;
        assert_eq!(what(8), what(1));
        let skipped = decided(reservation(8, 1), EMPTY_FOR_A_DAY, "");
        assert_eq!(skipped.memory.active_keys, [FindingKind::UnusedCapacity.key()]);
    }

    #[test]
    fn tags_of_its_owner_skip_it() {
        let tagged = |key: &str, value: &str| {
            let mut tagged = reservation(2, 2);
            tagged.tags.insert(key.to_owned(), value.to_owned());
            decided(tagged, EMPTY_FOR_A_DAY, "").reason
        };
        assert_eq!(tagged("curfew:protected", ""), SkipReason::Protected);
        assert_eq!(tagged("curfew:keep-until", "2026-09-30"), SkipReason::Kept);
        assert_eq!(tagged("curfew:keep-until", "2026-08-30"), SkipReason::Notified);
        assert_eq!(tagged("curfew:keep-until", "soon"), SkipReason::Unreadable);
    }

    #[test]
    fn the_text_has_the_price_and_the_command() {
        assert_snapshot!(text(reservation(2, 2)), @"all of its capacity (2 instances) has been unused since 2026-08-31T12:00:00Z. That costs $110.08/h ($80,358 a month; table of 2026-09-24) at most: Savings Plans and Regional Reserved Instances cover what is unused too. It takes matching instances: launch them, or give that up: `aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc`");
        assert_snapshot!(text(CapacityReservation { is_targeted: true, ..reservation(4, 1) }), @"capacity for 1 of its 4 instances has been unused since 2026-08-31T12:00:00Z. That costs $55.04/h ($40,179 a month; table of 2026-09-24) at most: Savings Plans and Regional Reserved Instances cover what is unused too. It takes instances that name it: launch them, or give that up: `aws ec2 modify-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc --instance-count 3`");
        let dear = CapacityReservation {
            region: "xx-east-9".into(),
            zone: Some("xx-east-9a".to_owned()),
            ..reservation(1, 1)
        };
        assert_snapshot!(scan(&[dear], &enforcing(""), time(NOW)).items[0].evidence, @"all of its capacity (1 instance) is unused. Its price is unknown. It takes matching instances: launch them, or give that up: `aws ec2 cancel-capacity-reservation --region xx-east-9 --capacity-reservation-id cr-0abc`");
    }

    #[test]
    fn a_capacity_block_promises_no_saving() {
        let block = CapacityReservation {
            kind: ReservationKind::CapacityBlock,
            is_targeted: true,
            ends_at: Some(time("2026-09-08T11:30:00Z")),
            ..reservation(1, 1)
        };
        assert_snapshot!(text(block.clone()), @"all of its capacity (1 instance) has been unused since 2026-08-31T12:00:00Z. It is a Capacity Block: it was paid in advance, and ending it saves nothing. It takes instances that name it until 2026-09-08T11:30:00Z");
        assert_eq!(decided(block, EMPTY_FOR_A_DAY, "").left_cost.unwrap().price, None);
    }

    #[test]
    fn the_cost_is_that_of_the_unused_part() {
        let rate = |reservation: CapacityReservation| unused_cost(&reservation, &enforcing("")).map(|quote| quote.rate);
        assert_eq!(rate(reservation(8, 2)), Some(Rate::from_usd_micros_per_hour(2 * 55_040_000)));
        assert_eq!(rate(CapacityReservation { plain_linux: false, ..reservation(8, 2) }), None);
        assert_eq!(rate(CapacityReservation { zone: Some("us-east-1-bos-1a".to_owned()), ..reservation(8, 2) }), None);
        let huge = CapacityReservation { total: u32::MAX, unused: u32::MAX, ..reservation(1, 1) };
        assert!(rate(huge) > rate(reservation(8, 8)));
    }

    #[test]
    fn a_scan_needs_no_memory() {
        let found = scan(&[reservation(4, 3)], &enforcing(""), time(NOW)).items.remove(0);
        assert_eq!((found.kinds, found.in_short.as_str()), (vec![scan::FindingKind::UnusedCapacity], "3 of 4 unused"));
        let mut kept = reservation(4, 3);
        kept.tags.insert("curfew:protected".to_owned(), String::new());
        assert_eq!(scan(&[kept], &enforcing(""), time(NOW)).items, []);
    }
}
