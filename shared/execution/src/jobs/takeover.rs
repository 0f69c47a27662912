//! The search for machines that are newer than the copy from which the stack was restored.

use std::collections::BTreeSet;

use futures::future::join_all;
use jobs::Job;
use jobs::machine_role::SHARED_PROFILES;
use jobs::takeover::{NewerMachines, Takeover};
use model::id::{Region, ResourceId};
use model::observation::{Gap, GapKind};
use model::team_role::team_role;
use ports::JobCloud;

use super::{JobRunDocuments, JobsRun};

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// The machines of a job that EC2 shows in any region where it may have one, and its state does not name. Each region is asked once a run.
    pub(super) async fn find_newer_machines(&self, job: &Job, takeover: &Takeover) -> NewerMachines {
        let home = self.run.cloud.home();
        let regions: BTreeSet<&Region> = job.regions().chain(&takeover.region_before).chain([home]).collect();
        let asked = regions.into_iter().map(|region| self.asked.find_job_machines(self.run.cloud, region));
        let (mut found, mut is_whole) = (Vec::new(), true);
        let id = job.job.to_string();
        for answer in join_all(asked).await {
            match answer {
                Ok(machines) => found.extend(machines.iter().filter(|one| one.job == id).cloned()),
                Err(error) => {
                    self.gap(error.gap());
                    is_whole = false;
                }
            }
        }
        let newer = NewerMachines::judge(job, takeover, &found, &self.launch_profiles(job));
        if let NewerMachines::Unproven(instances) = &newer {
            self.gap(self.describe_unproven(job, takeover, instances));
        }
        match newer {
            NewerMachines::None if !is_whole => NewerMachines::Unknown,
            newer => newer,
        }
    }

    /// The instance profiles that only run-jobs may pass. One that a spec names, its team may pass as well, so it proves nothing.
    fn launch_profiles(&self, job: &Job) -> Vec<String> {
        let own = self.setup.profile.iter().cloned().chain(SHARED_PROFILES.map(str::to_owned));
        let profiles = own.chain(team_role(&job.job.team).ok());
        if job.terms.machine.instance_profile.is_some() { Vec::new() } else { profiles.collect() }
    }

    fn describe_unproven(&self, job: &Job, takeover: &Takeover, instances: &[ResourceId]) -> Gap {
        let named = instances.iter().map(ResourceId::as_str).collect::<Vec<_>>().join(", ");
        let until = takeover.waits_until().strftime("%Y-%m-%d %H:%M UTC");
        let error = format!(
            "{named}: the tag curfew:job names {}, but neither its state nor the launch says that Curfew launched it. Until {until} nothing is \
             launched for that job, unless this is gone sooner; then it is launched beside it. Remove the tag, or terminate the instance",
            job.job
        );
        Gap::new(self.run.cloud.home(), "ec2:DescribeInstances", error, GapKind::Part)
    }
}
