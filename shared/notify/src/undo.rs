//! The command that undoes a deletion or a stop, ready for a shell.

use std::fmt::Write as _;

use billing::restoration::Restoration;
use model::sagemaker::{EndpointOrigin, SageMakerKind, SageMakerResource};
use model::volume::{Snapshot, VolumeOrigin};
use plan::{Action, Evidence, SageMakerAction, Step, VolumeAction};
use serde_json::json;

/// The sentence for a step; empty if nothing can be undone.
pub(super) fn undo_sentence(step: &Step) -> String {
    match &step.action {
        Action::Volume(volume, VolumeAction::Delete { safety: Some(snapshot), kept_until, .. }) => {
            let command = create_volume_command(&Restoration::of_volume(volume, snapshot));
            format!(" Undo until {kept_until}: {command}")
        }
        Action::Volume(_, VolumeAction::Delete { expiring, kept_until, .. }) if !expiring.is_empty() => {
            format!(" Its earlier snapshots are kept until {kept_until}.")
        }
        Action::SageMaker(resource, SageMakerAction::Stop { .. } | SageMakerAction::Delete { .. }) => {
            undo_sagemaker_sentence(resource)
        }
        _ => String::new(),
    }
}

fn undo_sagemaker_sentence(resource: &SageMakerResource) -> String {
    let (region, name) = (&resource.region, resource.name());
    match (&resource.kind, resource.endpoint_origin()) {
        (SageMakerKind::NotebookInstance, _) => format!(
            " Its volume stays. Undo: aws sagemaker start-notebook-instance --region {region} --notebook-instance-name {name}"
        ),
        (SageMakerKind::App(_), _) => " Its space and volume stay: open it again in Studio.".to_owned(),
        (SageMakerKind::Endpoint { .. }, Some(origin)) => {
            let command = create_endpoint_command(resource, &origin);
            format!(" Its configuration and model stay. Undo: {command}")
        }
        (SageMakerKind::InferenceComponent(component), _) => format!(
            " Its endpoint and model stay. Undo: aws sagemaker update-inference-component-runtime-config --region {region} \
             --inference-component-name {name} --desired-runtime-config CopyCount={}",
            component.copies
        ),
        (SageMakerKind::Endpoint { .. } | SageMakerKind::Job(_), _) => String::new(),
    }
}

/// AWS CLI command reference, "sagemaker create-endpoint".
fn create_endpoint_command(
    resource: &SageMakerResource,
    EndpointOrigin { endpoint, config, tags }: &EndpointOrigin,
) -> String {
    let mut command = format!(
        "aws sagemaker create-endpoint --region {} --endpoint-name {endpoint} --endpoint-config-name {config}",
        resource.region
    );
    let tags: Vec<_> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    if !tags.is_empty() {
        let _ = write!(command, " --tags {}", shell_quoted(&escape_to_ascii(&json!(tags).to_string())));
    }
    command
}

/// The sentence for a snapshot whose volume is gone; empty if the volume cannot be restored from it.
pub(super) fn undo_gone_sentence(snapshot: &Snapshot, evidence: &Evidence) -> String {
    match (Restoration::of_snapshot(snapshot), evidence) {
        (Some(restoration), Evidence::SnapshotExpired { expires_at, .. }) => {
            format!(" Undo until {expires_at}: {}", create_volume_command(&restoration))
        }
        _ => String::new(),
    }
}

/// AWS CLI command reference, "ec2 create-volume".
fn create_volume_command(Restoration { region, snapshot, origin, tags, .. }: &Restoration) -> String {
    let VolumeOrigin { zone, volume_type, size_gib, .. } = origin;
    let mut command = format!(
        "aws ec2 create-volume --region {region} --availability-zone {zone} --snapshot-id {snapshot} \
         --volume-type {volume_type} --size {size_gib}"
    );
    if let Some(iops) = origin.provisioned_iops() {
        let _ = write!(command, " --iops {iops}");
    }
    if let Some(throughput) = origin.provisioned_throughput_mibps() {
        let _ = write!(command, " --throughput {throughput}");
    }
    let tags: Vec<_> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    if !tags.is_empty() {
        let specification = json!([{ "ResourceType": "volume", "Tags": tags }]).to_string();
        let _ = write!(command, " --tag-specifications {}", shell_quoted(&escape_to_ascii(&specification)));
    }
    command
}

/// One word for a POSIX shell (POSIX, "Shell Command Language", 2.2.2).
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The same JSON in ASCII, without control characters: mail programs and messages change others.
fn escape_to_ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() && !letter.is_ascii_control() {
            escaped.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use model::fixture::{SageMakerBuilder, app, endpoint, inference_component, notebook};
    use model::mode::Mode;
    use plan::Target;

    use super::*;

    fn undo(given: SageMakerBuilder, action: SageMakerAction) -> String {
        let resource = given.tag("Purpose", "it's a demo").tag("curfew:marked", "x").build();
        let target = Target {
            region: resource.region.clone(),
            resource: resource.id.clone(),
            team: None,
            owner: None,
            name: None,
            what: String::new(),
        };
        let evidence =
            Evidence::Expired { expires_at: model::fixture::time(model::fixture::NOW), first_seen_past: false };
        undo_sentence(&Step::bare(target, Action::SageMaker(resource, action), evidence, Mode::Enforce))
    }

    #[test]
    fn what_ended_in_sagemaker_is_made_again_by_one_command() {
        assert_eq!(
            undo(endpoint(), SageMakerAction::Delete { mark: None }),
            " Its configuration and model stay. Undo: aws sagemaker create-endpoint --region us-east-1 --endpoint-name llm \
             --endpoint-config-name llm-config --tags '[{\"Key\":\"Owner\",\"Value\":\"ada\"},{\"Key\":\"Purpose\",\
             \"Value\":\"it'\\''s a demo\"},{\"Key\":\"Team\",\"Value\":\"vision\"}]'"
        );
        let stopped = String::new();
        assert_eq!(
            undo(notebook(), SageMakerAction::Stop { mark: None, stopped }),
            " Its volume stays. Undo: aws sagemaker start-notebook-instance --region us-east-1 --notebook-instance-name research"
        );
        assert_eq!(
            undo(inference_component(), SageMakerAction::Stop { mark: None, stopped: String::new() }),
            " Its endpoint and model stay. Undo: aws sagemaker update-inference-component-runtime-config --region us-east-1 \
             --inference-component-name llama --desired-runtime-config CopyCount=2"
        );
        assert_eq!(
            undo(app(), SageMakerAction::Delete { mark: None }),
            " Its space and volume stay: open it again in Studio."
        );
    }
}
