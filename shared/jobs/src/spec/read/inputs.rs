//! `[[inputs]]`: the data of a job.

use model::fault::InvalidValue;

use super::{DIR, SpecValidator, checks};
use crate::input::overlaps;
use crate::spec::written::{RawInput, RawSpec};
use crate::{INPUTS_MAX, InputMode, InputSource, InputSpec};

impl SpecValidator<'_> {
    pub(super) fn inputs(
        &mut self,
        written: &RawSpec,
        directory: impl Fn(&str) -> Result<(), InvalidValue>,
    ) -> Vec<InputSpec> {
        let count = written.inputs.len();
        if count > INPUTS_MAX {
            self.refuse(&["inputs"], &format!("{count} of them; write {INPUTS_MAX} at most"));
        }
        let own = written.checkpoint.as_ref().map(|checkpoint| checkpoint.dir.as_deref().unwrap_or(DIR));
        let outputs = written.machine.outputs.iter().map(|path| ("an output", path.as_str()));
        let mut taken: Vec<(&str, &str)> = own.map(|dir| ("checkpoint.dir", dir)).into_iter().chain(outputs).collect();
        let mut inputs = Vec::new();
        for (index, raw) in written.inputs.iter().enumerate().take(INPUTS_MAX) {
            match read_input(raw, &directory, &taken) {
                Ok(input) => inputs.push(input),
                Err(problem) => self.refuse_item(&["inputs"], index, &problem.to_string()),
            }
            taken.extend(raw.to.as_deref().map(|to| ("another input", to)));
        }
        inputs
    }
}

fn read_input(
    raw: &RawInput,
    directory: impl Fn(&str) -> Result<(), InvalidValue>,
    taken: &[(&str, &str)],
) -> Result<InputSpec, InvalidValue> {
    let at = |key: &'static str| move |problem: InvalidValue| InvalidValue::new(format!("`{key}`: {problem}"));
    let (Some(from), Some(to)) = (&raw.from, &raw.to) else {
        return Err(InvalidValue::new("write `from`, such as \"s3://datasets/vision/\", and `to`, such as \"/data\""));
    };
    let from = InputSource::read(from).map_err(at("from"))?;
    checks::text(to).and_then(|()| directory(to)).map_err(at("to"))?;
    let mode = raw.mode.as_deref().map_or(Ok(InputMode::Fetch), InputMode::read).map_err(at("mode"))?;
    if let Some((what, path)) = taken.iter().find(|(_, path)| overlaps(to, path)) {
        let problem = format!("{to:?} overlaps {what}, {path:?}; name a directory of its own");
        return Err(at("to")(InvalidValue::new(problem)));
    }
    Ok(InputSpec { from, to: to.clone(), mode })
}
