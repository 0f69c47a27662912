//! The instance types that a document or a command names, by the table of families that comes with Curfew.

use std::collections::BTreeSet;

use billing::energy::{ACCELERATORS, AcceleratorModel, MACHINES, MachineHardware, hardware, machine_families};
use model::fault::{InvalidValue, one_line};
use model::id::TypeName;

/// The series without a GPU of NVIDIA (EC2 instance types guide, "Amazon EC2 instance type naming conventions"): AWS adds families to each, and
/// G and P are those with one.
const SERIES_WITHOUT_GPU: [&str; 20] =
    ["a", "c", "d", "dl", "f", "h", "hpc", "i", "im", "inf", "is", "m", "mac", "r", "t", "trn", "u", "vt", "x", "z"];

/// The series with accelerators, and `mac`, which needs a dedicated host.
const ACCELERATED_SERIES: [&str; 9] = ["dl", "f", "g", "gr", "inf", "mac", "p", "trn", "vt"];

/// The most of a size that a mistake repeats.
const SIZE_CHARACTERS_MAX: usize = 40;

/// The family of G with GPUs of AMD.
const FAMILY_OF_AMD: &str = "g4ad";

/// Refuses a type without a GPU of NVIDIA, and an unknown size of a known family. Whether the family is known: AWS adds families.
///
/// # Errors
/// What is legal.
pub fn check_gpu_type(instance_type: &str) -> Result<bool, InvalidValue> {
    let Some((family, size)) = instance_type.split_once('.') else { return Err(refuse_word(instance_type)) };
    let series = family.find(|letter: char| !letter.is_ascii_lowercase()).map_or(family, |end| &family[..end]);
    if SERIES_WITHOUT_GPU.contains(&series) || family == FAMILY_OF_AMD {
        return Err(InvalidValue::new(format!(
            "{family} has no NVIDIA GPU; write a type that has one, such as `g6.xlarge`"
        )));
    }
    check_size(family, size).map_or(Ok(false), |checked| checked.map(|()| true))
}

/// Refuses a type that is known to have an accelerator.
///
/// # Errors
/// The text to write instead.
pub(crate) fn check_cpu_type(instance_type: &str) -> Result<(), InvalidValue> {
    let (family, _) = instance_type.split_once('.').unwrap_or((instance_type, ""));
    let series = family.find(|letter: char| !letter.is_ascii_lowercase()).map_or(family, |end| &family[..end]);
    if ACCELERATED_SERIES.contains(&series) {
        return Err(InvalidValue::new(format!(
            "{family} has accelerators; write a type without, such as `m7i.2xlarge`, or the GPUs under [gpu]"
        )));
    }
    Ok(())
}

/// Refuses an unknown size of a known family; `None` for a family that the table does not have.
#[must_use]
pub fn check_size(family: &str, size: &str) -> Option<Result<(), InvalidValue>> {
    let sizes = find_sizes(family)?;
    Some(if sizes.contains(&size) {
        Ok(())
    } else {
        let shown = one_line(size, SIZE_CHARACTERS_MAX);
        Err(InvalidValue::new(format!("{family} has no size {shown:?}; it has {}", sizes.join(", "))))
    })
}

/// The GPUs of NVIDIA in the table, by the names that a document may use.
fn gpu_names() -> impl Iterator<Item = &'static str> {
    ACCELERATORS.iter().filter_map(AcceleratorModel::nvidia_name)
}

/// Refuses what is no name of a GPU.
///
/// # Errors
/// Which there are.
pub fn check_gpu_name(name: &str) -> Result<(), InvalidValue> {
    if gpu_names().any(|known| normalize_gpu_name(known) == normalize_gpu_name(name)) {
        return Ok(());
    }
    let known: BTreeSet<&str> = gpu_names().collect();
    let known: Vec<&str> = known.into_iter().collect();
    Err(InvalidValue::new(format!(
        "no known GPU is called {:?}; there are {}",
        one_line(name, SIZE_CHARACTERS_MAX),
        known.join(", ")
    )))
}

/// True if a type has GPUs of that name: by the table, else by what EC2 calls them.
pub(crate) fn has_gpu(instance_type: &TypeName, named_by_ec2: &str, name: &str) -> bool {
    let tabled = hardware(instance_type).and_then(|machine| machine.accelerator.nvidia_name());
    normalize_gpu_name(tabled.unwrap_or(named_by_ec2)) == normalize_gpu_name(name)
}

/// The sizes of a family of the table.
fn find_sizes(family: &str) -> Option<Vec<&'static str>> {
    let types = MACHINES.iter().filter(|machine| machine.family == family);
    let sizes: Vec<&str> = types.map(|machine| machine.size).collect();
    Some(sizes).filter(|sizes| !sizes.is_empty())
}

/// A word that is no type may be a family, or the name of a GPU.
fn refuse_word(word: &str) -> InvalidValue {
    if let Some(sizes) = find_sizes(word) {
        let types: Vec<String> = sizes.iter().map(|size| format!("`{word}.{size}`")).collect();
        return InvalidValue::new(format!("{word:?} is a family, and no instance type; it has {}", types.join(", ")));
    }
    let has_gpu = |machine: &&MachineHardware| {
        let name = machine.accelerator.nvidia_name();
        name.is_some_and(|name| normalize_gpu_name(name) == normalize_gpu_name(word))
    };
    let types = || MACHINES.iter().filter(has_gpu);
    let Some(MachineHardware { family, size, .. }) = types().next() else {
        return InvalidValue::new(format!("{word:?} is no instance type; write one as `g6.xlarge`"));
    };
    InvalidValue::new(format!(
        "{word:?} is a GPU, and no instance type; write types that have it, such as `{family}.{size}`, of the families {} (`curfew run --gpu {}` does)",
        machine_families(types()).join(", "),
        normalize_gpu_name(word)
    ))
}

/// `RTX PRO 6000`, `rtx-pro-6000` and EC2's `RTX PRO Server 6000` are one.
#[must_use]
pub fn normalize_gpu_name(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    name.replace("proserver", "pro")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(instance_type: &str, expect: Result<bool, &str>) {
        let found = check_gpu_type(instance_type).map_err(|problem| problem.to_string());
        assert_eq!(found.as_ref().copied().map_err(String::as_str), expect, "{instance_type}");
    }

    #[test]
    fn a_type_of_a_known_family_has_a_known_size() {
        for known in ["g5.xlarge", "p6-b200.48xlarge", "g4dn.metal", "g6f.large"] {
            check(known, Ok(true));
        }
        for future_type in ["g99.xlarge", "p2.xlarge", "p9-x300.48xlarge", "q1.large"] {
            check(future_type, Ok(false));
        }
        check("p5.xlarg", Err("p5 has no size \"xlarg\"; it has 4xlarge, 48xlarge"));
    }

    #[test]
    fn a_type_without_a_gpu_is_refused() {
        for family in ["t3", "m7i", "c6gn", "trn1", "inf2", "u-6tb1", "mac2-m2", "hpc7a", "g4ad", "dl2q", "x2iedn"] {
            let problem = format!("{family} has no NVIDIA GPU; write a type that has one, such as `g6.xlarge`");
            check(&format!("{family}.xlarge"), Err(&problem));
        }
    }

    #[test]
    fn a_family_or_a_gpu_is_no_type() {
        check("p5", Err("\"p5\" is a family, and no instance type; it has `p5.4xlarge`, `p5.48xlarge`"));
        let gpu_message = |name: &str, example: &str, families: &str| {
            format!(
                "{name:?} is a GPU, and no instance type; write types that have it, such as `{example}`, of the families {families} \
                 (`curfew run --gpu {}` does)",
                normalize_gpu_name(name)
            )
        };
        check("a10g", Err(&gpu_message("a10g", "g5.xlarge", "g5")));
        check("L4", Err(&gpu_message("L4", "g6.xlarge", "g6, gr6, g6f, gr6f")));
        check("rtx-pro-6000", Err(&gpu_message("rtx-pro-6000", "g7e.2xlarge", "g7e")));
        check("RTX PRO Server 6000", Err(&gpu_message("RTX PRO Server 6000", "g7e.2xlarge", "g7e")));
        check("rtx-pro-4500", Err(&gpu_message("rtx-pro-4500", "g7.2xlarge", "g7")));
        check("gpu", Err("\"gpu\" is no instance type; write one as `g6.xlarge`"));
    }
}
