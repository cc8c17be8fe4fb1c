//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};

use almandine_io::files;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::options::TlsFault;

/// The bytes of the file that a parameter names.
pub(crate) fn read(parameter: &'static str, path: &Path) -> Result<Vec<u8>, TlsFault> {
    files::read(path).map_err(|error| TlsFault::new(parameter, format!("cannot read {}: {error}", path.display())))
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let bytes = read(parameter, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| TlsFault::new(parameter, format!("{} is damaged: {error}", path.display())))?;
    if found.is_empty() {
        let text = format!("{} has no certificate: it must be PEM, with a line 'BEGIN CERTIFICATE'", path.display());
        return Err(TlsFault::new(parameter, text));
    }
    Ok(found)
}

/// The authorities of a file and of the files of a directory.
pub(crate) fn authorities(file: &Path, directory: &Path) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    if !file.as_os_str().is_empty() {
        for certificate in certificates("tls-ca-cert-file", file)? {
            let text = |error| format!("{} has a certificate that cannot be an authority's: {error}", file.display());
            roots.add(certificate).map_err(|error| TlsFault::new("tls-ca-cert-file", text(error)))?;
        }
    }
    if !directory.as_os_str().is_empty() {
        for path in listed(directory)? {
            // Other files lie there, too, as links by hash values do: what is no certificate is passed over.
            if let Ok(found) = certificates("tls-ca-cert-dir", &path) {
                found.into_iter().for_each(|certificate| drop(roots.add(certificate)));
            }
        }
        if roots.is_empty() {
            let text = format!("no file in {} has a certificate of an authority (PEM)", directory.display());
            return Err(TlsFault::new("tls-ca-cert-dir", text));
        }
    }
    Ok(roots)
}

/// The files of a directory.
pub(crate) fn listed(directory: &Path) -> Result<Vec<PathBuf>, TlsFault> {
    let mut names = files::names(directory)
        .map_err(|error| TlsFault::new("tls-ca-cert-dir", format!("cannot read {}: {error}", directory.display())))?;
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}
