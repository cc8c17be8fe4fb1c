//! Sets.

use almandine_datatypes::packed::Member;
use almandine_datatypes::set::SetEncoding;
use almandine_keyspace::Refusal;
use almandine_keyspace::types::set::Set;
use almandine_rdb::value::footer;
use almandine_rdb::value::set::{self, SetForm};

use super::Readers;

/// What is a listpack is written as a table for readers that may not know such listpacks; those that do make one of it again.
pub(super) fn write(of: &Set<'_>, readers: Readers, out: &mut Vec<u8>) -> Result<u16, Refusal> {
    let members: Vec<Member<'_>> = of.try_iter().collect::<Result<_, _>>()?;
    let form = match of.encoding() {
        SetEncoding::IntSet => SetForm::Intset,
        SetEncoding::ListPack if readers.have(footer::VERSION_REDIS_7_2) => SetForm::Listpack,
        _ => SetForm::Table,
    };
    Ok(set::write(form, members.iter().map(|member| &**member), out).version())
}
