//! The names that a certificate has. The certificate was verified before.

use crate::der::{Der, OBJECT, OCTETS, SEQUENCE, SET};
use crate::options::NameField;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];
/// The tag of the extensions in a certificate, and of a URI among alternative names.
const EXTENSIONS: u8 = 0xA3;
const URI: u8 = 0x86;
/// Tags of texts: UTF-8, printable, Teletex, IA5. They are taken when they are UTF-8, without a zero byte, at which programs end
/// names.
const TEXTS: [u8; 4] = [0x0C, 0x13, 0x14, 0x16];

/// Most names of a certificate that are looked at.
const NAMES_MAX: usize = 16;

/// The names in a field of a certificate: the common name, or all URIs, in their order.
pub(crate) fn names(certificate: &[u8], field: NameField) -> Vec<Box<str>> {
    let found = match field {
        NameField::Off => None,
        NameField::CommonName => subject(certificate).and_then(|(subject, _)| common_name(subject)).map(|name| vec![name]),
        NameField::Uri => subject(certificate).and_then(|(_, rest)| uris(rest)),
    };
    let text = |name| std::str::from_utf8(name).ok().filter(|name: &&str| !name.is_empty() && !name.contains('\0'));
    found.unwrap_or_default().into_iter().filter_map(text).map(Into::into).collect()
}

/// The subject, and what comes behind it.
fn subject(certificate: &[u8]) -> Option<(Der<'_>, Der<'_>)> {
    let mut content = Der(certificate).enter(SEQUENCE)?.enter(SEQUENCE)?;
    // A version, the serial number, the algorithm, the issuer, and how long it is valid.
    let _ = content.take_optional(0xA0);
    for _ in 0..4 {
        content.next()?;
    }
    Some((content.enter(SEQUENCE)?, content))
}

fn common_name(mut subject: Der<'_>) -> Option<&[u8]> {
    while let Some(mut attributes) = subject.enter(SET) {
        while let Some(mut attribute) = attributes.enter(SEQUENCE) {
            if attribute.take(OBJECT)? == COMMON_NAME {
                return attribute.next().filter(|(tag, _)| TEXTS.contains(tag)).map(|(_, text)| text);
            }
        }
    }
    None
}

fn uris(mut content: Der<'_>) -> Option<Vec<&[u8]>> {
    let (_, extensions) = std::iter::from_fn(|| content.next()).find(|(tag, _)| *tag == EXTENSIONS)?;
    let mut extensions = Der(extensions).enter(SEQUENCE)?;
    while let Some(mut extension) = extensions.enter(SEQUENCE) {
        if extension.take(OBJECT)? == ALTERNATIVE_NAMES {
            let (_, value) = std::iter::from_fn(|| extension.next()).find(|(tag, _)| *tag == OCTETS)?;
            let mut names = Der(value).enter(SEQUENCE)?;
            let uris = std::iter::from_fn(|| names.next()).filter(|(tag, _)| *tag == URI);
            return Some(uris.map(|(_, uri)| uri).take(NAMES_MAX).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn names_are_found_where_they_are() {
        let directory = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls"));
        let names = |file: &str, field| {
            let certificates = files::certificates("tls-cert-file", &directory.join(file)).unwrap();
            super::names(&certificates[0], field).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("alice.crt", NameField::CommonName), ["alice"]);
        assert_eq!(names("alice.crt", NameField::Uri), ["urn:almandine:first", "urn:almandine:alice"]);
        assert!(names("alice.crt", NameField::Off).is_empty() && names("server.crt", NameField::Uri).is_empty());
        let whole = files::certificates("tls-cert-file", &directory.join("alice.crt")).unwrap().remove(0);
        for end in 0..whole.len() {
            let _ = [NameField::CommonName, NameField::Uri].map(|field| super::names(&whole[..end], field));
        }
    }
}
