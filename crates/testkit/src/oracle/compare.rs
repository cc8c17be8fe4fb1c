//! When two replies count as equal.

use super::table::Compare;
use crate::Value;

/// Whether two replies count as equal.
#[must_use]
pub fn equal(compare: Compare, ours: &Value, theirs: &Value) -> bool {
    match (compare, ours, theirs) {
        (Compare::Near(by), Value::Integer(a), Value::Integer(b)) if *a >= 0 && *b >= 0 => a.abs_diff(*b) <= by as u64,
        (Compare::Unordered, Value::Array(a), Value::Array(b)) | (Compare::Unordered, Value::Set(a), Value::Set(b)) => {
            sorted(a) == sorted(b)
        }
        (Compare::Pairs, a, b) if !b.is_error() => pairs(a).is_some() && pairs(a) == pairs(b),
        (Compare::Scan, Value::Array(a), Value::Array(b)) if a.len() == 2 && b.len() == 2 => {
            a[0] == b[0] && equal(Compare::Pairs, &a[1], &b[1])
        }
        (Compare::Size, Value::Array(a), Value::Array(b)) => a.len() == b.len(),
        (Compare::Wider | Compare::Bits, _, Value::Error(error)) if error == b"ERR syntax error" => true,
        // Redis 7.0 looks for the key first.
        (Compare::Late | Compare::Bits, Value::Error(_), Value::Integer(0 | -1)) => true,
        (Compare::Late | Compare::Bits, Value::Error(_), Value::Error(error)) if error.starts_with(b"WRONGTYPE ") => true,
        (Compare::Wider, _, Value::Error(error)) if error.starts_with(b"ERR wrong number of arguments") => true,
        // From 7.2 on a small list is a listpack; Redis' SORT of a sorted set turns it into a skip list.
        (Compare::Encoding, Value::Bulk(a), Value::Bulk(b)) => {
            a == b || b == b"embstr" && a == b"int" || (b == b"quicklist" || b == b"skiplist") && a == b"listpack"
        }
        (Compare::Kind, a, b) if !a.is_error() => std::mem::discriminant(a) == std::mem::discriminant(b),
        (Compare::Known, a, b) => known(a, b),
        (Compare::Pending, Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| pending(a, b)),
        _ => ours == theirs,
    }
}

/// Milliseconds by which the clocks of two servers may differ that were sent the same pipeline.
const CLOCKS_MS: u64 = 20_000;
/// Numbers above it are times.
const TIMES_FROM: i64 = 1_000_000_000_000;

/// Whether ours tells what theirs does.
fn known(ours: &Value, theirs: &Value) -> bool {
    if let (Some(ours), Some(theirs)) = (named(ours), named(theirs)) {
        return theirs.iter().all(|(name, theirs)| {
            ours.iter().find(|(own, _)| own == name).is_some_and(|(_, ours)| match name.bytes() {
                // When a consumer was seen has had two meanings.
                Some(b"idle" | b"seen-time") => matches!((ours, theirs), (Value::Integer(_), Value::Integer(_))),
                // Redis 7.0 counts what was trimmed behind a group's back as unread.
                Some(b"entries-read" | b"lag") => is_count(ours) && is_count(theirs),
                // Redis 7.0 makes a consumer when it is given something.
                Some(b"consumers") => consumers(ours, theirs),
                _ => known(ours, theirs),
            })
        });
    }
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) if a.iter().chain(b).any(is_consumer) => consumers(ours, theirs),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| known(a, b)),
        (Value::Integer(a), Value::Integer(b)) if *a.min(b) > TIMES_FROM => a.abs_diff(*b) <= CLOCKS_MS,
        _ => ours == theirs,
    }
}

/// A number, or none where it is unknown.
fn is_count(value: &Value) -> bool {
    matches!(value, Value::Integer(_) | Value::NullBulk | Value::Null)
}

/// Whether a value is what XINFO CONSUMERS tells of one.
fn is_consumer(value: &Value) -> bool {
    named(value).is_some_and(|pairs| pairs.iter().any(|(name, _)| name.bytes() == Some(b"idle")))
}

/// Whether ours are theirs, and others for which nothing is pending; or more than theirs, where there is but their number.
fn consumers(ours: &Value, theirs: &Value) -> bool {
    let (ours, theirs) = match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => (ours, theirs),
        (Value::Integer(ours), Value::Integer(theirs)) => return ours >= theirs,
        _ => return false,
    };
    let field = |value: &Value, wanted: &[&[u8]]| {
        let pairs = named(value)?;
        pairs.into_iter().find(|(name, _)| name.bytes().is_some_and(|name| wanted.contains(&name))).map(|(_, value)| value.clone())
    };
    let name = |value: &Value| field(value, &[b"name"]);
    let is_idle = |value: &Value| field(value, &[b"pending", b"pel-count"]) == Some(Value::Integer(0));
    theirs.iter().all(|theirs| ours.iter().any(|ours| name(ours) == name(theirs) && known(ours, theirs)))
        && ours.iter().all(|ours| is_idle(ours) || theirs.iter().any(|theirs| name(ours) == name(theirs)))
}

/// The pairs of a map, or of an array that begins as XINFO's do.
fn named(value: &Value) -> Option<Vec<(&Value, &Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().map(|(name, value)| (name, value)).collect()),
        Value::Array(flat) if flat.first().is_some_and(|first| matches!(first.bytes(), Some(b"name" | b"length"))) => {
            Some(flat.chunks_exact(2).map(|two| (&two[0], &two[1])).collect())
        }
        _ => None,
    }
}

/// Whether two entries of XPENDING are equal but for the time since the delivery, the third of four.
fn pending(ours: &Value, theirs: &Value) -> bool {
    match (ours.elements(), theirs.elements()) {
        (Some([a @ .., Value::Integer(ours), count]), Some([b @ .., Value::Integer(theirs), other])) if b.len() == 2 => {
            a == b && count == other && ours.abs_diff(*theirs) <= CLOCKS_MS
        }
        _ => ours == theirs,
    }
}

/// Fields and values, sorted; `None` when it is nothing of the kind. The form is part of it.
fn pairs(value: &Value) -> Option<Vec<(String, String)>> {
    let pair = |form: &str, a: &Value, b: &Value| (format!("{form} {a}"), b.to_string());
    let mut all: Vec<(String, String)> = match value {
        Value::Map(pairs) => pairs.iter().map(|(a, b)| pair("map", a, b)).collect(),
        Value::Array(nested) if nested.first().is_some_and(|first| first.elements().is_some()) => nested
            .iter()
            .map(|two| Some(pair("nested", two.elements()?.first()?, two.elements()?.get(1)?)))
            .collect::<Option<_>>()?,
        Value::Array(flat) if flat.len() % 2 == 0 => flat.chunks(2).map(|two| pair("flat", &two[0], &two[1])).collect(),
        _ => return None,
    };
    all.sort();
    Some(all)
}

fn sorted(values: &[Value]) -> Vec<String> {
    let text = |v: &Value| v.elements().map_or_else(|| v.to_string(), |inner| format!("{:?}", sorted(inner)));
    let mut all: Vec<String> = values.iter().map(text).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_modes_tolerate_what_they_name_only() {
        let ints = |n: &[i64]| Value::Array(n.iter().map(|n| Value::Integer(*n)).collect());
        assert!(equal(Compare::Near(1), &Value::Integer(10), &Value::Integer(11)));
        assert!(!equal(Compare::Near(1), &Value::Integer(10), &Value::Integer(12)));
        assert!(!equal(Compare::Near(5), &Value::Integer(-1), &Value::Integer(1)), "no expiry is not a short one");
        assert!(equal(Compare::Unordered, &ints(&[1, 2]), &ints(&[2, 1])));
        assert!(!equal(Compare::Unordered, &ints(&[1, 2]), &ints(&[2, 2])));
        assert!(!equal(Compare::Exact, &ints(&[1, 2]), &ints(&[2, 1])));
        assert!(equal(Compare::Pairs, &ints(&[1, 2, 3, 4]), &ints(&[3, 4, 1, 2])));
        assert!(!equal(Compare::Pairs, &ints(&[1, 2, 3, 4]), &ints(&[1, 4, 3, 2])));
        let map = Value::Map(vec![(Value::Integer(1), Value::Integer(2))]);
        assert!(!equal(Compare::Pairs, &map, &ints(&[1, 2])), "a map is not an array");
        let scan = |cursor, n: &[i64]| Value::Array(vec![Value::Integer(cursor), ints(n)]);
        assert!(equal(Compare::Scan, &scan(0, &[1, 2, 3, 4]), &scan(0, &[3, 4, 1, 2])));
        assert!(!equal(Compare::Scan, &scan(7, &[1, 2]), &scan(0, &[1, 2])));
        assert!(equal(Compare::Size, &ints(&[1, 2]), &ints(&[5, 5])) && !equal(Compare::Size, &ints(&[1]), &ints(&[1, 2])));
        let text = |t: &str| Value::Bulk(t.into());
        let syntax = Value::Error(b"ERR syntax error".to_vec());
        assert!(equal(Compare::Late, &syntax, &Value::Integer(0)) && !equal(Compare::Late, &Value::Integer(3), &syntax));
        assert!(equal(Compare::Bits, &syntax, &Value::Integer(0)) && equal(Compare::Bits, &Value::Integer(3), &syntax));
        assert!(
            !equal(Compare::Bits, &syntax, &Value::Integer(3)) && !equal(Compare::Bits, &Value::Integer(0), &Value::Integer(3))
        );
        assert!(equal(Compare::Encoding, &text("int"), &text("embstr")));
        assert!(equal(Compare::Encoding, &text("listpack"), &text("quicklist")));
        assert!(!equal(Compare::Encoding, &text("listpack"), &text("hashtable")));
        assert!(!equal(Compare::Encoding, &text("embstr"), &text("int")));
        assert!(!equal(Compare::Encoding, &text("embstr"), &text("raw")));
        let info = |name: &str, number| Value::Array(vec![text("name"), text("g"), text(name), Value::Integer(number)]);
        let with_more = |info: Value| Value::Array([info.elements().unwrap_or_default(), &[text("more"), text("x")]].concat());
        assert!(equal(Compare::Known, &with_more(info("pending", 1)), &info("pending", 1)));
        assert!(!equal(Compare::Known, &info("pending", 1), &with_more(info("pending", 1))), "theirs is told");
        assert!(!equal(Compare::Known, &info("pending", 1), &info("pending", 2)));
        assert!(equal(Compare::Known, &info("idle", 1), &info("idle", 2)));
        assert!(equal(Compare::Known, &info("lag", 1), &info("lag", 2)));
        assert!(equal(Compare::Known, &info("consumers", 2), &info("consumers", 1)));
        assert!(!equal(Compare::Known, &info("consumers", 1), &info("consumers", 2)));
        let consumer = |name: &str, pending| {
            Value::Array(vec![text("name"), text(name), text("pending"), Value::Integer(pending), text("idle"), Value::Integer(1)])
        };
        let consumers = |all: &[(&str, i64)]| Value::Array(all.iter().map(|(name, pending)| consumer(name, *pending)).collect());
        assert!(equal(Compare::Known, &consumers(&[("a", 0), ("b", 1)]), &consumers(&[("b", 1)])));
        assert!(!equal(Compare::Known, &consumers(&[("a", 1), ("b", 1)]), &consumers(&[("b", 1)])), "it was given something");
        assert!(!equal(Compare::Known, &consumers(&[("a", 0)]), &consumers(&[("b", 0)])), "each of theirs is ours");
        assert!(equal(Compare::Known, &info("time", TIMES_FROM + 1), &info("time", TIMES_FROM + 2)));
        let pending = |idle, count| {
            Value::Array(vec![Value::Array(vec![text("1-1"), text("c"), Value::Integer(idle), Value::Integer(count)])])
        };
        assert!(equal(Compare::Pending, &pending(1, 1), &pending(9, 1)));
        assert!(!equal(Compare::Pending, &pending(1, 1), &pending(1, 2)));
        assert!(!equal(Compare::Pending, &pending(1, 1), &pending(50_000, 1)));
        assert!(equal(Compare::Kind, &Value::Integer(1), &Value::Integer(9)));
        assert!(!equal(Compare::Kind, &Value::Integer(1), &Value::NullBulk));
        assert!(!equal(Compare::Kind, &Value::Error(b"ERR a".to_vec()), &Value::Error(b"ERR b".to_vec())));
    }
}
