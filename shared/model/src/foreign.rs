//! Ownership by another controller, which would replace or miss a resource that Curfew ends.

use crate::config::ManagedConfig;
use crate::foreign_text::quoted_unless_word;
use crate::instance::{Instance, PurchaseOption, Tags};
use crate::volume::Volume;

/// Tag keys by which controllers mark what is theirs, and what they are called. A trailing `*` matches any rest.
///
/// EC2 Auto Scaling user guide, "Tag Auto Scaling groups and instances"; EC2 user guide, "Tag an EC2 Fleet"; EKS user
/// guide, "Managed node groups"; Karpenter documentation, "`NodePools`"; EMR management guide, "Tag cluster resources"; AWS
/// `ParallelCluster`, "Tagging".
const CONTROLLER_TAGS: [(&str, &str); 20] = [
    ("aws:autoscaling:groupName", "an Auto Scaling group"),
    ("karpenter.sh/*", "Karpenter"),
    ("karpenter.k8s.aws/*", "Karpenter"),
    ("eks:*", "EKS"),
    ("aws:eks:*", "EKS"),
    ("kubernetes.io/cluster/*", "a Kubernetes cluster"),
    ("aws:ecs:*", "ECS"),
    ("AmazonECSManaged", "ECS"),
    ("aws:elasticmapreduce:*", "EMR"),
    ("aws:batch:*", "AWS Batch"),
    ("AWSBatchServiceTag", "AWS Batch"),
    ("parallelcluster:*", "ParallelCluster"),
    ("aws-parallelcluster-*", "ParallelCluster"),
    ("aws:pcs:*", "AWS PCS"),
    ("sigs.k8s.io/cluster-api-provider-aws/*", "Cluster API"),
    ("sagemaker:*", "SageMaker"),
    ("aws:sagemaker:*", "SageMaker"),
    ("aws:ec2spot:fleet-request-id", "a Spot Fleet"),
    ("aws:ec2:fleet-id", "an EC2 Fleet"),
    ("aws:ec2:managed-launch", "an AWS service"),
];

/// Tag keys that say that a volume was made for a Kubernetes cluster. A claim that is scaled to zero leaves its volume
/// unattached, with all its data (Kubernetes documentation, "Persistent Volumes"; AWS EBS CSI driver, "Driver options", "Tagging").
const KUBERNETES_TAGS: [&str; 7] = [
    "kubernetes.io/*",
    "KubernetesCluster",
    "CSIVolumeName",
    "CSIVolumeSnapshotName",
    "ebs.csi.aws.com/*",
    "eks:*",
    "karpenter.sh/*",
];

/// `CloudFormation` user guide, "Resource tag": what a stack made, it misses.
const STACK_TAGS: &str = "aws:cloudformation:*";

/// The owner of an unattached volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeController {
    /// A claim of a Kubernetes cluster.
    Kubernetes,
    /// A stack, another controller, or a sign of `[managed]`.
    Other,
}

/// The controller of a volume; `None` if it is its team's own.
#[must_use]
pub fn keeper(volume: &Volume, managed: &ManagedConfig) -> Option<VolumeController> {
    if volume.tags.keys().any(|key| KUBERNETES_TAGS.iter().any(|pattern| matches(pattern, key))) {
        return Some(VolumeController::Kubernetes);
    }
    other_keeper(volume, managed).map(|_| VolumeController::Other)
}

/// The controller of a volume, for people.
#[must_use]
pub fn describe_keeper(volume: &Volume, managed: &ManagedConfig) -> Option<String> {
    match keeper(volume, managed)? {
        VolumeController::Kubernetes => {
            let cluster = volume.tags.keys().find_map(|key| key.strip_prefix("kubernetes.io/cluster/"));
            let cluster =
                cluster.map(|name| format!(" of the cluster {}", quoted_unless_word(name))).unwrap_or_default();
            Some(format!("a Kubernetes claim{cluster}"))
        }
        VolumeController::Other => other_keeper(volume, managed),
    }
}

/// The stack, the other controller, or the sign of `[managed]`, for people.
fn other_keeper(volume: &Volume, managed: &ManagedConfig) -> Option<String> {
    let made_by_stack = || volume.tags.keys().any(|key| matches(STACK_TAGS, key));
    let stack = || made_by_stack().then(|| "a CloudFormation stack".to_owned());
    volume.operator.clone().or_else(|| controller_by_tags(&volume.tags, managed)).or_else(stack)
}

/// Tag keys by which a pipeline or another service of AWS marks the `SageMaker` resources that it makes, and misses (Amazon `SageMaker`
/// developer guide, "Tag propagation" of pipelines, "Add tags to projects").
const SAGEMAKER_CONTROLLER_TAGS: [(&str, &str); 3] = [
    ("aws:cloudformation:*", "a CloudFormation stack"),
    ("sagemaker-pipeline*", "a SageMaker pipeline"),
    ("sagemaker:pipeline*", "a SageMaker pipeline"),
];

/// The stack, the pipeline, or the controller of `[managed]` that makes a resource of `SageMaker`, for people to read.
#[must_use]
pub fn sagemaker_controller(tags: &Tags, managed: &ManagedConfig) -> Option<String> {
    tags.keys().find_map(|key| {
        let named = managed.tag_keys.contains(key).then(|| format!("the controller of the tag {key}"));
        let known = SAGEMAKER_CONTROLLER_TAGS.iter().find(|(pattern, _)| matches(pattern, key));
        named.or_else(|| known.map(|(_, name)| (*name).to_owned()))
    })
}

/// The controller that owns an instance, for people to read; `None` if it is its team's own.
#[must_use]
pub fn controller(instance: &Instance, managed: &ManagedConfig) -> Option<String> {
    if let Some(operator) = &instance.operator {
        return Some(operator.clone());
    }
    if instance.purchase == PurchaseOption::CapacityBlock {
        return Some("a Capacity Block, which is paid in advance".to_owned());
    }
    controller_by_tags(&instance.tags, managed)
}

/// Names the controller that an instance would seem to belong to by a tag of that key, for people to read.
#[must_use]
pub fn controller_by_key(key: &str, managed: &ManagedConfig) -> Option<String> {
    let tags = Tags::from([(key.to_owned(), String::new())]);
    controller_by_tags(&tags, managed).map(|name| name.trim_end_matches(" ()").to_owned())
}

fn controller_by_tags(tags: &Tags, managed: &ManagedConfig) -> Option<String> {
    for key in tags.keys() {
        if let Some((pattern, name)) = CONTROLLER_TAGS.iter().find(|(pattern, _)| matches(pattern, key)) {
            let value = tags
                .get(key)
                .filter(|_| !pattern.ends_with('*'))
                .map(|value| format!(" ({})", quoted_unless_word(value)));
            return Some(format!("{name}{}", value.unwrap_or_default()));
        }
        if managed.tag_keys.contains(key) {
            return Some(format!("the controller of the tag {key}"));
        }
    }
    None
}

fn matches(pattern: &str, key: &str) -> bool {
    // Every key of every instance is compared with every pattern: most differ in the first letter.
    pattern.as_bytes().first() == key.as_bytes().first()
        && pattern.strip_suffix('*').map_or(pattern == key, |start| key.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;

    #[test]
    fn every_sign_of_a_controller_is_seen() {
        let managed = ManagedConfig { tag_keys: vec!["spacelift".to_owned()] };
        for key in [
            "aws:autoscaling:groupName",
            "karpenter.sh/nodepool",
            "eks:cluster-name",
            "kubernetes.io/cluster/ml",
            "spacelift",
            "aws:elasticmapreduce:job-flow-id",
            "parallelcluster:cluster-name",
            "aws:ec2:fleet-id",
        ] {
            assert!(controller(&instance().tag(key, "x").build(), &managed).is_some(), "{key}");
        }
        assert!(controller(&instance().operator("eks.amazonaws.com").build(), &managed).is_some());
        assert!(controller(&instance().purchase(PurchaseOption::CapacityBlock).build(), &managed).is_some());
    }

    #[test]
    fn ordinary_tags_are_no_controller() {
        let managed = ManagedConfig::default();
        assert_eq!(
            controller(&instance().tag("Name", "eks:test").tag("aws:cloudformation:stack-name", "x").build(), &managed),
            None
        );
        assert_eq!(controller(&instance().tag("curfew:job", "vision/a-0123abcd").build(), &managed), None);
    }

    #[test]
    fn what_a_stack_or_a_pipeline_makes_in_sagemaker_is_theirs() {
        let managed = ManagedConfig { tag_keys: vec!["spacelift".to_owned()] };
        let found = |key: &str| sagemaker_controller(&Tags::from([(key.to_owned(), "x".to_owned())]), &managed);
        for key in [
            "aws:cloudformation:stack-name",
            "sagemaker-pipeline-execution-arn",
            "sagemaker:pipeline-name",
            "spacelift",
        ] {
            assert!(found(key).is_some(), "{key}");
        }
        for key in ["sagemaker:domain-arn", "sagemaker:user-profile-arn", "Team"] {
            assert_eq!(found(key), None, "{key}");
        }
    }

    #[test]
    fn a_fleet_is_no_job_whatever_its_instances_say() {
        let of_fleet = instance().tag("aws:ec2:fleet-id", "x").tag("curfew:job", "vision/a-0123abcd").build();
        assert!(controller(&of_fleet, &ManagedConfig::default()).is_some());
    }
}
