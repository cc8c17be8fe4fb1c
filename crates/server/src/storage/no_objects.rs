//! In place of `objects` in a server that was built without the feature `object-store`.

use std::io;
use std::sync::Arc;

use almandine_config::Settings;
use almandine_device::Device;
use almandine_instance::Instance;

use super::Part;

/// Nothing to look at.
#[derive(Default)]
pub(crate) struct Watch(());

impl Watch {
    /// Says how to build a server that could.
    ///
    /// # Errors
    /// Always.
    #[expect(clippy::unused_self, reason = "the signature is that of the feature")]
    pub(crate) fn below(&mut self, _: Option<Arc<dyn Device>>, _: &Settings, _: Part) -> io::Result<Arc<dyn Device>> {
        let text = "storage-object-url: this server was built without object storage; \
                    build one with `cargo build --release --features object-store`";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    #[expect(clippy::unused_self, reason = "the signature is that of the feature")]
    pub(crate) fn turn(&mut self, _: &Instance) {}
}
