//! From an address and settings to a store: S3 and what speaks its protocol, Azure, Google Cloud, or a directory.
//!
//! A store that stumbles is asked again, but not for long: a client may be waiting for the answer, and a writer tries again
//! by itself.

use std::io::{self, ErrorKind};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

/// How long after the first attempt a request is still tried again.
const RETRY_MAX: Duration = Duration::from_secs(10);
const RETRIES_MAX: usize = 5;

/// A store, a folder in it, and the address for messages: without what may be secret in it.
pub(super) type Opened = (Box<dyn ObjectStore>, Path, String);

/// What the address names.
///
/// # Errors
/// When the address or the settings are not understood.
pub(super) fn open(address: &str, settings: &[(String, String)]) -> io::Result<Opened> {
    let bad = |e: &dyn std::fmt::Display| {
        let text =
            format!("{address:?} is no address of an object store ({e}); one is s3://bucket/folder, az://, gs:// or file://");
        io::Error::new(ErrorKind::InvalidInput, text)
    };
    let url = Url::parse(address).map_err(|e| bad(&e))?;
    let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|e| bad(&e))?;
    let retry = || RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_MAX, ..RetryConfig::default() };
    // The builders share no trait. Settings that are another cloud's are not theirs to refuse.
    macro_rules! build {
        ($builder:ty) => {{
            let named = <$builder>::new().with_url(url.as_str()).with_retry(retry());
            let configured = settings.iter().fold(named, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
            Box::new(configured.build().map_err(|e| bad(&e))?) as Box<dyn ObjectStore>
        }};
    }
    let store = match scheme {
        ObjectStoreScheme::Local => Box::new(LocalFileSystem::new().with_fsync(true)),
        ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder),
        ObjectStoreScheme::MicrosoftAzure => build!(MicrosoftAzureBuilder),
        ObjectStoreScheme::GoogleCloudStorage => build!(GoogleCloudStorageBuilder),
        _ => return Err(bad(&"its scheme is not supported")),
    };
    let name = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
    Ok((store, path, name))
}
