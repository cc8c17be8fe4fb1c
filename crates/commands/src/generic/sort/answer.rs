//! SORT that answers its result.

use std::ops::Range;

use almandine_handler::{KeyAccess, KeyCall, Outcome, Stop};
use almandine_keyspace::types::{Elements, Frozen};
use almandine_keyspace::{Key, Missing, Reader, Refusal};
use almandine_resp::reply::write_header;
use almandine_resp::{ProtocolVersion, Reply};

use super::large::{LARGE, Large, LargeStream, PlainStream};
use super::options::{Get, Sorting};
use super::table::{Order, Table};
use super::values::{self, TOGETHER_MAX, Values};

/// How often the keys that patterns lead to are latched in vain, as the elements change meanwhile, before each is read by itself.
const ATTEMPTS: usize = 4;

/// Answers the sorted elements of the first key.
pub(super) fn answer<'c, K: KeyAccess<'c>>(call: &mut KeyCall<'c, K>, mut sorting: Sorting) -> Outcome {
    sorting.in_script = call.client.in_script;
    if let Some((large, _)) = call.computed::<Large>()? {
        return answer_large(call, large);
    }
    let key = call.key(1);
    let mut source = call.keys.reader_mut().freeze(key)?;
    let Some(elements) = source.elements()? else {
        call.looked_up(key, false);
        call.reply.array(0);
        return Ok(());
    };
    sorting.settle(elements.is_unordered());
    let len = elements.len();
    drop(elements);
    let null = null(&call.reply);
    if sorting.unsorted && !sorting.gets_values() {
        call.looked_up(key, true);
        let places = sorting.places(len);
        call.reply.array(places.len() * sorting.width());
        if places.len() > LARGE && call.reply.out.may_stream() {
            call.reply.out.end_with(Box::new(PlainStream { source, sorting, places, null }));
            return Ok(());
        }
        let Some(elements) = source.elements()? else { return Ok(()) };
        return Ok(visit_in_order(&elements, &sorting, places, |element| {
            write_texts(&sorting, element, null, &mut call.reply.out.bytes);
        })?);
    }
    if !sorting.unsorted && sorting.by.is_none() && len > LARGE && call.may_compute(0) {
        let order = order(&sorting);
        return Err(call.compute(Large::new(source, sorting, order, len, None), 0));
    }
    let keys = call.keys.reader_mut();
    if values::count(&sorting, len) > 0 {
        source = together(keys, key, source, &mut sorting)?;
    }
    call.context.statistics().looked_up(true);
    let mut values = Values::new(keys, call.context);
    let outcome = write(&source, &sorting, &mut values, &mut call.reply);
    call.keys.reader_mut().plan().unlock();
    outcome
}

/// Latches the keys that patterns lead to, and what is sorted, which is returned as it is then.
fn together(keys: &mut Reader<'_>, key: Key<'_>, mut source: Frozen, sorting: &mut Sorting) -> Result<Frozen, Stop> {
    for _ in 0..ATTEMPTS {
        let names = names(&source, sorting)?;
        if names.len() > TOGETHER_MAX {
            at_hand(keys, &names)?;
            break;
        }
        keys.plan().lock_shared_all(names.iter().map(Vec::as_slice).chain([key.bytes]));
        if keys.is_still(key, &source)? {
            at_hand(keys, &names)?;
            return Ok(source);
        }
        keys.plan().unlock();
        source = keys.freeze(key)?;
        if let Some(elements) = source.elements()? {
            sorting.settle(elements.is_unordered());
        }
    }
    Ok(source)
}

/// Asks for all keys that patterns lead to, so that those on the device are read together.
fn at_hand(keys: &mut Reader<'_>, names: &[Vec<u8>]) -> Result<(), Missing> {
    let mut whole = Ok(());
    if keys.plan().has_cold() {
        for name in names {
            let key = keys.key(name);
            whole = whole.and(keys.exists(key).map(drop));
        }
    }
    whole
}

/// The names of all keys that patterns lead to.
pub(super) fn names(source: &Frozen, sorting: &Sorting) -> Result<Vec<Vec<u8>>, Stop> {
    let mut names = Vec::new();
    if let Some(elements) = source.elements()? {
        elements.visit(0..elements.len(), |element| values::names(sorting, element, &mut names))?;
    }
    Ok(names)
}

/// Answers what was sorted beside the commands of others.
fn answer_large<'c, K: KeyAccess<'c>>(call: &mut KeyCall<'c, K>, mut large: Box<Large>) -> Outcome {
    if let Some(error) = large.failed.take() {
        return Err(error);
    }
    let key = call.key(1);
    call.looked_up(key, true);
    let null = null(&call.reply);
    call.reply.array(large.answered() * large.sorting.width());
    if !large.sorting.gets_values() && call.reply.out.may_stream() {
        call.reply.out.end_with(Box::new(LargeStream { large, null }));
        return Ok(());
    }
    let mut element = Vec::new();
    let mut values = Values::new(call.keys.reader_mut(), call.context);
    while let Some(next) = large.next() {
        element.clear();
        element.extend_from_slice(next);
        write_element(&large.sorting, &element, &mut values, &mut call.reply)?;
    }
    Ok(())
}

/// By what the elements are sorted.
pub(super) fn order(sorting: &Sorting) -> Order {
    match (sorting.alpha, &sorting.by) {
        (false, _) => Order::Numbers,
        (true, None) => Order::Bytes,
        (true, Some(_)) => Order::Weights,
    }
}

/// All elements, sorted so far that those at the places are right.
pub(super) fn sorted(source: &Frozen, sorting: &Sorting, values: &mut Values<'_, '_>) -> Result<(Table, Range<usize>), Stop> {
    let Some(elements) = source.elements()? else { return Ok((Table::new(Order::Bytes, false, 0), 0..0)) };
    let places = sorting.places(elements.len());
    let mut table = Table::new(order(sorting), sorting.descending, elements.len());
    let mut failed = Ok(());
    if sorting.unsorted {
        visit_in_order(&elements, sorting, places.clone(), |element| table.push_unsorted(element))?;
        return Ok((table, 0..places.len()));
    }
    elements.visit(0..elements.len(), |element| {
        let pushed = match &sorting.by {
            None => table.push(element).map_err(Stop::from),
            Some(pattern) => values.of(pattern, element).and_then(|weight| Ok(table.push_weighed(element, weight)?)),
        };
        if failed.is_ok() {
            failed = pushed;
        }
    })?;
    failed?;
    table.sort(&places);
    Ok((table, places))
}

fn write(source: &Frozen, sorting: &Sorting, values: &mut Values<'_, '_>, reply: &mut Reply<'_>) -> Outcome {
    let (table, places) = sorted(source, sorting, values)?;
    reply.array(places.len() * sorting.width());
    for entry in &table.entries[places] {
        write_element(sorting, table.element(*entry), values, reply)?;
    }
    Ok(())
}

/// Answers what is asked for of an element.
fn write_element(sorting: &Sorting, element: &[u8], values: &mut Values<'_, '_>, reply: &mut Reply<'_>) -> Outcome {
    if sorting.gets.is_empty() {
        reply.bulk(element);
    }
    for get in &sorting.gets {
        match get {
            Get::Element => reply.bulk(element),
            Get::Nothing => reply.null(),
            Get::Value(pattern) => match values.of(pattern, element)? {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
        }
    }
    Ok(())
}

/// As [`write_element`], where no values of other keys are asked for.
pub(super) fn write_texts(sorting: &Sorting, element: &[u8], null: &[u8], out: &mut Vec<u8>) {
    let bulk = |out: &mut Vec<u8>| {
        write_header(out, b'$', element.len());
        out.extend_from_slice(element);
        out.extend_from_slice(b"\r\n");
    };
    if sorting.gets.is_empty() {
        bulk(out);
    }
    for get in &sorting.gets {
        match get {
            Get::Element => bulk(out),
            Get::Nothing | Get::Value(_) => out.extend_from_slice(null),
        }
    }
}

/// Visits elements at some places in their own order, or from the end on. A set has none.
pub(super) fn visit_in_order(
    elements: &Elements<'_>,
    sorting: &Sorting,
    places: Range<usize>,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), Refusal> {
    if !sorting.descending || elements.is_unordered() {
        return elements.visit(places, visit);
    }
    let len = elements.len();
    let mut backwards: Vec<Vec<u8>> = Vec::with_capacity(places.len());
    elements.visit(len - places.end..len - places.start, |element| backwards.push(element.to_vec()))?;
    backwards.iter().rev().for_each(|element| visit(element));
    Ok(())
}

fn null(reply: &Reply<'_>) -> &'static [u8] {
    if reply.version() == ProtocolVersion::Resp2 { b"$-1\r\n" } else { b"_\r\n" }
}
