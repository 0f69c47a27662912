//! Checks of single values of a spec. Each says what is legal.

use model::config::ManagedConfig;
use model::curfew_tags::{TAG_KEY_CHARACTERS_MAX, begins_with_curfew};
use model::fault::InvalidValue;
use model::foreign;
use model::money::USD_MAX;
use model::partition::Partition;
use model::region::has_shape;
use toml::de::DeValue;

use crate::gpu_type::check_gpu_type;
use crate::id::is_job;

/// EC2 user guide, "Tag restrictions".
const TAG_VALUE_CHARACTERS_MAX: usize = 256;

/// The environment's own names begin so on the machine.
const OWN_ENVIRONMENT: &str = "CURFEW_";

/// The signals that a program can catch and that mean an end, or nothing but what it makes of them (POSIX, "Signal Concepts").
pub(super) const SIGNALS: [&str; 6] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];

/// No instance type has more GPUs of NVIDIA (EC2 instance types, "Accelerated computing": 16 of p2.16xlarge).
pub const TYPE_GPUS_MAX: u32 = 16;

/// No instance type has more (EC2 instance types, "High memory": 1,920 of u7inh-32tb).
pub(super) const VCPUS_MAX: u32 = 1_920;

/// No instance type has more memory than 32 TiB (EC2 instance types, "High memory": u7inh-32tb).
pub(super) const MEMORY_GIB_MAX: u32 = 32_768;

/// No GPU has more memory.
pub(super) const GPU_MEMORY_GIB_MAX: u32 = 1_024;

/// EBS user guide, "General Purpose SSD volumes": gp3 has up to 64 TiB.
pub(super) const ROOT_VOLUME_GIB_MAX: u32 = 65_536;

/// No checkpoint fits on a smaller volume than its own size.
pub(super) const CHECKPOINT_GB_MAX: u32 = ROOT_VOLUME_GIB_MAX;

/// One step each microsecond for 30 years.
pub(super) const TOTAL_STEPS_MAX: u64 = 1_000_000_000_000_000;

/// More often than that only a person can make the command succeed; an interruption uses up none.
pub(super) const RETRIES_MAX: u32 = 10;

/// The command finds each in a variable, and each costs a read a minute until it has succeeded.
pub(super) const AFTER_MAX: usize = 16;

/// Each parameter of a sweep is a column of `curfew jobs`, and a variable.
pub(super) const PARAMETERS_MAX: usize = 8;

pub(super) const PARAMETER_CHARACTERS_MAX: usize = 32;

/// The longest value of a parameter, in bytes: the state of each member has it, and the table of all.
pub(super) const PARAMETER_VALUE_BYTES_MAX: usize = 200;

/// The most items of a list: a person writes fewer, and one call of EC2 accepts as many.
pub(super) const ITEMS_MAX: usize = 100;

/// A whole number from 1 to `most`, as it is written.
pub(crate) fn whole_number(value: &DeValue<'_>, most: u32) -> Result<u32, InvalidValue> {
    let number = match value {
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| InvalidValue::new(format!("write a whole number from 1 to {most}")))
}

/// Says nothing of a legal text. None can be handed to a program that has a NUL in it.
pub(super) fn text(text: &str) -> Result<(), InvalidValue> {
    if text.contains('\0') {
        return Err(InvalidValue::new("it has a NUL character (U+0000), which no program can be handed; leave it out"));
    }
    Ok(())
}

pub(super) fn tag_value(value: &str) -> Result<(), InvalidValue> {
    let count = value.chars().count();
    if count > TAG_VALUE_CHARACTERS_MAX {
        return Err(InvalidValue::new(format!(
            "the value of a tag has {TAG_VALUE_CHARACTERS_MAX} characters at most, not {count}"
        )));
    }
    if value.contains(char::is_control) {
        return Err(InvalidValue::new("the value of a tag has no line breaks and no other control characters"));
    }
    Ok(())
}

pub(super) fn tag_key(key: &str, managed: &ManagedConfig) -> Result<(), InvalidValue> {
    let count = key.chars().count();
    if !(1..=TAG_KEY_CHARACTERS_MAX).contains(&count) || key.contains(char::is_control) {
        return Err(InvalidValue::new(format!(
            "a tag key has 1 to {TAG_KEY_CHARACTERS_MAX} characters, and no control characters among them"
        )));
    }
    if begins_with_curfew(key) {
        return Err(InvalidValue::new("tags that begin with `curfew` are Curfew's own; name it otherwise"));
    }
    if key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:")) {
        return Err(InvalidValue::new("tags that begin with `aws:` are AWS's own; name it otherwise"));
    }
    if let Some(whose) = foreign::controller_by_key(key, managed) {
        return Err(InvalidValue::new(format!(
            "with this tag Curfew would take the machine for that of {whose}, and never stop it; use another name"
        )));
    }
    Ok(())
}

pub(super) fn variable(name: &str) -> Result<(), InvalidValue> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins || !name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') {
        return Err(InvalidValue::new("the name of a variable is letters, digits and `_`, and begins with no digit"));
    }
    if name.starts_with(OWN_ENVIRONMENT) {
        return Err(InvalidValue::new(format!(
            "variables that begin with `{OWN_ENVIRONMENT}` are Curfew's own; name it otherwise"
        )));
    }
    Ok(())
}

/// Secrets Manager user guide, "Determine who has permissions", and "What's in a Secrets Manager secret?" (the ARN ends on `-` and six
/// random characters, without which it may be taken for another secret's); Systems Manager user guide, "Restricting access to Parameter
/// Store parameters using IAM policies".
pub(super) fn secret(arn: &str) -> Result<(), InvalidValue> {
    let legal = |character: char| character.is_ascii_alphanumeric() || "/_+=.@-".contains(character);
    let is_name = |name: &str| !name.is_empty() && name.len() <= 1_024 && name.chars().all(legal);
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let is_one = match parts.as_slice() {
        ["arn", partition, service, region, account, resource] => {
            let is_partition = Partition::find(region).is_some_and(|own| own.name == *partition);
            let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
            let name = match *service {
                "secretsmanager" => resource.strip_prefix("secret:").filter(|name| has_suffix(name)),
                "ssm" => resource.strip_prefix("parameter/"),
                _ => None,
            };
            is_partition && is_account && name.is_some_and(is_name)
        }
        _ => false,
    };
    if is_one {
        return Ok(());
    }
    Err(InvalidValue::new(
        "write the ARN of a secret in full, with the six characters at its end \
         (`arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-AbCdEf`), or of a parameter \
         (`arn:aws:ssm:REGION:ACCOUNT:parameter/NAME`), never the secret itself",
    ))
}

/// Returns `true` if a name ends as the ARN of a secret does.
fn has_suffix(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(name, suffix)| {
        !name.is_empty() && suffix.len() == 6 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A type with GPUs.
pub(super) fn instance_type(name: &str) -> Result<(), InvalidValue> {
    type_shape(name, "g6.xlarge")?;
    check_gpu_type(name).map(|_| ())
}

/// Any type, by its shape.
pub(super) fn type_name(name: &str) -> Result<(), InvalidValue> {
    type_shape(name, "m7i.2xlarge")?;
    if name.contains('.') { Ok(()) } else { Err(no_type(name, "m7i.2xlarge")) }
}

fn no_type(name: &str, example: &str) -> InvalidValue {
    InvalidValue::new(format!("{name:?} is no instance type; write one as `{example}`"))
}

/// A word alone may be a family, or a GPU.
fn type_shape(name: &str, example: &str) -> Result<(), InvalidValue> {
    let legal = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if name.len() <= 64 && name.split_once('.').is_none_or(|(family, size)| legal(family) && legal(size)) {
        return Ok(());
    }
    Err(no_type(name, example))
}

/// Agents are built for these.
pub(super) fn architecture(name: &str) -> Result<(), InvalidValue> {
    match name {
        "x86_64" | "arm64" => Ok(()),
        _ => Err(InvalidValue::new(format!("{name:?} is none of `x86_64`, `arm64`"))),
    }
}

pub(super) fn region(name: &str) -> Result<(), InvalidValue> {
    if has_shape(name) && name.len() <= 64 {
        return Ok(());
    }
    Err(InvalidValue::new(format!("{name:?} does not look like a region, such as us-east-1")))
}

/// A path on the machine that leads to the same place from everywhere.
pub(super) fn path(path: &str) -> Result<(), InvalidValue> {
    text(path)?;
    if !path.starts_with('/') {
        return Err(InvalidValue::new(format!("{path:?} is not an absolute path; begin it with `/`")));
    }
    if path.split('/').all(str::is_empty) {
        return Err(InvalidValue::new("it cannot be `/` itself; name a directory below"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(InvalidValue::new(format!("{path:?} has `..` in it; write where it leads to")));
    }
    Ok(())
}

/// Directories that belong to the machine, with all that is below them (Filesystem Hierarchy Standard 3.0).
const OF_THE_SYSTEM: [&str; 9] = ["bin", "boot", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys"];

/// Directories of the machine in which people make their own.
const AROUND: [&[&str]; 15] = [
    &["dev"],
    &["home"],
    &["home", "*"],
    &["opt"],
    &["root"],
    &["run"],
    &["tmp"],
    &["usr"],
    &["usr", "local"],
    &["var"],
    &["var", "cache"],
    &["var", "lib"],
    &["var", "log"],
    &["var", "run"],
    &["var", "tmp"],
];

/// A directory that can be given to a user of the machine, with all that is in it.
pub(super) fn own_directory(dir: &str) -> Result<(), InvalidValue> {
    path(dir)?;
    let names: Vec<&str> = dir.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let is_around = |around: &&[&str]| {
        around.len() == names.len() && around.iter().zip(&names).all(|(around, name)| *around == "*" || around == name)
    };
    let is_the_systems = match names.as_slice() {
        ["usr", below, ..] if *below != "local" => true,
        ["run", "systemd", ..] => true,
        names => names.first().is_some_and(|first| OF_THE_SYSTEM.contains(first)) || AROUND.iter().any(is_around),
    };
    if is_the_systems {
        return Err(InvalidValue::new(format!(
            "{dir:?} belongs to the system, and Curfew would give this directory to the user, with what lies in it; name one of its own"
        )));
    }
    Ok(())
}

pub(super) fn signal(name: &str) -> Result<(), InvalidValue> {
    if SIGNALS.contains(&name) {
        return Ok(());
    }
    let written = name.to_ascii_uppercase();
    let near = SIGNALS.iter().find(|signal| **signal == written || signal.strip_prefix("SIG") == Some(&written));
    let names: Vec<String> = SIGNALS.iter().map(|signal| format!("`{signal}`")).collect();
    let hint = near.map(|signal| format!("; did you mean `{signal}`?")).unwrap_or_default();
    let why = if matches!(written.as_str(), "SIGKILL" | "KILL" | "SIGSTOP" | "STOP") {
        ": no program can catch it"
    } else {
        ""
    };
    Err(InvalidValue::new(format!("{name:?} is none of {}{hint}{why}", names.join(", "))))
}

pub(super) fn parameter(name: &str) -> Result<(), InvalidValue> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    let legal = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_';
    if begins && name.len() <= PARAMETER_CHARACTERS_MAX && name.chars().all(legal) {
        return Ok(());
    }
    Err(InvalidValue::new(format!(
        "the name of a parameter is 1 to {PARAMETER_CHARACTERS_MAX} lower-case letters, digits and `_`, and begins with a letter"
    )))
}

pub(super) fn parameter_value(value: &str) -> Result<(), InvalidValue> {
    if value.len() > PARAMETER_VALUE_BYTES_MAX {
        return Err(InvalidValue::new(format!(
            "it has {} bytes; {PARAMETER_VALUE_BYTES_MAX} are the most",
            value.len()
        )));
    }
    text(value)
}

pub(super) fn job_name(name: &str) -> Result<(), InvalidValue> {
    if is_job(name) {
        return Ok(());
    }
    Err(InvalidValue::new(format!(
        "{name:?} is not the full name of a job; write it as `curfew jobs --all` shows it, without the team, such as `llama-1a2b3c4d`"
    )))
}

/// `useradd(8)`: what every Linux takes.
pub(crate) fn user(name: &str) -> Result<(), InvalidValue> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let legal = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, '_' | '-');
    if begins && name.len() <= 32 && name.chars().all(legal) {
        return Ok(());
    }
    Err(InvalidValue::new(format!(
        "{name:?} is not a user name; one is 1 to 32 lower-case letters, digits, `_` and `-`, and begins with a letter or `_`"
    )))
}

pub(super) fn usd(usd: f64) -> Result<(), InvalidValue> {
    if usd > USD_MAX {
        return Err(InvalidValue::new(format!("{usd:e} is more than a job can cost; write {USD_MAX} at most")));
    }
    // A millionth of a dollar is the smallest that there is.
    if usd.is_nan() || usd < 1e-6 {
        return Err(InvalidValue::new(format!(
            "{usd} is not an amount that buys anything; write USD, a number above 0"
        )));
    }
    Ok(())
}
