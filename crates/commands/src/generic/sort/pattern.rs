//! Patterns of BY and GET: names of keys, or of fields of hashes, with a place for the element.

/// GET of the element itself.
pub(super) const ELEMENT: &[u8] = b"#";

/// A pattern with a star in it.
pub(super) struct Pattern {
    prefix: Vec<u8>,
    postfix: Vec<u8>,
    /// The field, where the key is that of a hash.
    pub(super) field: Option<Vec<u8>>,
}

impl Pattern {
    /// None: there is no star. As in Redis, a zero byte hides stars and arrows behind it.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let visible = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let star = visible.iter().position(|byte| *byte == b'*')?;
        let behind = &visible[star + 1..];
        let arrow = behind.windows(2).position(|two| two == b"->").map(|at| star + 1 + at);
        // A field's name has at least a byte, and that is not zero.
        let arrow = arrow.filter(|at| at + 2 < visible.len());
        Some(Self {
            prefix: text[..star].to_vec(),
            postfix: text[star + 1..arrow.unwrap_or(text.len())].to_vec(),
            field: arrow.map(|at| text[at + 2..].to_vec()),
        })
    }

    /// Writes the key for an element.
    pub(super) fn key(&self, element: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(element);
        out.extend_from_slice(&self.postfix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pattern: &str) -> Option<(String, Option<String>)> {
        let pattern = Pattern::parse(pattern.as_bytes())?;
        let mut out = Vec::new();
        pattern.key(b"E", &mut out);
        Some((String::from_utf8(out).unwrap(), pattern.field.map(|field| String::from_utf8(field).unwrap())))
    }

    #[test]
    fn the_element_takes_the_place_of_the_first_star() {
        let plain = |text: &str| Some((text.to_owned(), None));
        assert_eq!([key("w_*"), key("*"), key("a*b*")], [plain("w_E"), plain("E"), plain("aEb*")]);
        assert_eq!([key("nosort"), key(""), key("h->f"), key("a\0*")], [None, None, None, None]);
        let field = |key: &str, field: &str| Some((key.to_owned(), Some(field.to_owned())));
        assert_eq!([key("h:*->f"), key("*x->f*->g"), key("*->->")], [field("h:E", "f"), field("Ex", "f*->g"), field("E", "->")]);
        assert_eq!([key("a->*"), key("*->")], [plain("a->E"), plain("E->")]);
    }
}
