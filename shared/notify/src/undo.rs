//! The command that undoes a deletion, ready for a shell.

use std::fmt::Write as _;

use billing::restoration::Restoration;
use model::volume::{Snapshot, VolumeOrigin};
use plan::{Action, Evidence, Step, VolumeAction};
use serde_json::json;

/// The sentence for a step; empty if nothing can be undone.
pub(super) fn undo_deletion_sentence(step: &Step) -> String {
    match &step.action {
        Action::Volume(volume, VolumeAction::Delete { safety: Some(safety), .. }) => {
            let command = create_volume_command(&Restoration::of_volume(volume, &safety.snapshot));
            format!(" Undo until {}: {command}", safety.kept_until)
        }
        _ => String::new(),
    }
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
