//! What SORT is asked for.

use almandine_handler::{CommandError, Options, errors};
use almandine_resp::Args;

use super::pattern::{self, Pattern};

/// The options, as the last of each kind has them.
pub(super) struct Sorting {
    /// By which values to sort instead of by the elements.
    pub(super) by: Option<Pattern>,
    /// The order is of no interest, since BY has said something that is the same for all elements.
    pub(super) unsorted: bool,
    pub(super) descending: bool,
    /// By bytes rather than by numbers.
    pub(super) alpha: bool,
    /// A script asks.
    pub(super) in_script: bool,
    offset: i64,
    count: i64,
    /// What is answered of each element; of none, the element.
    pub(super) gets: Vec<Get>,
    /// The argument with the key where the result goes.
    pub(super) destination: Option<usize>,
}

/// What is answered of an element.
pub(super) enum Get {
    /// Itself.
    Element,
    /// The value that a pattern leads to.
    Value(Pattern),
    /// Nothing, as a pattern without a place for the element leads nowhere.
    Nothing,
}

impl Sorting {
    /// Reads the arguments. `any_key` says whether patterns may lead to other keys.
    ///
    /// # Errors
    /// When they are wrong.
    pub(super) fn read(args: Args<'_>, may_store: bool, any_key: bool) -> Result<Self, CommandError> {
        let mut sorting = Self {
            by: None,
            unsorted: false,
            descending: false,
            alpha: false,
            in_script: false,
            offset: 0,
            count: -1,
            gets: Vec::new(),
            destination: None,
        };
        let mut options = Options::after(args, 2);
        while let Some(option) = options.next() {
            match option {
                o if o.is("ASC") => sorting.descending = false,
                o if o.is("DESC") => sorting.descending = true,
                o if o.is("ALPHA") => sorting.alpha = true,
                o if o.is("LIMIT") && options.remaining() >= 2 => {
                    sorting.offset = options.integer()?;
                    sorting.count = options.integer()?;
                }
                o if o.is("STORE") && may_store && options.remaining() >= 1 => {
                    sorting.destination = Some(options.position());
                    options.value()?;
                }
                o if o.is("BY") => {
                    let pattern = Pattern::parse(options.value()?);
                    if pattern.is_some() && !any_key {
                        return Err(errors::generic::SORT_BY_DENIED);
                    }
                    sorting.unsorted |= pattern.is_none();
                    sorting.by = pattern;
                }
                o if o.is("GET") => sorting.gets.push(match options.value()? {
                    _ if !any_key => return Err(errors::generic::SORT_GET_DENIED),
                    pattern::ELEMENT => Get::Element,
                    text => Pattern::parse(text).map_or(Get::Nothing, Get::Value),
                }),
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(sorting)
    }

    /// A set has no order: what is stored of it, or a script gets, is sorted by its bytes, whatever BY has said.
    pub(super) fn settle(&mut self, is_set: bool) {
        if self.unsorted {
            self.by = None;
            if is_set && (self.destination.is_some() || self.in_script) {
                self.unsorted = false;
                self.alpha = true;
            }
        }
    }

    /// The places that LIMIT leaves of `len`.
    pub(super) fn places(&self, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(self.offset.max(0)).map_or(len, |offset| offset.min(len));
        let count = usize::try_from(self.count).map_or(len, |count| count.min(len));
        start..(start + count).min(len)
    }

    /// Whether values of other keys are answered.
    pub(super) fn gets_values(&self) -> bool {
        self.gets.iter().any(|get| matches!(get, Get::Value(_)))
    }

    /// How many texts each element gives.
    pub(super) fn width(&self) -> usize {
        self.gets.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use almandine_resp::ArgsBuf;

    use super::*;

    fn sorting(line: &str) -> Result<Sorting, CommandError> {
        let mut args = ArgsBuf::new();
        line.split(' ').for_each(|word| args.push(word.as_bytes()));
        Sorting::read(args.as_args(), true, true)
    }

    #[test]
    fn limits_stay_within_the_elements() {
        let places = |limit: &str| sorting(&format!("SORT k LIMIT {limit}")).unwrap().places(10);
        assert_eq!([places("0 -1"), places("-5 3"), places("8 5"), places("2 -7")], [0..10, 0..3, 8..10, 2..10]);
        assert!(
            places("10 1").is_empty() && places("9223372036854775807 9223372036854775807").is_empty() && places("3 0").is_empty()
        );
    }

    #[test]
    fn a_constant_by_stays_one() {
        let both = sorting("SORT k BY nosort BY w_*").unwrap();
        assert!(both.unsorted && both.by.is_some());
        let mut stored = sorting("SORT k BY nosort STORE d").unwrap();
        stored.settle(true);
        assert!(!stored.unsorted && stored.alpha && stored.by.is_none());
    }
}
