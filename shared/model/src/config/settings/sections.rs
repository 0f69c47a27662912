//! The values of each section, by their keys.

use jiff::SignedDuration;
use serde::Serialize;
use serde_json::Value;

use super::super::{
    AccountConfig, IdleConfig, JobsConfig, LifetimeConfig, LimitsConfig, ManagedConfig, PricesConfig, ProjectsConfig,
    ReportConfig, SageMakerConfig, SeriesNames, TagKeys, TeamConfig, UntaggedConfig, VolumesConfig,
};
use super::{Setting, SettingSource, SettingsSection};
use crate::duration;

pub(super) fn to_value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn duration_value(of: &SignedDuration) -> Value {
    Value::from(duration::format_exact_duration(*of))
}

pub(super) fn section<const N: usize>(path: &[&str], settings: [Option<(&str, Value)>; N]) -> SettingsSection {
    let setting = |(key, value): (&str, Value)| Setting { key: key.to_owned(), value, source: SettingSource::Default };
    SettingsSection {
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        source: SettingSource::Default,
        settings: settings.into_iter().flatten().map(setting).collect(),
    }
}

pub(super) fn tags_section(TagKeys { team, owner, required }: &TagKeys) -> SettingsSection {
    let settings = [("team", to_value(team)), ("owner", to_value(owner)), ("required", to_value(required))];
    section(&["tags"], settings.map(Some))
}

pub(super) fn managed_section(ManagedConfig { tag_keys }: &ManagedConfig) -> SettingsSection {
    section(&["managed"], [Some(("tag_keys", to_value(tag_keys)))])
}

pub(super) fn untagged_section(
    UntaggedConfig { mode, settle, grace, action, spare_busy }: &UntaggedConfig,
) -> SettingsSection {
    let settings = [
        ("mode", to_value(mode)),
        ("settle", duration_value(settle)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("spare_busy", to_value(spare_busy)),
    ];
    section(&["untagged"], settings.map(Some))
}

pub(super) fn projects_section(ProjectsConfig { tag, allowed, grace, action }: &ProjectsConfig) -> SettingsSection {
    let settings = [
        ("tag", to_value(tag)),
        ("allowed", to_value(allowed)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
    ];
    section(&["projects"], settings.map(Some))
}

pub(super) fn idle_section(idle: &IdleConfig) -> SettingsSection {
    let IdleConfig {
        gpu_below_percent,
        window,
        coverage_min_percent,
        cpu_below_vcpus,
        network_below_mbps,
        disk_below_mbps,
        gpu_memory_held_mib,
        boot_grace,
        grace,
        action,
        local_disk,
    } = idle;
    let settings = [
        ("gpu_below_percent", to_value(gpu_below_percent)),
        ("window", duration_value(window)),
        ("coverage_min_percent", to_value(coverage_min_percent)),
        ("cpu_below_vcpus", to_value(cpu_below_vcpus)),
        ("network_below_mbps", to_value(network_below_mbps)),
        ("disk_below_mbps", to_value(disk_below_mbps)),
        ("gpu_memory_held_mib", to_value(gpu_memory_held_mib)),
        ("boot_grace", duration_value(boot_grace)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("local_disk", to_value(local_disk)),
    ];
    section(&["idle"], settings.map(Some))
}

pub(super) fn series_section(kind: &str, names: &SeriesNames) -> SettingsSection {
    let SeriesNames {
        namespace,
        utilization,
        utilization_unit,
        memory_used_mib,
        device_dimension,
        instance_dimension,
        host_dimension,
        series_per_device,
    } = names;
    let settings = [
        ("namespace", to_value(namespace)),
        ("utilization", to_value(utilization)),
        ("utilization_unit", to_value(utilization_unit)),
        ("memory_used_mib", to_value(memory_used_mib)),
        ("device_dimension", to_value(device_dimension)),
        ("instance_dimension", to_value(instance_dimension)),
        ("host_dimension", to_value(host_dimension)),
        ("series_per_device", to_value(series_per_device)),
    ];
    section(&["metrics", kind], settings.map(Some))
}

pub(super) fn lifetime_section(LifetimeConfig { max, grace, action }: &LifetimeConfig) -> SettingsSection {
    let settings = [("max", duration_value(max)), ("grace", duration_value(grace)), ("action", to_value(action))];
    section(&["lifetime"], settings.map(Some))
}

pub(super) fn limits_section(LimitsConfig { actions_max, fleet_share_max_percent }: &LimitsConfig) -> SettingsSection {
    let settings =
        [("actions_max", to_value(actions_max)), ("fleet_share_max_percent", to_value(fleet_share_max_percent))];
    section(&["limits"], settings.map(Some))
}

pub(super) fn volumes_section(
    VolumesConfig { orphaned_after, grace, action, keep_snapshots }: &VolumesConfig,
) -> SettingsSection {
    let settings = [
        ("orphaned_after", duration_value(orphaned_after)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("keep_snapshots", duration_value(keep_snapshots)),
    ];
    section(&["volumes"], settings.map(Some))
}

pub(super) fn jobs_section(
    JobsConfig {
        checkpoint_keep,
        no_progress_attempts_max,
        image,
        shared_role,
        teams,
        ssh,
        idle_after,
        gpus_max,
        usd_per_hour_max,
        confirm_above_usd,
        instance_profiles: _,
    }: &JobsConfig,
) -> SettingsSection {
    let settings = [
        Some(("checkpoint_keep", to_value(checkpoint_keep))),
        Some(("no_progress_attempts_max", to_value(no_progress_attempts_max))),
        Some(("image", to_value(image))),
        Some(("shared_role", to_value(shared_role))),
        Some(("teams", to_value(teams))),
        Some(("ssh", to_value(ssh))),
        Some(("idle_after", to_value(idle_after))),
        gpus_max.as_ref().map(|gpus| ("gpus_max", to_value(gpus))),
        usd_per_hour_max.as_ref().map(|usd| ("usd_per_hour_max", to_value(usd))),
        Some(("confirm_above_usd", to_value(confirm_above_usd))),
    ];
    section(&["jobs"], settings)
}

pub(super) fn account_section(account: &AccountConfig) -> SettingsSection {
    let AccountConfig {
        monthly_budget_usd,
        notify_at_percent,
        over_budget,
        over_budget_grace,
        time_zone,
        cost_explorer,
    } = account;
    let settings = [
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", to_value(usd))),
        Some(("notify_at_percent", to_value(notify_at_percent))),
        Some(("over_budget", to_value(over_budget))),
        Some(("over_budget_grace", duration_value(over_budget_grace))),
        Some(("time_zone", to_value(time_zone))),
        Some(("cost_explorer", to_value(cost_explorer))),
    ];
    section(&["account"], settings)
}

pub(super) fn report_section(ReportConfig { sender, email }: &ReportConfig) -> SettingsSection {
    let address = |key, address: &Option<String>| address.as_ref().map(|address| (key, to_value(address)));
    section(&["report"], [address("sender", sender), address("email", email)])
}

pub(super) fn prices_section(PricesConfig { discount_percent }: &PricesConfig) -> SettingsSection {
    let of_family = |(family, percent)| Setting {
        key: String::clone(family),
        value: to_value(percent),
        source: SettingSource::Default,
    };
    SettingsSection {
        settings: discount_percent.iter().map(of_family).collect(),
        ..section(&["prices", "discount_percent"], [])
    }
}

pub(super) fn team_section(name: &str, team: &TeamConfig) -> SettingsSection {
    let TeamConfig {
        mode,
        email,
        local_disk,
        monthly_budget_usd,
        notify_at_percent,
        over_budget,
        gpus_max,
        usd_per_hour_max,
        instance_profiles,
        subnets,
        security_groups,
        images,
        buckets,
        idle_after,
    } = team;
    let list = |key, items: &Vec<String>| (!items.is_empty()).then(|| (key, to_value(items)));
    let settings = [
        mode.as_ref().map(|mode| ("mode", to_value(mode))),
        local_disk.as_ref().map(|policy| ("local_disk", to_value(policy))),
        email.as_ref().map(|email| ("email", to_value(email))),
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", to_value(usd))),
        notify_at_percent.as_ref().map(|shares| ("notify_at_percent", to_value(shares))),
        over_budget.as_ref().map(|action| ("over_budget", to_value(action))),
        gpus_max.as_ref().map(|gpus| ("gpus_max", to_value(gpus))),
        usd_per_hour_max.as_ref().map(|usd| ("usd_per_hour_max", to_value(usd))),
        list("instance_profiles", instance_profiles),
        list("subnets", subnets),
        list("security_groups", security_groups),
        list("images", images),
        (!buckets.is_empty()).then(|| ("buckets", to_value(buckets))),
        idle_after.as_ref().map(|after| ("idle_after", to_value(after))),
    ];
    section(&["teams", name], settings)
}

pub(super) fn sagemaker_section(sagemaker: &SageMakerConfig) -> SettingsSection {
    let SageMakerConfig {
        mode,
        app_window,
        app_action,
        endpoint_window,
        endpoint_action,
        component_action,
        job_window,
        grace,
    } = sagemaker;
    let settings = [
        ("mode", to_value(mode)),
        ("app_window", duration_value(app_window)),
        ("app_action", to_value(app_action)),
        ("endpoint_window", duration_value(endpoint_window)),
        ("endpoint_action", to_value(endpoint_action)),
        ("component_action", to_value(component_action)),
        ("job_window", duration_value(job_window)),
        ("grace", duration_value(grace)),
    ];
    section(&["sagemaker"], settings.map(Some))
}
