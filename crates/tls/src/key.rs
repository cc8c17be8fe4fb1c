//! Private keys: plain, or encrypted with a passphrase as PKCS #8 has it (RFC 8018: PBES2 with PBKDF2 and AES-CBC), which is what
//! OpenSSL writes.

use std::num::NonZeroU32;
use std::path::Path;

use aws_lc_rs::cipher::{AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::der::{Der, INTEGER, OBJECT, OCTETS, SEQUENCE};
use crate::files;
use crate::options::TlsFault;

const PBES2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x05, 0x0D];
const PBKDF2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x05, 0x0C];
/// What begins the object of a hash by which keys are derived; its last byte says which.
const HMAC: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x02];
/// The same of a cipher.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
/// More rounds of derivation would keep a server from starting.
const ROUNDS_MAX: u32 = 100_000_000;

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// What turns any other encrypted key into one that can be read.
const CONVERT: &str = "convert it with 'openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW'";

/// The key of a file. The passphrase may be empty.
pub(crate) fn read(path: &Path, password: &str) -> Result<PrivateKeyDer<'static>, TlsFault> {
    let file = path.display();
    let bytes = files::read("tls-key-file", path)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(TlsFault::new("tls-key-file", format!("{file} is encrypted in an old way: {CONVERT}")));
    }
    let Some((_, rest)) = text.split_once(BEGIN) else {
        return PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|error| TlsFault::new("tls-key-file", format!("{file} has no private key that can be read (PEM): {error}")));
    };
    if password.is_empty() {
        return Err(TlsFault::new("tls-key-file-pass", format!("{file} is encrypted: set its passphrase")));
    }
    let der = rest.split_once(END).and_then(|(body, _)| base64(body));
    let Some(encrypted) = der.as_deref().and_then(Encrypted::parse) else {
        return Err(TlsFault::new(
            "tls-key-file",
            format!("{file} is damaged, or not encrypted with PBKDF2 and AES-CBC: {CONVERT}"),
        ));
    };
    let key = encrypted.decrypt(password).map(PrivatePkcs8KeyDer::from).map(PrivateKeyDer::Pkcs8);
    key.ok_or_else(|| TlsFault::new("tls-key-file-pass", format!("this is not the passphrase of {file}")))
}

/// A key, and how it is encrypted.
struct Encrypted<'a> {
    derivation: pbkdf2::Algorithm,
    salt: &'a [u8],
    rounds: NonZeroU32,
    cipher: &'static Algorithm,
    key_bytes: usize,
    vector: [u8; 16],
    data: &'a [u8],
}

impl<'a> Encrypted<'a> {
    fn parse(der: &'a [u8]) -> Option<Self> {
        let mut whole = Der(der).enter(SEQUENCE)?;
        let mut scheme = whole.enter(SEQUENCE)?;
        let data = whole.take(OCTETS)?;
        let mut parameters = (scheme.take(OBJECT)? == PBES2).then(|| scheme.enter(SEQUENCE))??;
        let mut derivation = parameters.enter(SEQUENCE)?;
        let mut derivation = (derivation.take(OBJECT)? == PBKDF2).then(|| derivation.enter(SEQUENCE))??;
        let salt = derivation.take(OCTETS)?;
        let rounds =
            derivation.take(INTEGER)?.iter().try_fold(0_u32, |rounds, &byte| rounds.checked_mul(256)?.checked_add(byte.into()))?;
        // The length of the key follows from the cipher.
        let _ = derivation.take_optional(INTEGER);
        let hash = derivation.enter(SEQUENCE).and_then(|mut hash| hash.take(OBJECT));
        let derivation = match hash.map(|hash| hash.strip_prefix(HMAC)) {
            None | Some(Some([7])) => pbkdf2::PBKDF2_HMAC_SHA1,
            Some(Some([9])) => pbkdf2::PBKDF2_HMAC_SHA256,
            Some(Some([10])) => pbkdf2::PBKDF2_HMAC_SHA384,
            Some(Some([11])) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return None,
        };
        let mut cipher = parameters.enter(SEQUENCE)?;
        let (key_bytes, algorithm) = match cipher.take(OBJECT)?.strip_prefix(AES)? {
            [2] => (16, &AES_128),
            [22] => (24, &AES_192),
            [42] => (32, &AES_256),
            _ => return None,
        };
        let vector = cipher.take(OCTETS)?.try_into().ok()?;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?;
        Some(Self { derivation, salt, rounds, cipher: algorithm, key_bytes, vector, data })
    }

    /// None when the passphrase is wrong: what comes out is padded wrongly then, or is no key.
    fn decrypt(&self, password: &str) -> Option<Vec<u8>> {
        let mut key = [0; 32];
        let key = &mut key[..self.key_bytes];
        pbkdf2::derive(self.derivation, self.rounds, self.salt, password.as_bytes(), key);
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(self.cipher, key).ok()?).ok()?;
        let mut data = self.data.to_vec();
        let vector = DecryptionContext::Iv128(FixedLength::from(self.vector));
        let plain = key.decrypt(&mut data, vector).ok()?.to_vec();
        Der(&plain).enter(SEQUENCE)?.take(INTEGER)?;
        Some(plain)
    }
}

/// The bytes of base64, in lines.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| !letter.is_ascii_whitespace() && *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xFF) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> std::path::PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls")).to_owned()
    }

    #[test]
    fn an_encrypted_key_is_the_plain_one_with_its_passphrase_only() {
        let plain = read(&tests().join("server.key"), "").unwrap();
        let path = tests().join("server-encrypted.key");
        assert_eq!(read(&path, "a passphrase").unwrap().secret_der(), plain.secret_der());
        assert_eq!(read(&path, "").unwrap_err().text, format!("{} is encrypted: set its passphrase", path.display()));
        for wrong in ["another", "a passphras", "A passphrase"] {
            let fault = read(&path, wrong).unwrap_err();
            assert!(fault.parameter == "tls-key-file-pass" && fault.text.starts_with("this is not the passphrase"), "{fault}");
        }
        let fault = read(&tests().join("server.crt"), "").unwrap_err();
        assert!(fault.text.contains("has no private key"), "{fault}");
    }

    #[test]
    fn whatever_is_cut_off_or_changed_is_refused() {
        let text = String::from_utf8(std::fs::read(tests().join("server-encrypted.key")).unwrap()).unwrap();
        let body = text.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0;
        let der = base64(body).unwrap();
        assert!(Encrypted::parse(&der).is_some());
        // The end is the data's, which a parser cannot tell to be cut without the length before it.
        assert!((0..der.len()).all(|end| Encrypted::parse(&der[..end]).is_none()));
        assert_eq!(base64("QUJD\nREU=\n").unwrap(), b"ABCDE");
        assert_eq!(base64("QU*D"), None);
    }
}
