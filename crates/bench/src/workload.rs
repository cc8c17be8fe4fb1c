//! A workload: which operations in which proportion, over which keys and values.

use std::sync::Arc;

use crate::generate::key::{Chooser, Distribution, KeyFormat};
use crate::generate::table::{self, DataType};
use crate::generate::template::{Hole, Scope, Template};
use crate::generate::value::{Lengths, Text};
use crate::reply::{Kinds, Rule};

/// Sizes and shapes that all operations of a workload share.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Number of keys per data type.
    pub keys: u64,
    /// Length of every key in bytes.
    pub key_len: usize,
    /// How every key begins, after the letter of its type.
    pub key_prefix: String,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// How long values are.
    pub lengths: Lengths,
    /// Elements of a collection.
    pub members: u64,
    /// Length of a member's name.
    pub member_len: usize,
    /// Repetitions of a group in braces.
    pub group: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            key_len: 16,
            key_prefix: "key:".into(),
            distribution: Distribution::Uniform,
            lengths: Lengths::fixed(8),
            members: 100,
            member_len: 8,
            group: 10,
        }
    }
}

/// One operation of a workload.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Name for reports.
    pub name: String,
    /// Its share of the mix.
    pub weight: u32,
    /// What is sent.
    pub template: Template,
    /// Data type of its keys.
    pub data: DataType,
    kinds: Kinds,
    whole_value: bool,
}

impl Operation {
    /// A workload of the table.
    pub fn named(name: &str, weight: u32) -> Result<Self, String> {
        let entry = table::find(name).ok_or_else(|| {
            format!("no workload is named {name:?}; `almandine-bench list` shows them, --command takes any command")
        })?;
        Ok(Self {
            name: entry.name.into(),
            weight,
            template: Template::parse(entry.template)?,
            data: entry.data,
            kinds: entry.replies,
            whole_value: entry.whole_value,
        })
    }

    /// A command given as a template. Its keys are those of the strings.
    pub fn custom(text: &str) -> Result<Self, String> {
        let template = Template::parse(text)?;
        let data = if template.has(Hole::Key) { DataType::String } else { DataType::None };
        Ok(Self { name: text.into(), weight: 1, template, data, kinds: Kinds::ANY, whole_value: false })
    }

    /// Parses `get=80,set=20` or `get`.
    pub fn mix(text: &str) -> Result<Vec<Self>, String> {
        text.split(',')
            .map(|part| {
                let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
                let weight = weight.trim().parse().map_err(|_| format!("{part:?}: a mix is written get=80,set=20"))?;
                Self::named(name.trim(), weight)
            })
            .collect()
    }
}

/// Operations over keys.
#[derive(Debug, Clone)]
pub struct Workload {
    /// At least one operation, with a total weight of at least one.
    pub operations: Vec<Operation>,
    /// Shared sizes.
    pub shape: Shape,
    /// Interval in which keys of `__due__` fall due: start and length in Unix milliseconds.
    pub due: (u64, u64),
    text: Arc<Text>,
    formats: Vec<(DataType, KeyFormat)>,
}

impl Workload {
    /// Checks that keys fit and prepares the value text.
    pub fn new(operations: Vec<Operation>, shape: Shape) -> Result<Self, String> {
        if operations.is_empty() || operations.len() > 255 || operations.iter().all(|o| o.weight == 0) {
            return Err("a mix needs 1 to 255 operations, at least one with a weight above 0".into());
        }
        let mut types: Vec<DataType> = operations.iter().map(|o| o.data).collect();
        types.sort_unstable();
        types.dedup();
        let formats = types
            .into_iter()
            .map(|data| {
                let prefix = format!("{}{}", data.prefix(), shape.key_prefix);
                Ok((data, KeyFormat::new(&prefix, shape.key_len, shape.keys)?))
            })
            .collect::<Result<_, String>>()?;
        let text = Arc::new(Text::new(shape.lengths.max()));
        Ok(Self { operations, shape, due: (0, 0), text, formats })
    }

    /// Name for reports: `get`, or `get=80,set=20`.
    pub fn name(&self) -> String {
        match self.operations.as_slice() {
            [only] => only.name.clone(),
            many => many.iter().map(|o| format!("{}={}", o.name, o.weight)).collect::<Vec<_>>().join(","),
        }
    }

    /// The data types whose keys are used.
    pub fn data_types(&self) -> impl Iterator<Item = DataType> {
        self.formats.iter().map(|f| f.0)
    }

    /// Fillers of holes for thread `thread` of `threads`, for keys of `data`.
    pub fn scope(&self, data: DataType, thread: usize, threads: usize) -> Scope<'_> {
        let format = self.formats.iter().find(|f| f.0 == data).unwrap_or(&self.formats[0]);
        Scope {
            format: &format.1,
            chooser: Chooser::new(self.shape.distribution, self.shape.keys, thread, threads),
            lengths: &self.shape.lengths,
            text: &self.text,
            keys: self.shape.keys,
            members: self.shape.members.max(1),
            member_len: self.shape.member_len,
            group: self.shape.group,
            due: self.due,
        }
    }

    /// The number of digits and the chooser to rename keys with. All types share key numbers, not prefixes, so the digits may
    /// differ by type: the least is what may be rewritten.
    pub fn fresh_keys(&self, thread: usize, threads: usize) -> (Chooser, usize) {
        let digits = self.formats.iter().map(|f| f.1.digits()).min().unwrap_or(0);
        (Chooser::new(self.shape.distribution, self.shape.keys, thread, threads), digits)
    }

    /// What correct replies look like, by operation number.
    pub fn rules(&self) -> Arc<[Rule]> {
        let range = (self.shape.lengths.min(), self.shape.lengths.max());
        let rule = |o: &Operation| Rule { name: o.name.clone(), kinds: o.kinds, value: o.whole_value.then_some(range) };
        self.operations.iter().map(rule).collect()
    }

    /// The text values are made of.
    pub fn text(&self) -> Arc<Text> {
        self.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_parsed() {
        let mix = Operation::mix("get=80, set=20").unwrap();
        assert_eq!((mix[0].weight, mix[1].weight), (80, 20));
        assert!(Operation::mix("get=x").is_err());
        assert!(Operation::mix("nosuch").unwrap_err().contains("list"));
        assert!(Workload::new(Operation::mix("get=0").unwrap(), Shape::default()).is_err());
    }

    #[test]
    fn types_have_their_own_keys() {
        let workload = Workload::new(Operation::mix("get,hget").unwrap(), Shape::default()).unwrap();
        assert_eq!(workload.data_types().count(), 2);
        let mut out = Vec::new();
        workload.scope(DataType::Hash, 0, 1).format.write(1, &mut out);
        assert_eq!(out, b"hkey:00000000001");
    }
}
