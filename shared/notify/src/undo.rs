//! The command that undoes a deletion or a stop, ready for a shell.

use std::fmt::Write as _;

use billing::restoration::Restoration;
use model::foreign_text::{ends_with_www, shell_word};
use model::sagemaker::{EndpointOrigin, SageMakerKind, SageMakerResource};
use model::volume::VolumeOrigin;
use plan::{Action, Facts, InstanceAction, SageMakerAction, SnapshotAction, Step, Target, VolumeAction};
use serde_json::json;

/// The command with the label before it; `None` if nothing can be undone.
pub(super) fn undo_command(step: &Step) -> Option<(String, String)> {
    let undo = |command| Some(("Undo".to_owned(), command));
    let undo_until = |until, command| Some((format!("Undo until {until}"), command));
    match (&step.action, &step.evidence.facts) {
        (Action::Instance(_, InstanceAction::Stop { .. }), _) => {
            let Target { region, resource, .. } = &step.target;
            undo(format!("aws ec2 start-instances --region {region} --instance-ids {resource}"))
        }
        (Action::Volume(volume, VolumeAction::Delete { safety: Some(snapshot), kept_until, .. }), _) => {
            undo_until(*kept_until, create_volume_command(&Restoration::of_volume(volume, snapshot)))
        }
        (Action::Snapshot(snapshot, SnapshotAction::AnnounceExpiry(_)), Facts::SnapshotExpired { expires_at, .. }) => {
            undo_until(*expires_at, create_volume_command(&Restoration::of_snapshot(snapshot)?))
        }
        (Action::SageMaker(resource, SageMakerAction::Stop { .. } | SageMakerAction::Delete { .. }), _) => {
            undo(undo_sagemaker_command(resource)?)
        }
        _ => None,
    }
}

fn undo_sagemaker_command(resource: &SageMakerResource) -> Option<String> {
    let (region, name) = (&resource.region, resource.name());
    match &resource.kind {
        SageMakerKind::NotebookInstance => {
            Some(format!("aws sagemaker start-notebook-instance --region {region} --notebook-instance-name {name}"))
        }
        SageMakerKind::Endpoint { .. } => Some(create_endpoint_command(resource, &resource.endpoint_origin()?)),
        SageMakerKind::InferenceComponent(component) => Some(format!(
            "aws sagemaker update-inference-component-runtime-config --region {region} --inference-component-name {name} \
             --desired-runtime-config CopyCount={}",
            component.copies
        )),
        SageMakerKind::App(_) | SageMakerKind::Job(_) => None,
    }
}

/// The sentence about what an action leaves of a resource; empty if it leaves nothing.
pub(super) fn describe_what_stays(action: &Action) -> &'static str {
    let Action::SageMaker(resource, SageMakerAction::Stop { .. } | SageMakerAction::Delete { .. }) = action else {
        return "";
    };
    match &resource.kind {
        SageMakerKind::NotebookInstance => " Its volume stays.",
        SageMakerKind::App(_) => " Its space and volume stay: open it again in Studio.",
        SageMakerKind::Endpoint { .. } if resource.endpoint_origin().is_some() => " Its configuration and model stay.",
        SageMakerKind::InferenceComponent(_) => " Its endpoint and model stay.",
        SageMakerKind::Endpoint { .. } | SageMakerKind::Job(_) => "",
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
        let _ = write!(command, " --tags {}", shell_word(&escape_to_ascii(&json!(tags).to_string())));
    }
    command
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
        let _ = write!(command, " --tag-specifications {}", shell_word(&escape_to_ascii(&specification)));
    }
    command
}

/// Escapes JSON to ASCII without control characters, because mail programs and messages change others, and without anything that they turn
/// into a link. JSON has none of these outside of its texts.
fn escape_to_ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        let begins_link = letter == '/' || letter == '.' && ends_with_www(&escaped);
        if letter.is_ascii() && !letter.is_ascii_control() && !begins_link {
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

    use super::*;

    fn undo(builder: SageMakerBuilder, action: SageMakerAction) -> String {
        let resource = builder.tag("Purpose", "it's http://www.demo").tag("curfew:marked", "x").build();
        let target = Target {
            region: resource.region.clone(),
            resource: resource.id.clone(),
            team: None,
            owner: None,
            name: None,
            what: String::new(),
        };
        let evidence = plan::Evidence::new(model::rule::Rule::Expired, Facts::named([]), "it has passed");
        let action = Action::SageMaker(resource, action);
        let stays = describe_what_stays(&action);
        let command = undo_command(&Step::bare(target, action, evidence, Mode::Enforce));
        command.map_or(stays.to_owned(), |(label, command)| format!("{stays}\n{label}: {command}"))
    }

    #[test]
    fn what_ended_in_sagemaker_is_made_again_by_one_command() {
        assert_eq!(
            undo(endpoint(), SageMakerAction::Delete { mark: None }),
            " Its configuration and model stay.\nUndo: aws sagemaker create-endpoint --region us-east-1 --endpoint-name llm \
             --endpoint-config-name llm-config --tags '[{\"Key\":\"Owner\",\"Value\":\"ada\"},{\"Key\":\"Purpose\",\
             \"Value\":\"it'\\''s http:\\u002f\\u002fwww\\u002edemo\"},{\"Key\":\"Team\",\"Value\":\"vision\"}]'"
        );
        let stopped = String::new();
        assert_eq!(
            undo(notebook(), SageMakerAction::Stop { mark: None, stopped }),
            " Its volume stays.\nUndo: aws sagemaker start-notebook-instance --region us-east-1 --notebook-instance-name research"
        );
        assert_eq!(
            undo(inference_component(), SageMakerAction::Stop { mark: None, stopped: String::new() }),
            " Its endpoint and model stay.\nUndo: aws sagemaker update-inference-component-runtime-config --region us-east-1 \
             --inference-component-name llama --desired-runtime-config CopyCount=2"
        );
        assert_eq!(
            undo(app(), SageMakerAction::Delete { mark: None }),
            " Its space and volume stay: open it again in Studio."
        );
    }
}
