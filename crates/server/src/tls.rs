//! TLS of a node: which certificates and rules new connections begin with, and when their files are read.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use almandine_config::Settings;
use almandine_config::choices::{CertificateName, Demand};
use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_net::TransportFactory;
use almandine_tls::{Acceptor, Clients, Configuration, NameField, Sessions, TlsFault, TlsOptions, fingerprint, read};

/// See the module.
#[derive(Default)]
pub(crate) struct Tls {
    acceptor: Arc<Acceptor>,
    followed: Mutex<Option<Followed>>,
}

/// What new connections begin with.
struct Followed {
    options: TlsOptions,
    /// Of the files when they were read, or when reading them failed.
    fingerprint: u64,
    /// When they are looked at next; never where they are not.
    look_ms: Option<u64>,
    interval_ms: u64,
}

/// What [`Tls::prepare`] has made ready.
pub(crate) struct Prepared {
    followed: Option<Followed>,
    configuration: Option<Configuration>,
}

impl Tls {
    /// What makes the connections.
    pub(crate) fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor)
    }

    /// For the endpoints of `tls-port`.
    pub(crate) fn transports(&self) -> TransportFactory {
        self.acceptor.transports()
    }

    /// Reads the files that `settings` name, where these are others than before or `anew` says so. Relative paths begin at
    /// `directory`.
    ///
    /// # Errors
    /// When they cannot be followed; then nothing has changed.
    pub(crate) fn prepare(&self, settings: &Settings, directory: &Path, anew: bool) -> Result<Prepared, TlsFault> {
        if !is_needed(settings) {
            return Ok(Prepared { followed: None, configuration: None });
        }
        check_files(settings)?;
        let options = options(settings, directory);
        let known =
            self.lock().as_ref().filter(|followed| !anew && followed.options == options).map(|followed| followed.fingerprint);
        // The files may change while they are read: what is noted of them is older, so that the next look finds it.
        let fingerprint = known.unwrap_or_else(|| fingerprint(&options));
        let configuration = if known.is_none() { Some(read(&options)?) } else { None };
        let interval_ms = u64::from(settings.tls.reload_interval_s) * 1000;
        let look_ms = (interval_ms > 0).then(|| now_ms() + interval_ms);
        Ok(Prepared { followed: Some(Followed { options, fingerprint, look_ms, interval_ms }), configuration })
    }

    /// Makes it so.
    pub(crate) fn commit(&self, prepared: Prepared) {
        if let Some(configuration) = prepared.configuration {
            self.acceptor.install(configuration);
        }
        *self.lock() = prepared.followed;
    }

    /// Looks whether files have changed, when it is time to. New connections begin with those that can be followed.
    pub(crate) fn turn(&self) {
        let mut guard = self.lock();
        let Some(followed) = guard.as_mut().filter(|followed| followed.look_ms.is_some_and(|look_ms| look_ms <= now_ms())) else {
            return;
        };
        followed.look_ms = Some(now_ms() + followed.interval_ms);
        let fingerprint = fingerprint(&followed.options);
        if std::mem::replace(&mut followed.fingerprint, fingerprint) == fingerprint {
            return;
        }
        match read(&followed.options) {
            Ok(configuration) => {
                self.acceptor.install(configuration);
                tracing::info!("The files of TLS have changed: new connections begin with them");
            }
            Err(fault) => tracing::warn!("The files of TLS have changed and cannot be used, the former ones stay: {fault}"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why TLS cannot be as `settings` say.
pub(crate) fn check(settings: &Settings, directory: &Path) -> Result<(), TlsFault> {
    if !is_needed(settings) {
        return Ok(());
    }
    check_files(settings)?;
    read(&options(settings, directory)).map(drop)
}

fn is_needed(settings: &Settings) -> bool {
    settings.tls.port != 0 || almandine_console::needs_tls(&settings.console)
}

/// Whether there are certificates for the metrics, where these alone need them.
fn check_files(settings: &Settings) -> Result<(), TlsFault> {
    let tls = &settings.tls;
    if tls.port == 0 && (tls.cert_file.is_empty() || tls.key_file.is_empty()) {
        let text = "beyond loopback the metrics are served with TLS only: set tls-cert-file and tls-key-file, or metrics-bind to \
                    127.0.0.1";
        return Err(TlsFault::new("metrics-bind", text));
    }
    Ok(())
}

fn options(settings: &Settings, directory: &Path) -> TlsOptions {
    let tls = &settings.tls;
    // An empty path is none.
    let path = |name: &String| if name.is_empty() { name.into() } else { directory.join(name) };
    TlsOptions {
        cert_file: path(&tls.cert_file),
        key_file: path(&tls.key_file),
        key_password: tls.key_password.clone(),
        ca_file: path(&tls.ca_file),
        ca_directory: path(&tls.ca_directory),
        clients: match tls.clients {
            Demand::No => Clients::Unasked,
            Demand::Yes => Clients::Required,
            Demand::Optional => Clients::Optional,
        },
        name: match tls.clients_user {
            CertificateName::Off => NameField::Off,
            CertificateName::CommonName => NameField::CommonName,
            CertificateName::Uri => NameField::Uri,
        },
        protocols: tls.protocols.clone(),
        ciphers: tls.ciphers.clone(),
        suites: tls.suites.clone(),
        prefers_own_order: tls.prefers_own_order,
        sessions: tls.resumes.then_some(Sessions { kept_max: tls.sessions_max as usize, seconds: tls.session_s }),
    }
}

fn now_ms() -> u64 {
    clock::monotonic_ns() / 1_000_000
}
