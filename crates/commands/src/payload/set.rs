//! Payloads of sets.

use almandine_datatypes::packed::Member;
use almandine_datatypes::set::SetEncoding;
use almandine_keyspace::{Refusal, types};
use almandine_rdb::value::footer;
use almandine_rdb::value::set::{self, SetForm};

/// The payload of a set. What is a listpack is written as a table, which all servers read, and which those that have such
/// listpacks make one of again.
pub(super) fn payload(of: &types::set::Set<'_>) -> Result<Vec<u8>, Refusal> {
    let members: Vec<Member<'_>> = of.try_iter().collect::<Result<_, _>>()?;
    let form = if of.encoding() == SetEncoding::IntSet { SetForm::Intset } else { SetForm::Table };
    let mut payload = Vec::new();
    let form = set::write(form, members.iter().map(|member| &**member), &mut payload);
    footer::seal(&mut payload, form.version());
    Ok(payload)
}
