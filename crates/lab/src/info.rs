//! All of INFO at one instant, and what changed between two.

use std::collections::HashMap;

use almandine_bench::control::{Control, Reply};

/// The fields of INFO by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// Asks for every section.
    pub fn read(control: &mut Control) -> Result<Self, String> {
        match control.ask(&["INFO", "everything"])? {
            Reply::Bulk(Some(text)) => Ok(Self::parse(&String::from_utf8_lossy(&text))),
            other => Err(format!("INFO was answered with {other:?}")),
        }
    }

    fn parse(text: &str) -> Self {
        let fields = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    /// How much a counter has grown since `before`; `None` when the server does not have it.
    pub fn since(&self, before: &Self, name: &str) -> Option<u64> {
        Some(self.number(name)?.saturating_sub(before.number(name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_differences() {
        let before = Info::parse("# Storage\r\nstorage_reads:100\r\nos:Linux 6\r\n");
        let after = Info::parse("# Storage\r\nstorage_reads:142\r\nos:Linux 6\r\n");
        assert_eq!((after.number("storage_reads"), after.number("os")), (Some(142), None));
        assert_eq!(after.since(&before, "storage_reads"), Some(42));
        assert_eq!(after.since(&before, "nothing"), None);
    }
}
