//! `gpu.nodes` and `[network]` of a spec.

use crate::efa::EfaChoice;
use crate::spec::judge::SpecValidator;
use crate::spec::written::RawSpec;
use crate::{NetworkSpec, Placement};

/// The most security groups that it may name. An interface has 5 by default (Amazon VPC user guide, "Amazon VPC quotas").
const GROUPS_MAX: usize = 4;

impl SpecValidator<'_> {
    /// Reads the network of a job on several machines, and refuses what only a job on one has.
    pub(super) fn network(&mut self, written: &RawSpec) -> Option<NetworkSpec> {
        let network = &written.network;
        if written.gpu.nodes.unwrap_or(1) < 2 {
            for (key, value) in [("efa", &network.efa), ("placement", &network.placement)] {
                if value.is_some() {
                    let problem = "it is for a job on several machines; write `gpu.nodes`, or leave it out";
                    self.refuse(&["network", key], problem);
                }
            }
            return None;
        }
        if written.gpu_box.is_some() {
            self.refuse(&["gpu", "nodes"], "a box is one machine; leave it out");
        }
        if written.limits.idle.is_some() {
            let problem =
                "it is not there for a job on several machines, whose nodes wait for each other; leave it out";
            self.refuse(&["limits", "idle"], problem);
        }
        let efa = match network.efa.as_deref() {
            None | Some("auto") => EfaChoice::Auto,
            Some("required") => EfaChoice::Required,
            Some("off") => EfaChoice::Off,
            Some(other) => {
                self.refuse(&["network", "efa"], &format!("{other:?} is none of `auto`, `required`, `off`"));
                EfaChoice::Auto
            }
        };
        let placement = match network.placement.as_deref() {
            None => None,
            Some("cluster") => Some(Placement::Cluster),
            Some("none") => Some(Placement::None),
            Some(other) => {
                self.refuse(&["network", "placement"], &format!("{other:?} is none of `cluster`, `none`"));
                None
            }
        };
        if written.machine.security_groups.len() > GROUPS_MAX {
            let problem = format!(
                "a job on several machines may name {GROUPS_MAX}, because Curfew adds one, and EC2 takes 5 on an interface"
            );
            self.refuse(&["machine", "security_groups"], &problem);
        }
        Some(NetworkSpec { efa, placement })
    }
}
