//! `DescribeInstances`, as a run sees it: kept from tick to tick, and copied only where something changed.

use model::instance::Instance;

use crate::world::SimulatedMachine;

#[derive(Default)]
pub(crate) struct Listing {
    items: Vec<Instance>,
    /// The shown version of each machine.
    versions: Vec<u32>,
    /// A run has it, and returns it.
    lent: bool,
}

impl Listing {
    /// Shows the current state.
    pub(crate) fn refresh(&mut self, machines: &[SimulatedMachine]) {
        let mut place = 0;
        for machine in machines.iter().filter(|machine| machine.is_listed()) {
            if self.items.get(place).is_none_or(|shown| shown.id != machine.ec2.id) {
                // Another machine is in this place: everything after it is new.
                self.items.truncate(place);
                self.versions.truncate(place);
                self.items.push(machine.ec2.clone());
                self.versions.push(machine.version);
            } else if self.versions[place] != machine.version {
                self.items[place] = machine.ec2.clone();
                self.versions[place] = machine.version;
            }
            place += 1;
        }
        self.items.truncate(place);
        self.versions.truncate(place);
    }

    /// Lends it: most runs only read.
    pub(crate) fn lend(&mut self) -> Vec<Instance> {
        self.lent = true;
        std::mem::take(&mut self.items)
    }

    /// The borrower changes it, so it is copied beforehand.
    pub(crate) fn keep(&mut self, lent: &[Instance]) {
        if std::mem::take(&mut self.lent) {
            self.items = lent.to_vec();
        }
    }

    pub(crate) fn take_back(&mut self, lent: Vec<Instance>) {
        if std::mem::take(&mut self.lent) {
            self.items = lent;
        }
    }
}
