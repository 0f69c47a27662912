//! The GPU that a person asks for in one word: `a10g`, `h100:8`, `a100-80gb`, `24gb`, `g5.xlarge`.

use std::collections::BTreeSet;
use std::str::FromStr;

use jobs::{TYPE_GPUS_MAX, check_gpu_type, normalize_gpu_name};
use model::fault::InvalidValue;
use model::id::TypeName;

use crate::catalog::{GpuOffer, tabled_types};

/// Requirements of a request on a job's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuRequest {
    /// The least number of GPUs.
    pub gpus: u32,
    /// The least memory of each, by its nominal size; 0: any.
    pub memory_gib_min: u32,
    /// Name of the GPU, as AWS calls it.
    pub name: Option<String>,
    /// The type that was named; empty: every type that fits.
    pub types: Vec<TypeName>,
}

impl FromStr for GpuRequest {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (what, gpus) = match text.split_once(':') {
            None => (text, 1),
            Some((what, count)) => (what, read_count(count)?),
        };
        if let Some(memory_gib_min) = read_memory(what) {
            return Ok(Self { gpus, memory_gib_min, name: None, types: Vec::new() });
        }
        if what.contains('.') {
            check_gpu_type(what)?;
            return Ok(Self { gpus, memory_gib_min: 0, name: None, types: vec![TypeName::from(what)] });
        }
        let (name, memory_gib_min) = match what.rsplit_once('-') {
            Some((name, memory)) if read_memory(memory).is_some() => (name, read_memory(memory).unwrap_or_default()),
            _ => (what, 0),
        };
        let offers = tabled_types();
        let named: Vec<&GpuOffer> =
            offers.iter().filter(|offer| normalize_gpu_name(&offer.gpu_name) == normalize_gpu_name(name)).collect();
        if named.is_empty() {
            let known: BTreeSet<&str> = offers.iter().map(|offer| offer.gpu_name.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(InvalidValue::new(format!(
                "no known GPU is called {name:?}; there are {}, an instance type such as g5.xlarge, or a memory such as 24gb",
                known.join(", ")
            )));
        }
        let most = named.iter().map(|offer| offer.gpus).max().unwrap_or_default();
        if most < gpus {
            return Err(InvalidValue::new(format!("no instance type has {gpus} of {name}; the most is {most}")));
        }
        let name = named.first().map(|offer| offer.gpu_name.clone());
        Ok(Self { gpus, memory_gib_min, name, types: Vec::new() })
    }
}

fn read_count(count: &str) -> Result<u32, InvalidValue> {
    let read = count.parse().ok().filter(|count| (1..=TYPE_GPUS_MAX).contains(count));
    read.ok_or_else(|| {
        InvalidValue::new(format!("the number of GPUs is 1 to {TYPE_GPUS_MAX}, not {count:?}; write a10g:1"))
    })
}

/// `24gb`, `80GiB`.
fn read_memory(text: &str) -> Option<u32> {
    let text = text.to_ascii_lowercase();
    let digits = text.strip_suffix("gib").or_else(|| text.strip_suffix("gb"))?;
    digits.parse().ok().filter(|memory| *memory > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, gpus: u32, memory: u32, what: &str) {
        let request: GpuRequest = text.parse().unwrap();
        let found: Vec<&str> =
            request.name.iter().map(String::as_str).chain(request.types.iter().map(TypeName::as_str)).collect();
        assert_eq!((request.gpus, request.memory_gib_min, found.join(" ").as_str()), (gpus, memory, what), "{text}");
    }

    fn check_refused(text: &str, expect: &str) {
        let error = text.parse::<GpuRequest>().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_gpu_is_asked_for_by_name_memory_or_type() {
        check("24gb", 1, 24, "");
        check("80GiB:8", 8, 80, "");
        check("g5.xlarge", 1, 0, "g5.xlarge");
        check("g99.xlarge", 1, 0, "g99.xlarge");
        check("a100-80gb", 1, 80, "A100");
        check("A10G:4", 4, 0, "A10G");
        check("rtx-pro-6000:2", 2, 0, "RTX PRO 6000");
        check("rtx-pro-server-6000", 1, 0, "RTX PRO 6000");
        check("rtx-pro-4500", 1, 0, "RTX PRO 4500");
        check("h100", 1, 0, "H100");
    }

    #[test]
    fn a_wrong_one_is_explained() {
        check_refused("g5.xlrage", "g5 has no size \"xlrage\"; it has xlarge");
        check_refused("a10:1", "no known GPU is called \"a10\"; there are A100, A10G,");
        check_refused("", "no known GPU is called \"\"");
        check_refused("a10g:0", "1 to 16, not \"0\"");
        check_refused("a10g:", "1 to 16, not \"\"");
        check_refused("a10g:16", "no instance type has 16 of a10g; the most is 8");
        check_refused("0gb", "no known GPU");
    }
}
