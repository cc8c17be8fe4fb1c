//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};

use almandine_io::files;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::options::TlsFault;

/// A parameter, and the path that it names.
pub(crate) type Named<'p> = (&'static str, &'p Path);

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
pub(crate) fn authorities(file: Named<'_>, directory: Named<'_>) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    let (parameter, path) = file;
    if !path.as_os_str().is_empty() {
        for certificate in certificates(parameter, path)? {
            let text = |error| format!("{} has a certificate that cannot be an authority's: {error}", path.display());
            roots.add(certificate).map_err(|error| TlsFault::new(parameter, text(error)))?;
        }
    }
    let (parameter, path) = directory;
    if !path.as_os_str().is_empty() {
        for path in listed(directory)? {
            // Other files lie there, too, as links by hash values do: what is no certificate is passed over.
            if let Ok(found) = certificates(parameter, &path) {
                found.into_iter().for_each(|certificate| drop(roots.add(certificate)));
            }
        }
        if roots.is_empty() {
            let text = format!("no file in {} has a certificate of an authority (PEM)", path.display());
            return Err(TlsFault::new(parameter, text));
        }
    }
    Ok(roots)
}

/// The files of a directory.
pub(crate) fn listed((parameter, directory): Named<'_>) -> Result<Vec<PathBuf>, TlsFault> {
    let mut names = files::names(directory)
        .map_err(|error| TlsFault::new(parameter, format!("cannot read {}: {error}", directory.display())))?;
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}
