//! The user data of a machine: a MIME document of two parts (cloud-init documentation, "User data formats").
//!
//! The first is the first of the three killers. It runs at every boot, before anything else (cloud-init documentation, "Cloud boothook"),
//! and powers the machine off at the attempt's absolute end, whatever has become of network, permissions and agent. The second makes
//! the agent a service. Nothing of a spec is in either.
//!
//! **Invariant:** no text of anybody's becomes shell. Into the first part go integers, as digits; into the second base64, which has no
//! letter that means something to a shell, to MIME or to a here-document.

mod base64;

use model::partition::Partition;

use super::MachineIdentity;

/// EC2 user guide, "Run commands when you launch an EC2 instance with user data input": before it is encoded in base64.
pub const USER_DATA_BYTES_MAX: usize = 16 * 1024;

const BOOTHOOK: &str = include_str!("user_data/boothook.sh");
const SETUP: &str = include_str!("user_data/setup.sh");
const FETCH: &str = include_str!("user_data/fetch.sh");
const UNIT: &str = include_str!("user_data/curfew-agent.service");

/// Boundary of the parts, which is on no line of either part: each begins with something else than two hyphens.
const BOUNDARY: &str = "curfew-user-data";

/// The user data of an attempt, raw: the launch encodes it in base64. ASCII, and the same for the same identity, so that a repeated launch sends
/// the same request. Less than [`USER_DATA_BYTES_MAX`], because a bucket's name has 63 characters at most, and team and job fit a tag together.
///
/// The machine needs systemd, or runs the agent without; `base64` and `sha256sum`; and the AWS CLI, or a curl that signs every header of
/// Amazon's (7.88 does; 7.75, the first that signs, may not).
#[must_use]
pub fn user_data(identity: &MachineIdentity) -> String {
    let ends_at = identity.ends_at;
    let boothook = BOOTHOOK
        .replace("@END@", &ends_at.as_second().to_string())
        .replace("@CALENDAR@", &ends_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    let fetch = FETCH
        .replace("@BUCKET@", &base64::encode(identity.bucket.as_bytes()))
        .replace("@HOST@", &base64::encode(s3_host(identity.region.as_str()).as_bytes()))
        .replace("@REGION@", &base64::encode(identity.region.as_str().as_bytes()))
        .replace("@SHA256@", &base64::encode(identity.agent_sha256.as_bytes()));
    let setup = SETUP
        .replace("@UNIT@", UNIT.trim_end())
        .replace("@FETCH@", fetch.trim_end())
        .replace("@IDENTITY@", base64::lines(identity_json(identity).as_bytes()).trim_end());
    let boothook = part("text/cloud-boothook", "curfew-end", &boothook);
    let setup = part("text/x-shellscript", "curfew-agent", &setup);
    format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n{boothook}{setup}--{BOUNDARY}--\n"
    )
}

/// The host of S3 in that region, without FIPS (`endpoint-rule-set-1.json` of S3 in botocore 1.44). Empty if Curfew does not support its partition.
fn s3_host(region: &str) -> String {
    Partition::supported(region).map(|partition| format!("s3.{region}.{}", partition.dns_suffix)).unwrap_or_default()
}

/// `/etc/curfew/identity.json`, as the machine gets it.
fn identity_json(identity: &MachineIdentity) -> String {
    // Texts, numbers and a moment: there is none of them that JSON cannot say.
    serde_json::to_string(identity).unwrap_or_default()
}

fn part(content_type: &str, name: &str, body: &str) -> String {
    format!(
        "--{BOUNDARY}\nContent-Type: {content_type}; charset=\"us-ascii\"\nContent-Transfer-Encoding: 7bit\n\
         Content-Disposition: attachment; filename=\"{name}\"\n\n{body}\n"
    )
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;
    use crate::JobId;

    fn identity() -> MachineIdentity {
        MachineIdentity {
            schema: 1,
            bucket: "curfew-state-123456789012".to_owned(),
            region: "eu-west-1".into(),
            replica: None,
            is_restored: false,
            job: JobId::read("vision/llama-ft-0123abcd").unwrap(),
            attempt: 3,
            nodes: 1,
            retry_of: 2,
            launch: "0a1b2c3d".to_owned(),
            ends_at: time("2026-09-01T20:00:00Z"),
            agent_sha256: "0123456789abcdef".repeat(4),
        }
    }

    #[test]
    fn it_is_ascii_within_the_limit_and_says_the_end() {
        let text = user_data(&identity());
        assert!(text.is_ascii() && text.len() < USER_DATA_BYTES_MAX, "{}", text.len());
        assert!(
            text.contains("\nend=1788292800 #") && text.contains("\ncalendar='2026-09-01 20:00:00 UTC'\n"),
            "{text}"
        );
        for place in
            ["@END@", "@CALENDAR@", "@IDENTITY@", "@FETCH@", "@UNIT@", "@BUCKET@", "@HOST@", "@REGION@", "@SHA256@"]
        {
            assert!(!text.contains(place), "{place} is not filled: {text}");
        }
    }

    #[test]
    fn the_bucket_is_at_the_host_of_its_partition() {
        let check = |region: &str, expect: &str| assert_eq!(s3_host(region), expect, "{region}");
        check("eu-west-1", "s3.eu-west-1.amazonaws.com");
        check("us-gov-west-1", "s3.us-gov-west-1.amazonaws.com");
        check("cn-north-1", "s3.cn-north-1.amazonaws.com.cn");
        check("eusc-de-east-1", "");
        check("evil.example/", "");
    }
}
