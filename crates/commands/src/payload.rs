//! The footer of what DUMP and FUNCTION DUMP answer, in the oldest version that readers understand.

use almandine_datatypes::rdb::footer;

/// Appends the footer.
pub fn seal(payload: &mut Vec<u8>) {
    footer::seal(payload, footer::VERSION_REDIS_7_0);
}

/// The payload without its footer, if the footer is right.
#[must_use]
pub fn open(payload: &[u8]) -> Option<&[u8]> {
    footer::open(payload).map(|(content, _)| content)
}
