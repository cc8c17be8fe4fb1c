//! Lists, in the forms that servers of the family have written.
//!
//! ```text
//!  1  count, then the elements
//! 10  a string that is a ziplist: Redis 2.4 to 3.0
//! 14  number of nodes, then a string that is a ziplist for each: Redis 3.2 to 6.2
//! 18  number of nodes, then for each a number and a string: 1, which is an element; 2, which is a listpack: Redis 7.0 and younger
//! ```
//!
//! Nodes without elements are passed over, as Redis does.

use std::borrow::Cow;
use std::ops::Deref;

use super::hash::Malformed;
use crate::container::listpack::{self, Listpack, Writer};
use crate::container::ziplist::{self, Ziplist};
use crate::string::{read_length, read_text, skip_text, write_bytes, write_length};
use crate::{Text, types};
use almandine_datatypes::list::ListLimits;
use almandine_datatypes::list::packed::EMPTY_LISTPACK_BYTES;
use almandine_datatypes::packed::listpack::{Encoded, trailer_len};

/// The number of a node that is an element.
const PLAIN: usize = 1;
/// The number of a node that is a listpack.
const PACKED: usize = 2;

/// A list in a payload. Its containers are checked and its elements counted; what is compressed otherwise is checked as
/// [`List::elements`] comes to it.
#[derive(Clone, Debug)]
pub struct List<'i> {
    body: Body<'i>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Body<'i> {
    Objects(&'i [u8]),
    Nodes(Vec<Node<'i>>),
}

#[derive(Clone, Debug)]
enum Node<'i> {
    Element(Cow<'i, [u8]>),
    Ziplist(Cow<'i, [u8]>),
    Listpack(Cow<'i, [u8]>),
}

impl<'i> List<'i> {
    /// Whether a type byte begins a list.
    #[must_use]
    pub fn is_type(value_type: u8) -> bool {
        matches!(value_type, types::LIST | types::LIST_ZIPLIST | types::LIST_QUICKLIST | types::LIST_QUICKLIST_2)
    }

    /// Reads the list behind a type byte and moves `input` behind it.
    ///
    /// # Errors
    /// When it is not one of this type, is cut off or malformed, or has no element.
    pub fn read(value_type: u8, input: &mut &'i [u8]) -> Result<Self, Malformed> {
        read(value_type, input).filter(|list| list.len > 0).ok_or(Malformed)
    }

    /// The number of elements, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The elements in order. Ends after the first error.
    #[must_use]
    pub fn elements(&self) -> ListElements<'_> {
        match &self.body {
            Body::Objects(bytes) => ListElements { nodes: [].iter(), unread: Unread::Objects(bytes, self.len) },
            Body::Nodes(nodes) => ListElements { nodes: nodes.iter(), unread: Unread::Nothing },
        }
    }
}

/// Whether the list behind a type byte is a whole one that has no element; moves `input` behind it.
pub(super) fn is_empty(value_type: u8, input: &mut &[u8]) -> Option<bool> {
    read(value_type, input).map(|list| list.len == 0)
}

fn read<'i>(value_type: u8, input: &mut &'i [u8]) -> Option<List<'i>> {
    if value_type == types::LIST {
        let len = read_length(input)?;
        let bytes = *input;
        (0..len).try_for_each(|_| skip_text(input))?;
        return Some(List { body: Body::Objects(bytes), len });
    }
    let count = if value_type == types::LIST_ZIPLIST { 1 } else { read_length(input)? };
    let (mut nodes, mut len) = (Vec::new(), 0usize);
    for _ in 0..count {
        let container = if value_type == types::LIST_QUICKLIST_2 { read_length(input)? } else { PACKED };
        let bytes = read_text(input)?.into_bytes();
        let (node, elements) = match (container, value_type) {
            // Only what does not fit into a listpack is an element by itself.
            (PLAIN, _) if bytes.is_empty() => return None,
            (PLAIN, _) => (Node::Element(bytes), 1),
            (PACKED, types::LIST_QUICKLIST_2) => {
                let elements = Listpack::parse(&bytes)?.len();
                (Node::Listpack(bytes), elements)
            }
            (PACKED, types::LIST_ZIPLIST | types::LIST_QUICKLIST) => {
                let elements = Ziplist::parse(&bytes)?.len();
                (Node::Ziplist(bytes), elements)
            }
            _ => return None,
        };
        if elements > 0 {
            nodes.push(node);
        }
        len = len.checked_add(elements)?;
    }
    Some(List { body: Body::Nodes(nodes), len })
}

/// The elements of a [`List`].
#[derive(Clone, Debug)]
pub struct ListElements<'l> {
    nodes: std::slice::Iter<'l, Node<'l>>,
    unread: Unread<'l>,
}

#[derive(Clone, Debug)]
enum Unread<'l> {
    Nothing,
    /// This number of them.
    Objects(&'l [u8], usize),
    Ziplist(ziplist::ZiplistElements<'l>),
    Listpack(listpack::ListpackElements<'l>),
}

impl<'l> Iterator for ListElements<'l> {
    type Item = Result<Text<'l>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = match &mut self.unread {
                Unread::Nothing => None,
                Unread::Objects(_, 0) => return None,
                Unread::Objects(bytes, left) => {
                    *left -= 1;
                    let text = read_text(bytes);
                    if text.is_none() {
                        *left = 0;
                    }
                    return Some(text.ok_or(Malformed));
                }
                Unread::Ziplist(elements) => elements.next(),
                Unread::Listpack(elements) => elements.next(),
            };
            if let Some(element) = next {
                return Some(Ok(element.into()));
            }
            self.unread = match self.nodes.next()? {
                Node::Element(bytes) => return Some(Ok((&**bytes).into())),
                Node::Ziplist(bytes) => Unread::Ziplist(ziplist::ZiplistElements::of_checked(bytes)),
                Node::Listpack(bytes) => Unread::Listpack(listpack::ListpackElements::of_checked(bytes)),
            };
        }
    }
}

/// Appends type byte and value in the form of Redis 7.0 and younger, which has nodes of elements as large as these limits allow.
pub fn write<E: Deref<Target = [u8]>>(elements: impl Iterator<Item = E>, limits: ListLimits, out: &mut Vec<u8>) {
    out.push(types::LIST_QUICKLIST_2);
    let mut nodes = Nodes::default();
    for element in elements {
        if limits.is_exceeded(element.len(), 1) || element.len() > listpack::BYTES_MAX / 2 {
            nodes.end();
            nodes.write(PLAIN, &element);
        } else {
            nodes.push(&element, limits);
        }
    }
    nodes.end();
    write_length(nodes.count, out);
    out.extend_from_slice(&nodes.bytes);
}

/// Nodes that were written, and the one that is being filled.
#[derive(Debug, Default)]
struct Nodes {
    bytes: Vec<u8>,
    count: usize,
    open: Writer,
    /// Of the open one.
    elements: usize,
    /// Bytes of those.
    size: usize,
}

impl Nodes {
    fn push(&mut self, element: &[u8], limits: ListLimits) {
        let size = Encoded::new(element).size();
        let size = size + trailer_len(size);
        if self.elements > 0 && limits.is_exceeded(EMPTY_LISTPACK_BYTES + self.size + size, self.elements + 1) {
            self.end();
        }
        let pushed = self.open.push(element);
        debug_assert!(pushed.is_some(), "a node has its limits");
        (self.elements, self.size) = (self.elements + 1, self.size + size);
    }

    fn end(&mut self) {
        if self.elements > 0 {
            let node = std::mem::take(&mut self.open).finish();
            self.write(PACKED, &node);
            (self.elements, self.size) = (0, 0);
        }
    }

    fn write(&mut self, container: usize, node: &[u8]) {
        write_length(container, &mut self.bytes);
        write_bytes(node, &mut self.bytes);
        self.count += 1;
    }
}
