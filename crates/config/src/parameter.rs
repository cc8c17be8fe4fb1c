//! One parameter, and the macro that makes a section of them: the table entry gives the file, the flags, CONFIG GET, SET and
//! REWRITE,
//! the typed settings and the manual.

use std::collections::HashMap;
use std::sync::LazyLock;

use almandine_base::events::Classes;

use crate::choices::Choice;
use crate::kind::{Kind, Value};
use crate::settings::SECTIONS;
use crate::special::{BufferLimits, SavePoint, Share};

/// What is particular about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Fixed once the server runs.
    pub immutable: bool,
    /// Must not appear in logs, MONITOR or the slow log.
    pub sensitive: bool,
    /// Changed at run time only as `enable-protected-configs` allows.
    pub protected: bool,
    /// For developers, or fixed, without effect and unknown to Redis 7: CONFIG GET answers it by its exact name only.
    pub hidden: bool,
    /// Known neither to Redis nor to Valkey.
    pub own: bool,
    /// Written by CONFIG REWRITE even when it has its default.
    pub always_written: bool,
}

impl Flags {
    /// Nothing particular.
    pub const NONE: Self =
        Self { immutable: false, sensitive: false, protected: false, hidden: false, own: false, always_written: false };
}

/// One parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its other name; empty for none.
    pub alias: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its default, as the command line would state it.
    pub default: &'static str,
    /// What is particular about it.
    pub flags: Flags,
    /// Its chapter in the manual.
    pub section: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether it has an effect. Others are accepted, remembered and reported, so that scripts and tools of Redis run unchanged.
    pub effective: bool,
}

impl Parameter {
    /// Whether it names files whose content is part of the configuration: setting it to what it is has them read again.
    #[must_use]
    pub fn names_content(&self) -> bool {
        ["tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-ca-cert-dir", "log-key-file"].contains(&self.name)
    }

    /// The value that it has unless told otherwise.
    ///
    /// # Panics
    /// Never: a test parses every default.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self.kind.parse(&self.kind.words(self.default), &Value::Bool(false)) {
            Ok(value) => value,
            Err(problem) => unreachable!("the default of {}: {problem}", self.name),
        }
    }
}

/// A type that a setting can have.
pub trait Setting {
    /// The setting of a parameter's value.
    fn of(value: &Value) -> Self;
}

macro_rules! integer_settings {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn of(value: &Value) -> Self {
                let converted = match value {
                    Value::Integer(value) => Self::try_from(*value).ok(),
                    Value::Memory(value) => Self::try_from(*value).ok(),
                    Value::Choices(bits) => Self::try_from(*bits).ok(),
                    _ => None,
                };
                converted.unwrap_or_else(|| unreachable!("a setting's type holds its parameter's range"))
            }
        }
    )*};
}

integer_settings! { u16 u32 u64 i64 usize }

macro_rules! settings_of {
    ($($type:ty: $pattern:pat => $result:expr;)*) => {$(
        impl Setting for $type {
            fn of(value: &Value) -> Self {
                match value {
                    $pattern => $result,
                    _ => unreachable!("a setting's type fits its parameter's kind"),
                }
            }
        }
    )*};
}

impl Setting for Share {
    fn of(value: &Value) -> Self {
        match value {
            Value::Memory(bytes) => Self::Bytes(*bytes),
            Value::Percent(percent) => Self::Percent(*percent),
            _ => unreachable!("a setting's type fits its parameter's kind"),
        }
    }
}

settings_of! {
    bool: Value::Bool(value) => *value;
    String: Value::Text(text) => text.clone();
    Vec<String>: Value::Words(words) => words.clone();
    Vec<f64>: Value::Percentiles(list) => list.clone();
    Vec<SavePoint>: Value::Save(points) => points.clone();
    BufferLimits: Value::BufferLimits(limits) => *limits;
    [i32; 3]: Value::OomScores(scores) => *scores;
    Classes: Value::Events(classes) => *classes;
}

impl<C: Choice> Setting for C {
    fn of(value: &Value) -> Self {
        match value {
            Value::Choice(index) => C::at(*index),
            _ => unreachable!("a setting's type fits its parameter's kind"),
        }
    }
}

/// Makes a section: its parameters, and the struct of those that have an effect.
///
/// `"name" / "alias": KIND = "default" [flags] "summary" => field: type;` — without a field the parameter has no effect.
macro_rules! section {
    ($(#[$doc:meta])* $section:ident $title:literal
     $($name:literal $(/ $alias:literal)?: $kind:tt = $default:literal [$($flag:ident)*]
       $summary:literal $(=> $field:ident: $type:ty)?;)*) => {
        /// The parameters of the section.
        pub static PARAMETERS: &[$crate::parameter::Parameter] = &[$($crate::parameter::Parameter {
            name: $name,
            alias: concat!($($alias)?),
            kind: $kind,
            default: $default,
            flags: $crate::parameter::Flags { $($flag: true,)* ..$crate::parameter::Flags::NONE },
            section: $title,
            summary: $summary,
            effective: concat!($(stringify!($field))?).len() > 0,
        },)*];

        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section { $($(#[doc = $summary] #[doc = concat!("(`", $name, "`)")] pub $field: $type,)?)* }

        impl $section {
            /// Reads the section off the front of `values`.
            #[allow(unused_variables, reason = "most sections have parameters without effect, whose values are skipped")]
            pub(crate) fn take<'v>(values: &mut impl Iterator<Item = &'v $crate::kind::Value>) -> Self {
                $(
                    let value = values.next().unwrap_or_else(|| unreachable!("a value for each parameter"));
                    $(let $field: $type = $crate::parameter::Setting::of(value);)?
                )*
                Self { $($($field,)?)* }
            }
        }
    };
}
pub(crate) use section;

/// Every parameter, in the order of the manual.
pub fn all() -> impl Iterator<Item = &'static Parameter> + Clone {
    SECTIONS.iter().flat_map(|section| section.iter())
}

/// Number of a parameter in the order of [`all`].
pub(crate) type Index = usize;

static BY_NAME: LazyLock<HashMap<&'static str, (Index, &'static Parameter)>> = LazyLock::new(|| {
    let names = all().enumerate().flat_map(|(index, p)| [(p.name, (index, p)), (p.alias, (index, p))]);
    names.filter(|(name, _)| !name.is_empty()).collect()
});

/// The parameter called `name`, in any case, by either of its names.
#[must_use]
pub fn lookup(name: &str) -> Option<(Index, &'static Parameter)> {
    BY_NAME.get(name.to_ascii_lowercase().as_str()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_and_every_name_is_unique() {
        let mut names = std::collections::HashSet::new();
        for parameter in all() {
            let _ = parameter.default_value();
            assert!(names.insert(parameter.name), "{}", parameter.name);
            assert!(parameter.alias.is_empty() || names.insert(parameter.alias), "{}", parameter.alias);
            assert!(parameter.summary.ends_with('.'), "{}", parameter.name);
        }
        assert!(names.len() > 270);
    }

    #[test]
    fn settings_hold_the_ranges_of_their_parameters() {
        let value = |kind: Kind, low: bool, parameter: &Parameter| match kind {
            Kind::Integer(min, max) => Value::Integer(if low { min } else { max }),
            Kind::Memory(min, max) => Value::Memory(if low { min } else { max }),
            _ => parameter.default_value(),
        };
        for low in [false, true] {
            let values: Vec<Value> = all().map(|p| value(p.kind, low, p)).collect();
            crate::settings::Settings::of(&values);
        }
    }
}
