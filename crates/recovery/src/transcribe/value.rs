//! A value of a file as the value of another file.

use almandine_rdb::types;
use almandine_rdb::value::hash::{self, HashEntry, HashForm, HashThresholds, Malformed};
use almandine_rdb::value::set::{self, SetForm, SetThresholds};
use almandine_rdb::value::sorted_set::{self, SortedSetForm, SortedSetThresholds};
use almandine_rdb::value::{AnyValue, footer, list, stream};

use crate::put::ValueLimits;
use crate::save::value::Readers;

/// Looks at all of it.
pub(super) fn check(value: &AnyValue<'_>) -> Result<(), Malformed> {
    match value {
        AnyValue::String(_) | AnyValue::Stream(_) => Ok(()),
        AnyValue::Hash(hash) => hash.fields().try_for_each(|field| field.map(drop)),
        AnyValue::List(list) => list.elements().try_for_each(|element| element.map(drop)),
        AnyValue::Set(set) => set.members().try_for_each(|member| member.map(drop)),
        AnyValue::SortedSet(set) => set.members().try_for_each(|member| member.map(drop)),
    }
}

/// Appends the type byte and the value as a server with these limits would write it for these readers, and returns the oldest
/// version whose readers know the form. Elements past their time are left out; None, and nothing was appended: there are no others.
pub(super) fn write(
    value: &AnyValue<'_>,
    now_ms: i64,
    limits: &ValueLimits,
    readers: Readers,
    out: &mut Vec<u8>,
) -> Result<Option<u16>, Malformed> {
    match value {
        AnyValue::String(bytes) => {
            out.push(types::STRING);
            almandine_rdb::write_string(bytes, out);
            Ok(Some(footer::VERSION_REDIS_7_0))
        }
        AnyValue::Hash(hash) => write_hash(hash, now_ms, limits, readers, out),
        AnyValue::List(of) => {
            let mut malformed = None;
            let elements = of.elements().map_while(|element| element.map_err(|fault| malformed = Some(fault)).ok());
            list::write(elements, limits.list, out);
            malformed.map_or(Ok(Some(footer::VERSION_REDIS_7_0)), Err)
        }
        AnyValue::Set(set) => write_set(set, limits, readers, out).map(Some),
        AnyValue::SortedSet(set) => write_sorted_set(set, now_ms, limits, out),
        AnyValue::Stream(of) => {
            // As a snapshot of this server has it.
            let form = if readers.have(footer::VERSION_REDIS_7_2) {
                stream::write(of, out)
            } else {
                stream::write_without_activity(of, out)
            };
            form.map(|form| Some(form.version())).map_err(|_| Malformed)
        }
    }
}

fn write_hash(
    of: &hash::Hash<'_>,
    now_ms: i64,
    limits: &ValueLimits,
    readers: Readers,
    out: &mut Vec<u8>,
) -> Result<Option<u16>, Malformed> {
    let fields: Vec<hash::Field<'_>> = of.fields().collect::<Result<_, _>>()?;
    let fields = fields.iter().filter(|field| field.expiry_ms.is_none_or(|at_ms| at_ms > now_ms));
    let fields: Vec<HashEntry<'_>> = fields.map(|field| (&*field.name, &*field.value, field.expiry_ms)).collect();
    if fields.is_empty() {
        return Ok(None);
    }
    let thresholds = HashThresholds { entries_max: limits.hash.entries, value_bytes_max: limits.hash.value };
    let form = HashForm::choose(fields.iter().copied(), thresholds, readers.dialect());
    Ok(Some(hash::write(form, fields.iter().copied(), out).version()))
}

fn write_set(of: &set::Set<'_>, limits: &ValueLimits, readers: Readers, out: &mut Vec<u8>) -> Result<u16, Malformed> {
    let members: Vec<_> = of.members().collect::<Result<_, _>>()?;
    let members = members.iter().map(|member| &**member);
    let thresholds =
        SetThresholds { integers_max: limits.set.integers, entries_max: limits.set.entries, value_bytes_max: limits.set.value };
    let form = match SetForm::choose(members.clone(), thresholds) {
        SetForm::Listpack if !readers.have(footer::VERSION_REDIS_7_2) => SetForm::Table,
        form => form,
    };
    Ok(set::write(form, members, out).version())
}

fn write_sorted_set(
    of: &sorted_set::SortedSet<'_>,
    now_ms: i64,
    limits: &ValueLimits,
    out: &mut Vec<u8>,
) -> Result<Option<u16>, Malformed> {
    let mut members: Vec<_> = of.members().collect::<Result<_, _>>()?;
    let now_ms = now_ms.max(0).unsigned_abs();
    members.retain(|member| member.expiry_ms.is_none_or(|at_ms| at_ms > now_ms));
    if members.is_empty() {
        return Ok(None);
    }
    members.sort_unstable_by(|one, other| one.score.total_cmp(&other.score).then_with(|| one.name.cmp(&other.name)));
    if members.iter().any(|member| member.expiry_ms.is_some()) {
        sorted_set::write_expiring(members.iter().map(|member| (&*member.name, member.score, member.expiry_ms)), out);
        return Ok(Some(footer::VERSION_REDIS_7_0));
    }
    let members = members.iter().map(|member| (&*member.name, member.score));
    let thresholds = SortedSetThresholds { entries_max: limits.sorted_set.entries, value_bytes_max: limits.sorted_set.value };
    let form = SortedSetForm::choose(members.clone(), thresholds);
    Ok(Some(sorted_set::write(form, members, out).version()))
}
