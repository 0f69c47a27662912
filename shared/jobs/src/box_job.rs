//! A box from a command line, as the document that `curfew box up` submits.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use model::document::quoted;
use model::fault::InvalidValue;
use serde::Deserialize;

use crate::boxes::BoxRemoval;

/// A public key that opens nothing, for a document that is not submitted.
pub const NO_KEY: &str = "ssh-ed25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// GiB of a TiB.
const GIB_PER_TIB: u32 = 1_024;

/// A box that a person describes by options. All texts are as they were written: the document is judged like any other.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxJob {
    pub name: String,
    pub owner: Option<String>,
    pub setup: Option<String>,
    /// The archive of an earlier submission, which the machine unpacks.
    pub workdir: Option<String>,
    #[serde(rename = "box")]
    pub gpu_box: BoxKeys,
    pub gpu: BoxGpu,
    pub spot: BoxSpot,
    pub limits: BoxLimits,
    pub machine: BoxPlace,
    pub env: BTreeMap<String, String>,
    /// Variables and the ARNs of their values.
    pub secrets: BTreeMap<String, String>,
    pub inputs: Vec<BoxInput>,
}

/// `[box]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxKeys {
    pub public_key: String,
    pub home_gib: Option<u32>,
    pub idle: Option<String>,
    pub until: Option<String>,
    #[serde(rename = "for")]
    pub lasts: Option<String>,
}

/// `[gpu]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxGpu {
    /// The least number of GPUs.
    pub count: u32,
    pub name: Option<String>,
    /// The least memory of each GPU, by its nominal size.
    pub memory_gib_min: u32,
    /// Empty: every type that fits.
    pub types: Vec<String>,
}

/// `[spot]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxSpot {
    pub enabled: bool,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxLimits {
    pub max_runtime: Option<String>,
    pub max_usd_per_hour: Option<f64>,
}

/// `[machine]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxPlace {
    pub regions: Vec<String>,
}

/// One of `[[inputs]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxInput {
    pub from: String,
    pub to: String,
}

impl BoxJob {
    /// The document that removes a box.
    #[must_use]
    pub fn removal(name: &str, owner: Option<&str>, what: BoxRemoval) -> String {
        let what = match what {
            BoxRemoval::Volume => "volume",
            BoxRemoval::Everything => "everything",
        };
        let owner = owner.map(|owner| format!("owner = {}\n", quoted(owner))).unwrap_or_default();
        format!("name = {}\n{owner}\n[box]\nremove = {}\n", quoted(name), quoted(what))
    }

    /// Reads the document of an earlier box.
    ///
    /// # Errors
    /// If it has a key that [`BoxJob::to_document`] does not write.
    pub fn from_document(text: &str) -> Result<Self, InvalidValue> {
        toml::from_str(text).map_err(|error| InvalidValue::new(error.message().to_owned()))
    }

    /// The document.
    #[must_use]
    pub fn to_document(&self) -> String {
        let mut text = String::new();
        let Self { name, owner, setup, workdir, gpu_box, gpu, spot, limits, machine, env, secrets, inputs } = self;
        lines(&mut text, [("name", Some(name)), ("owner", owner.as_ref())]);
        lines(&mut text, [("setup", setup.as_ref()), ("workdir", workdir.as_ref())]);
        text.push_str("\n[box]\n");
        lines(&mut text, [("public_key", Some(&gpu_box.public_key)), ("idle", gpu_box.idle.as_ref())]);
        lines(&mut text, [("until", gpu_box.until.as_ref()), ("for", gpu_box.lasts.as_ref())]);
        if let Some(home_gib) = gpu_box.home_gib {
            let _ = writeln!(text, "home_gib = {home_gib}");
        }
        let _ = writeln!(text, "\n[gpu]\ncount = {}", gpu.count);
        lines(&mut text, [("name", gpu.name.as_ref())]);
        if gpu.memory_gib_min > 0 {
            let _ = writeln!(text, "memory_gib_min = {}", gpu.memory_gib_min);
        }
        if !gpu.types.is_empty() {
            let _ = writeln!(text, "types = [{}]", list(&gpu.types));
        }
        let _ = writeln!(text, "\n[spot]\nenabled = {}", spot.enabled);
        if *limits != BoxLimits::default() {
            text.push_str("\n[limits]\n");
            lines(&mut text, [("max_runtime", limits.max_runtime.as_ref())]);
            if let Some(usd) = limits.max_usd_per_hour {
                let _ = writeln!(text, "max_usd_per_hour = {usd:?}");
            }
        }
        if !machine.regions.is_empty() {
            let _ = writeln!(text, "\n[machine]\nregions = [{}]", list(&machine.regions));
        }
        for (section, variables) in [("env", env), ("secrets", secrets)] {
            if !variables.is_empty() {
                let _ = writeln!(text, "\n[{section}]");
            }
            for (variable, value) in variables {
                let _ = writeln!(text, "{} = {}", quoted(variable), quoted(value));
            }
        }
        for BoxInput { from, to } in inputs {
            let _ = writeln!(text, "\n[[inputs]]\nfrom = {}\nto = {}", quoted(from), quoted(to));
        }
        text
    }
}

fn lines<const COUNT: usize>(text: &mut String, keys: [(&str, Option<&String>); COUNT]) {
    for (key, value) in keys {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    }
}

fn list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
}

/// Reads the size of a home in GiB: `200`, `200gb`, `200gib` or `1tb`. EBS counts in GiB, and calls them GB.
///
/// # Errors
/// Where it is none.
pub fn read_home_gib(text: &str) -> Result<u32, InvalidValue> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = lower.split_at(lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len()));
    let factor = match unit {
        "" | "g" | "gb" | "gib" => Some(1),
        "t" | "tb" | "tib" => Some(GIB_PER_TIB),
        _ => None,
    };
    let read = digits.parse::<u32>().ok().zip(factor).and_then(|(size, factor)| size.checked_mul(factor));
    read.ok_or_else(|| InvalidValue::new(format!("{text:?} is no size; write it in GB, such as 200gb")))
}

/// Reads the end of a box: a time of the day in that zone, which is tomorrow's once today's is past, or a whole timestamp.
///
/// # Errors
/// Where it is neither, or the zone is unknown.
pub fn read_until(text: &str, now: Timestamp, zone: Option<&TimeZone>) -> Result<Timestamp, InvalidValue> {
    let wrong = |why: &str| InvalidValue::new(format!("{text:?} {why}; or write how long, such as --for 10h"));
    if text.len() > "hh:mm:ss".len() {
        let read = text.parse::<Timestamp>();
        return read.map_err(|_| wrong("is no time; write 19:00, or a whole one such as 2026-11-22T19:00:00+01:00"));
    }
    let time: Time = text.parse().map_err(|_| wrong("is no time; write one such as 19:00"))?;
    let zone = zone.ok_or_else(|| wrong("is in no known time zone: set TZ"))?;
    let today = now.to_zoned(zone.clone()).date();
    let at = |date: jiff::civil::Date| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
    let tomorrow = || today.checked_add(1.day()).ok().and_then(at);
    at(today).filter(|until| *until > now).or_else(tomorrow).ok_or_else(|| wrong("is beyond the calendar"))
}

#[cfg(test)]
mod tests {
    use model::config::Config;
    use model::fixture::{NOW, time};

    use super::*;
    use crate::JobSpec;

    fn read(job: &BoxJob) -> JobSpec {
        let (config, team) = (Config::read("[tags]\nrequired = []").unwrap(), "vision".into());
        JobSpec::read(&job.to_document(), "box.toml", Some(&team), &config, &"us-east-1".into(), time(NOW)).unwrap()
    }

    fn pairs(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    fn full() -> BoxJob {
        let text = |text: &str| Some(text.to_owned());
        BoxJob {
            name: "my-box".to_owned(),
            owner: text("ada@example.com"),
            setup: text("git clone https://example.com/\"dot\""),
            workdir: Some(format!("sha256:{}", "0".repeat(64))),
            gpu_box: BoxKeys {
                public_key: format!("{NO_KEY} my-box"),
                home_gib: Some(200),
                idle: text("2h"),
                until: text("2026-09-01T19:00:00Z"),
                lasts: None,
            },
            gpu: BoxGpu { count: 1, types: vec!["g5.xlarge".to_owned()], ..BoxGpu::default() },
            spot: BoxSpot { enabled: true },
            limits: BoxLimits { max_runtime: text("12h"), max_usd_per_hour: Some(2.0) },
            machine: BoxPlace { regions: vec!["us-east-1".to_owned()] },
            env: pairs("A", "b's\n"),
            secrets: pairs("TOKEN", "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-a1b2c3"),
            inputs: vec![BoxInput { from: "s3://datasets/a=b/".to_owned(), to: "/data/images".to_owned() }],
        }
    }

    #[test]
    fn options_become_a_document_and_come_back() {
        let spec = read(&full());
        let gpu_box = spec.terms.gpu_box.clone().unwrap();
        assert_eq!((spec.name.as_str(), gpu_box.home_gib, gpu_box.idle_seconds), ("my-box", 200, 7_200));
        assert_eq!(
            (gpu_box.until.to_string().as_str(), spec.terms.max_runtime_seconds),
            ("2026-09-01T19:00:00Z", 43_200)
        );
        assert!(spec.terms.spot.is_some() && spec.terms.max_rate.is_some() && spec.work.env["A"] == "b's\n");
        assert_eq!(BoxJob::from_document(&full().to_document()), Ok(full()));
        let foreign = format!("command = \"true\"\n{}", full().to_document());
        assert!(BoxJob::from_document(&foreign).unwrap_err().to_string().contains("unknown field `command`"));
    }

    #[test]
    fn a_box_is_on_demand_unless_it_says_otherwise() {
        let gpu_box = BoxKeys { public_key: NO_KEY.to_owned(), lasts: Some("10h".to_owned()), ..BoxKeys::default() };
        let gpu = BoxGpu { count: 1, name: Some("A10G".to_owned()), ..BoxGpu::default() };
        let job = BoxJob { name: "b".to_owned(), gpu_box, gpu, ..BoxJob::default() };
        insta::assert_snapshot!(job.to_document(), @r#"
        name = "b"

        [box]
        public_key = "ssh-ed25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        for = "10h"

        [gpu]
        count = 1
        name = "A10G"

        [spot]
        enabled = false
        "#);
        assert_eq!(read(&job).terms.spot, None);
        assert_eq!(BoxJob::from_document(&job.to_document()), Ok(job));
    }

    #[test]
    fn a_home_has_a_size() {
        let sizes = ["200gb", "200", "200 ", "1TB", "16GiB"].map(|text| read_home_gib(text).ok());
        assert_eq!(sizes, [Some(200), Some(200), Some(200), Some(1_024), Some(16)]);
        for wrong in ["", "gb", "-1", "200mb", "99999999tb", "2 00"] {
            assert!(read_home_gib(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_end_is_todays_or_tomorrows() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let check = |text: &str, now: &str, expect: Option<&str>| {
            let read = read_until(text, time(now), Some(&berlin)).ok().map(|until| until.to_string());
            assert_eq!(read.as_deref(), expect, "{text}");
        };
        check("19:00", "2026-11-22T08:00:00Z", Some("2026-11-22T18:00:00Z"));
        check("19:00", "2026-11-22T18:00:00Z", Some("2026-11-23T18:00:00Z"));
        // The clocks go back in the night: the day has 25 hours. They go forward: 02:30 is an hour later.
        check("19:00", "2026-10-24T18:00:00Z", Some("2026-10-25T18:00:00Z"));
        check("02:30", "2026-03-28T18:00:00Z", Some("2026-03-29T01:30:00Z"));
        check("2026-11-22T19:00:00+01:00", "2026-11-22T08:00:00Z", Some("2026-11-22T18:00:00Z"));
        for wrong in ["", "7pm", "25:00", "tomorrow", "2026-11-22", "2026-11-22T19:00:00"] {
            check(wrong, "2026-11-22T08:00:00Z", None);
        }
        assert!(read_until("19:00", time(NOW), None).unwrap_err().to_string().contains("set TZ"));
    }
}
