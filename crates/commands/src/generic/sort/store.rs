//! SORT that stores its result.

use almandine_base::events::Classes;
use almandine_handler::{Outcome, Stop, WriteCall};
use almandine_keyspace::types::Frozen;
use almandine_keyspace::types::list::{Lists, NewList};
use almandine_keyspace::{Key, Kind, Need, Put};

use super::answer::{names, order, sorted};
use super::large::{LARGE, Large};
use super::options::{Get, Sorting};
use super::values::{self, Values};
use crate::list;
use crate::result::{self, Stored};

/// Puts the sorted elements of the first key to another one, or removes that when there are none. Both are latched, and the keys
/// that patterns lead to, from before it is looked whether the elements are the same until the result is there.
pub(super) fn store(call: &mut WriteCall<'_>, destination: usize, mut sorting: Sorting) -> Outcome {
    let (key, destination) = (call.key(1), call.key(destination));
    let mut round = 0;
    if let Some((mut large, computed_in)) = call.computed::<Large>()? {
        lock(call, key, destination, &[])?;
        if call.keys.is_still(key, &large.source)? {
            call.looked_up(key, true);
            return match (large.failed.take(), large.list.take()) {
                (Some(error), _) => Err(error),
                (None, list) => put(call, destination, list),
            };
        }
        call.keys.plan().unlock();
        round = computed_in + 1;
    }
    let source = loop {
        let mut source = call.keys.freeze(key)?;
        let len = settle(&source, &mut sorting)?;
        let keys = if values::count(&sorting, len) > 0 { names(&source, &sorting)? } else { Vec::new() };
        lock(call, key, destination, &keys)?;
        if keys.is_empty() {
            source = call.keys.freeze(key)?;
            settle(&source, &mut sorting)?;
        }
        // Without patterns it was frozen under the latch; with them, other elements would lead to other keys.
        let none = values::count(&sorting, source.elements()?.map_or(0, |elements| elements.len())) == 0;
        let same = if keys.is_empty() { none } else { call.keys.is_still(key, &source)? };
        if same {
            break source;
        }
        call.keys.plan().unlock();
    };
    let len = source.elements()?.map(|elements| elements.len());
    let list = call.keys.new_value::<Lists>(list::limits(call.context.settings()));
    let alone = sorting.by.is_none() && !sorting.gets.iter().any(|get| !matches!(get, Get::Element));
    if let Some(len) = len.filter(|len| alone && !sorting.unsorted && *len > LARGE)
        && call.may_compute(round)
    {
        let order = order(&sorting);
        return Err(call.compute(Large::new(source, sorting, order, len, Some(list)), round));
    }
    call.looked_up(key, len.is_some());
    let list = fill(call, &source, &sorting, list)?;
    put(call, destination, Some(list))
}

/// Settles what the type decides. How many elements there are.
fn settle(source: &Frozen, sorting: &mut Sorting) -> Result<usize, Stop> {
    let Some(elements) = source.elements()? else { return Ok(0) };
    sorting.settle(elements.is_unordered());
    Ok(elements.len())
}

/// Latches all keys and makes sure that they are at hand.
fn lock(call: &mut WriteCall<'_>, key: Key<'_>, destination: Key<'_>, others: &[Vec<u8>]) -> Outcome {
    let db = call.keys.db();
    let read = others.iter().map(Vec::as_slice).chain([key.bytes]).map(|name| (db, name, Need::Read));
    Ok(call.keys.plan().hold_for(read.chain([(db, destination.bytes, Need::Overwrite)]))?)
}

/// The list of what is asked for of each element.
fn fill(call: &mut WriteCall<'_>, source: &Frozen, sorting: &Sorting, mut list: NewList) -> Result<NewList, Stop> {
    let mut values = Values::new(&mut call.keys, call.context);
    let (table, places) = sorted(source, sorting, &mut values)?;
    for entry in &table.entries[places] {
        let element = table.element(*entry);
        if sorting.gets.is_empty() {
            list.push(element)?;
        }
        for get in &sorting.gets {
            match get {
                Get::Element => list.push(element)?,
                Get::Nothing => list.push(b"")?,
                Get::Value(pattern) => list.push(values.of(pattern, element)?.unwrap_or_default())?,
            }
        }
    }
    Ok(list)
}

fn put(call: &mut WriteCall<'_>, destination: Key<'_>, list: Option<NewList>) -> Outcome {
    let len = list.as_ref().map_or(0, NewList::len);
    let stored = Stored { kind: Kind::List, class: Classes::LIST, event: "sortstore" };
    result::store(call, destination, len, stored, |keys| {
        list.map_or(Ok(()), |list| keys.put_value(destination, list, Put::default()))?;
        keys.count_changes(len as i64 - 1);
        Ok(())
    })
}
