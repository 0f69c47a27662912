//! Parts of a machine, by its type: `data/machines.csv`. The ledger keeps only the type's name.

use std::sync::LazyLock;

use model::id::TypeName;
use model::table::embedded_table;

use super::{ACCELERATORS, AcceleratorModel};

/// The parts of one type that draw power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineHardware {
    /// The type before the dot, such as `g5`.
    pub family: &'static str,
    /// The type behind the dot, such as `xlarge`.
    pub size: &'static str,
    pub accelerator: &'static AcceleratorModel,
    /// Number of accelerators, in eighths: some types have a fraction of a GPU.
    pub accelerator_eighths: u16,
    /// Memory of each accelerator, or of its part, in MiB; `None` if unknown.
    pub accelerator_memory_mib: Option<u32>,
    pub vcpus: u16,
    pub memory_gib: u16,
    /// The vCPUs of the whole server: those of the largest type of its family.
    pub server_vcpus: u16,
}

/// Every type with accelerators of a known power. The types of a family follow one another.
pub static MACHINES: LazyLock<Vec<MachineHardware>> = LazyLock::new(|| {
    embedded_table("machines.csv", include_str!("../../../../data/machines.csv"), |row| {
        let (family, size) = row.value_by("type", |name| name.split_once('.'))?;
        let find_accelerator = |name| ACCELERATORS.iter().find(|model| model.name == name);
        Ok(MachineHardware {
            family,
            size,
            accelerator: row.value_by("accelerator", find_accelerator)?,
            accelerator_eighths: row.value("accelerator_eighths")?,
            accelerator_memory_mib: row.optional("accelerator_memory_mib")?,
            vcpus: row.value("vcpus")?,
            memory_gib: row.value("memory_gib")?,
            server_vcpus: row.value("server_vcpus")?,
        })
    })
});

/// Names the families of these types, each once.
#[must_use]
pub fn machine_families<'a>(machines: impl IntoIterator<Item = &'a MachineHardware>) -> Vec<&'static str> {
    let mut families: Vec<&str> = machines.into_iter().map(|machine| machine.family).collect();
    families.dedup();
    families
}

/// Returns the parts of a machine of that type; `None` if they, or the power of its accelerator, are unknown.
#[must_use]
pub fn hardware(instance_type: &TypeName) -> Option<MachineHardware> {
    let (family, size) = instance_type.as_str().split_once('.')?;
    MACHINES.iter().find(|machine| machine.family == family && machine.size == size).copied()
}
