//! The parameters that have an effect, typed: what the rest of the server reads. Also the one list of sections.

use crate::kind::Value;
use crate::parameter::Parameter;
use crate::sections;

macro_rules! settings {
    ($($section:ident $type:ident;)*) => {
        /// A consistent snapshot of all settings.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = concat!("Section [`", stringify!($section), "`](sections::", stringify!($section), ").")]
            pub $section: sections::$section::$type,)*
        }

        impl Settings {
            /// The settings of the values of all parameters, in the order of [`crate::parameter::all`].
            pub(crate) fn of(values: &[Value]) -> Self {
                let values = &mut values.iter();
                Self { $($section: sections::$section::$type::take(values),)* }
            }
        }

        /// The parameters of each section, in the order of the manual.
        pub(crate) static SECTIONS: &[&[Parameter]] = &[$(sections::$section::PARAMETERS,)*];
    };
}

settings! {
    network Network;
    connections Connections;
    security Security;
    process Process;
    engine Engine;
    memory Memory;
    storage Storage;
    observe Observe;
    console Console;
    values Values;
    persistence Persistence;
    replication Replication;
    cluster Cluster;
    tls Tls;
    threads Threads;
}
