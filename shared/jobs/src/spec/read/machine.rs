//! `[machine]` of a spec.

use model::config::Config;
use model::fault::InvalidValue;
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::image_source::{check_ami, check_id};
use model::region::check_exists;

use crate::MachineSpec;
use crate::spec::judge::SpecValidator;
use crate::spec::{checks, written};
use crate::team_access::AllowList;

impl SpecValidator<'_> {
    pub(super) fn machine(
        &mut self,
        machine: written::RawMachine,
        team: Option<&TeamName>,
        config: &Config,
        home: &Region,
    ) -> MachineSpec {
        self.regions(&machine.regions, config, home);
        if let Some(ami) = &machine.ami {
            self.check(&["machine", "ami"], check_ami(ami));
        }
        if let Some(architecture) = &machine.architecture {
            self.check(&["machine", "architecture"], checks::architecture(architecture));
        }
        self.list(&["machine", "subnets"], &machine.subnets, |id| {
            check_id(id, "subnet", "a subnet")?;
            AllowList::Subnets.check(id, team, config)
        });
        self.list(&["machine", "security_groups"], &machine.security_groups, |id| {
            check_id(id, "sg", "a security group")?;
            AllowList::SecurityGroups.check(id, team, config)
        });
        if machine.regions.len() > 1 {
            let regional_keys = [
                ("ami", machine.ami.is_some()),
                ("subnets", !machine.subnets.is_empty()),
                ("security_groups", !machine.security_groups.is_empty()),
            ];
            for (key, _) in regional_keys.into_iter().filter(|(_, is_written)| *is_written) {
                self.refuse(
                    &["machine", key],
                    "it belongs to one region, and `regions` names several; leave it out, or name one region",
                );
            }
        }
        if let Some(profile) = &machine.instance_profile {
            let legal = AllowList::InstanceProfiles.check(profile, team, config);
            self.check(&["machine", "instance_profile"], legal);
        }
        if machine.root_volume_gib.is_some() {
            self.some(&["machine", "root_volume_gib"], machine.root_volume_gib, 1, [1, checks::ROOT_VOLUME_GIB_MAX]);
        }
        let ids = |ids: Vec<String>| ids.into_iter().map(ResourceId::new).collect();
        MachineSpec {
            regions: machine.regions.into_iter().map(Region::new).collect(),
            ami: machine.ami.map(ResourceId::new),
            architecture: machine.architecture,
            subnets: ids(machine.subnets),
            security_groups: ids(machine.security_groups),
            instance_profile: machine.instance_profile,
            root_volume_gib: machine.root_volume_gib,
            vcpus: machine.vcpus.unwrap_or_default(),
            memory_gib: machine.memory_gib.unwrap_or_default(),
            types: machine.types.iter().map(|name| TypeName::from(name.as_str())).collect(),
            metadata: machine.metadata,
        }
    }

    fn regions(&mut self, regions: &[String], config: &Config, home: &Region) {
        // AWS opens regions that the list does not have yet.
        let in_use: Vec<Region> = config.regions.iter().chain([home]).cloned().collect();
        let looked_at = |region: &str| match &config.regions[..] {
            regions if regions.is_empty() || regions.iter().any(|known| known.as_str() == region) => Ok(()),
            regions => {
                let names: Vec<&str> = regions.iter().map(Region::as_str).collect();
                Err(InvalidValue::new(format!(
                    "Curfew does not cover {region}, so it could terminate nothing there; it covers {}",
                    names.join(", ")
                )))
            }
        };
        self.list(&["machine", "regions"], regions, |name| {
            checks::region(name)?;
            check_exists(&name.into(), &in_use)?;
            looked_at(name)
        });
    }
}
