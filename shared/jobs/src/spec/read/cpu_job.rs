//! `[gpu] count = 0`: a job without GPUs, whose machine `[machine]` describes.

use crate::gpu_type::check_cpu_type;
use crate::spec::checks;
use crate::spec::judge::SpecValidator;
use crate::spec::written::{RawMachine, RawSpec};

impl SpecValidator<'_> {
    pub(super) fn cpu_job(&mut self, written: &RawSpec) {
        let (gpu, machine) = (&written.gpu, &written.machine);
        let gpu_keys = [
            ("name", gpu.name.is_some()),
            ("memory_gib_min", gpu.memory_gib_min.is_some()),
            ("types", !gpu.types.is_empty()),
            ("model", gpu.model.is_some()),
        ];
        for (key, _) in gpu_keys.into_iter().filter(|(_, is_said)| *is_said) {
            self.refuse(&["gpu", key], "it means nothing with `count = 0`; leave one of them out");
        }
        if machine.vcpus.is_none() && machine.memory_gib.is_none() && machine.types.is_empty() {
            let problem = "without GPUs the job has to say how large its machine is: write `vcpus = 8` and `memory_gib = 32` under [machine], \
                           or `types = [\"m7i.2xlarge\"]`";
            self.refuse(&["gpu", "count"], problem);
        }
        self.some(&["machine", "vcpus"], machine.vcpus, 0, [1, checks::VCPUS_MAX]);
        self.some(&["machine", "memory_gib"], machine.memory_gib, 0, [1, checks::MEMORY_GIB_MAX]);
        self.list(&["machine", "types"], &machine.types, |name| {
            checks::type_name(name)?;
            check_cpu_type(name)
        });
        if written.container.is_some() && machine.ami.is_none() {
            let problem = "the image of machines without GPUs, Amazon Linux, has no Docker; name one that has it in `machine.ami`";
            self.refuse(&["container"], problem);
        }
    }

    pub(super) fn no_cpu_job(&mut self, machine: &RawMachine) {
        let sizes = [
            ("vcpus", machine.vcpus.is_some()),
            ("memory_gib", machine.memory_gib.is_some()),
            ("types", !machine.types.is_empty()),
        ];
        for (key, _) in sizes.into_iter().filter(|(_, is_said)| *is_said) {
            self.refuse(
                &["machine", key],
                "it is for jobs without GPUs: write `count = 0` under [gpu], or name machines with GPUs in `gpu.types`",
            );
        }
    }
}
