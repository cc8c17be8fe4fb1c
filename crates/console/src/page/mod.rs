//! The page of metrics: a table of families, and how they are written.

mod family;
mod labelled;
mod samples;
mod table;

use almandine_handler::Table;
use almandine_instance::Instance;
use almandine_instance::metrics::Readings;

pub use family::{Family, FamilyKind};
pub(crate) use samples::Format;
pub use table::FAMILIES;

use family::Sources;
use samples::Samples;

/// Bytes of a page of a server that has been used a little.
const PAGE_BYTES: usize = 64 * 1024;

/// The page as it is now.
pub(crate) fn write(instance: &Instance, table: &'static Table, format: Format) -> String {
    let sources = Sources { readings: Readings::take(instance), table };
    let mut text = String::with_capacity(PAGE_BYTES);
    for family in FAMILIES {
        let mut samples = Samples::new(&mut text, family, format);
        family.read(&sources, &mut samples);
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}
