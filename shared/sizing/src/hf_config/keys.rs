//! The keys of a `config.json`. Nothing in it is trusted.

use model::fault::{InvalidValue, shortened};
use serde_json::{Map, Value};

/// The part for text, and the whole file where the part says nothing.
pub(super) struct ConfigKeys<'a> {
    part: &'a Map<String, Value>,
    whole: &'a Map<String, Value>,
}

impl<'a> ConfigKeys<'a> {
    pub(super) const fn new(part: &'a Map<String, Value>, whole: &'a Map<String, Value>) -> Self {
        Self { part, whole }
    }

    /// `null` says nothing.
    fn value(&self, key: &str) -> Option<&'a Value> {
        let said = |map: &'a Map<String, Value>| map.get(key).filter(|value| !value.is_null());
        said(self.part).or_else(|| said(self.whole))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Under which of these names it is there; the first if under none.
    pub(super) fn name<'n>(&self, names: &[&'n str]) -> &'n str {
        names.iter().find(|name| self.has(name)).or(names.first()).copied().unwrap_or_default()
    }

    pub(super) fn model_type(&self) -> &'a str {
        self.value("model_type").and_then(Value::as_str).unwrap_or("")
    }

    /// The first of these keys that is there.
    pub(super) fn number(&self, names: &[&str]) -> Result<Option<u32>, InvalidValue> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.value(name)?))) else {
            return Ok(None);
        };
        value.as_u64().and_then(|number| u32::try_from(number).ok()).map(Some).ok_or_else(|| {
            let value = shortened(&value.to_string(), 40);
            InvalidValue::new(format!("{name}: {value} is not a number that a model can have; write a whole number"))
        })
    }

    pub(super) fn boolean(&self, name: &str, default: bool) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(default)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.boolean(name, false)
    }

    /// Returns the length of a list; 0 for any other value.
    pub(super) fn length(&self, name: &str) -> u32 {
        let list = self.value(name).and_then(Value::as_array);
        list.and_then(|list| u32::try_from(list.len()).ok()).unwrap_or(0)
    }

    /// Counts the entries of a list that equal `item`.
    pub(super) fn count_in_list(&self, name: &str, item: &str) -> Option<u32> {
        let list = self.value(name)?.as_array()?;
        u32::try_from(list.iter().filter(|one| one.as_str() == Some(item)).count()).ok()
    }
}
