//! The parameters that have an effect, typed: what the rest of the server reads.

use crate::kind::Value;
use crate::sections::{
    cluster::Cluster, connections::Connections, engine::Engine, memory::Memory, network::Network, observe::Observe,
    persistence::Persistence, process::Process, replication::Replication, security::Security, threads::Threads, tls::Tls,
    values::Values,
};

macro_rules! settings {
    ($($field:ident: $section:ty;)*) => {
        /// A consistent snapshot of all settings.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings { $(#[doc = concat!("Section [`", stringify!($section), "`].")] pub $field: $section,)* }

        impl Settings {
            /// The settings of the values of all parameters, in the order of [`crate::parameter::all`].
            pub(crate) fn of(values: &[Value]) -> Self {
                let values = &mut values.iter();
                // Fields are evaluated in the order of the sections.
                Self { $($field: <$section>::take(values),)* }
            }
        }
    };
}

settings! {
    network: Network;
    connections: Connections;
    security: Security;
    process: Process;
    engine: Engine;
    memory: Memory;
    observe: Observe;
    values: Values;
    persistence: Persistence;
    replication: Replication;
    cluster: Cluster;
    tls: Tls;
    threads: Threads;
}
