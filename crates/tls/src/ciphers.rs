//! Versions and ciphers by OpenSSL's names, which is how Redis' parameters have them.
//!
//! There are nine ciphers, all of them with forward secrecy and authenticated; so what a list excludes is mostly not there anyhow.

use rustls::SupportedCipherSuite;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedProtocolVersion};

use crate::options::TlsFault;

/// Ciphers of TLS 1.2: OpenSSL's name, and the words that select it, too.
const NAMES_12: [(CipherSuite, &str, &[&str]); 6] = [
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        &["aECDSA", "ECDSA", "AES", "AESGCM", "AES256", "SHA384"],
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        &["aECDSA", "ECDSA", "AES", "AESGCM", "AES128", "SHA256"],
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        &["aECDSA", "ECDSA", "CHACHA20", "SHA256"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384",
        &["aRSA", "RSA", "AES", "AESGCM", "AES256", "SHA384"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256",
        &["aRSA", "RSA", "AES", "AESGCM", "AES128", "SHA256"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305",
        &["aRSA", "RSA", "CHACHA20", "SHA256"],
    ),
];
/// Words that select all of them.
const ALL_12: [&str; 8] = ["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2"];

/// Ciphers of TLS 1.3.
const NAMES_13: [(CipherSuite, &str); 3] = [
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
];

/// The versions that `tls-protocols` names; both when it names none.
pub(crate) fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsFault> {
    let mut versions = Vec::new();
    for word in words(text, " \t,") {
        let version = match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => &TLS12,
            "tlsv1.3" => &TLS13,
            "tlsv1" | "tlsv1.0" | "tlsv1.1" => {
                return Err(TlsFault::new("tls-protocols", format!("{word} is broken and not served: use TLSv1.2 and TLSv1.3")));
            }
            _ => return Err(TlsFault::new("tls-protocols", format!("there is no {word}: use TLSv1.2 and TLSv1.3"))),
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

/// Of `all`, the ciphers that `tls-ciphersuites` and `tls-ciphers` name, in their order; all of a version when nothing is named.
pub(crate) fn choose(all: Vec<SupportedCipherSuite>, suites: &str, ciphers: &str) -> Result<Vec<SupportedCipherSuite>, TlsFault> {
    let wanted = [chosen_13(suites)?, chosen_12(ciphers)?].concat();
    Ok(wanted.iter().filter_map(|wanted| all.iter().find(|suite| suite.suite() == *wanted)).copied().collect())
}

fn chosen_13(text: &str) -> Result<Vec<CipherSuite>, TlsFault> {
    let find = |word: &str| {
        let known = NAMES_13.iter().find(|(_, name)| name.eq_ignore_ascii_case(word)).map(|(suite, _)| *suite);
        known.ok_or_else(|| {
            TlsFault::new(
                "tls-ciphersuites",
                format!("there is no {word}: use some of {}", NAMES_13.map(|(_, name)| name).join(":")),
            )
        })
    };
    let chosen = words(text, ": \t,").map(find).collect::<Result<Vec<_>, _>>()?;
    Ok(if chosen.is_empty() { NAMES_13.map(|(suite, _)| suite).to_vec() } else { chosen })
}

/// A word adds what it selects. Behind `!` it removes that for good, behind `-` for now; behind `+` it comes last.
fn chosen_12(text: &str) -> Result<Vec<CipherSuite>, TlsFault> {
    let (mut chosen, mut banned) = (Vec::new(), Vec::new());
    let text = if text.trim().is_empty() { "ALL" } else { text };
    for word in words(text, ": \t,").filter(|word| !word.starts_with('@')) {
        let (sign, word) = match word.chars().next() {
            Some(sign @ ('!' | '-' | '+')) => (sign, &word[1..]),
            _ => (' ', word),
        };
        let selected: Vec<CipherSuite> = NAMES_12.iter().filter(|entry| selects(word, entry)).map(|(suite, ..)| *suite).collect();
        let before: Vec<CipherSuite> = std::mem::take(&mut chosen);
        let (inside, mut outside): (Vec<_>, Vec<_>) = before.into_iter().partition(|suite| selected.contains(suite));
        match sign {
            '!' => banned.extend(selected),
            '-' => {}
            '+' => outside.extend(inside),
            _ => {
                outside.clone_from(&[outside.clone(), inside.clone()].concat());
                outside.extend(selected.into_iter().filter(|suite| !inside.contains(suite)));
            }
        }
        chosen = outside;
    }
    chosen.retain(|suite| !banned.contains(suite));
    if chosen.is_empty() {
        let names = NAMES_12.map(|(_, name, _)| name).join(":");
        return Err(TlsFault::new("tls-ciphers", format!("'{text}' leaves none: use some of {names}")));
    }
    Ok(chosen)
}

/// Whether a word selects a cipher; of words joined by `+` all must.
fn selects(word: &str, (_, name, tags): &(CipherSuite, &str, &[&str])) -> bool {
    word.split('+').all(|part| part == *name || ALL_12.contains(&part) || tags.contains(&part))
}

fn words<'a>(text: &'a str, separators: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(|letter| separators.contains(letter)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<&'static str>, TlsFault> {
        let name = |suite| NAMES_12.iter().find(|(known, ..)| *known == suite).unwrap().1;
        chosen_12(text).map(|chosen| chosen.into_iter().map(name).collect())
    }

    #[test]
    fn lists_of_openssl_select_what_they_select_there() {
        for all in ["", "DEFAULT", "HIGH:!aNULL:!MD5", "DEFAULT:!MEDIUM", "ALL:@SECLEVEL=2", "ECDHE+AESGCM:ECDHE+CHACHA20"] {
            assert_eq!(names(all).unwrap().len(), 6, "{all}");
        }
        let two = ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"];
        assert_eq!(names(&two.join(":")).unwrap(), two, "in the stated order");
        assert_eq!(names("aRSA:-AES256:+AES128").unwrap(), two);
        assert_eq!(names("!AES256:aRSA:!CHACHA20").unwrap(), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        for none in ["AES128-SHA", "!ALL", "ECDHE:!AES:!CHACHA20", "DHE-RSA-AES256-GCM-SHA384"] {
            assert!(names(none).unwrap_err().text.contains("leaves none: use some of ECDHE-"), "{none}");
        }
    }

    #[test]
    fn versions_and_suites_are_those_that_there_are() {
        assert_eq!(versions("").unwrap(), [&TLS13, &TLS12]);
        assert_eq!(versions("TLSv1.2 tlsv1.3 TLSv1.2").unwrap(), [&TLS12, &TLS13]);
        assert!(versions("TLSv1.1 TLSv1.2").unwrap_err().text.contains("broken") && versions("SSLv3").is_err());
        assert_eq!(chosen_13("TLS_CHACHA20_POLY1305_SHA256").unwrap(), [CipherSuite::TLS13_CHACHA20_POLY1305_SHA256]);
        assert!(chosen_13("").unwrap().len() == 3 && chosen_13("TLS_AES_128_CCM_SHA256").is_err());
        let all = rustls::crypto::aws_lc_rs::default_provider().cipher_suites;
        assert_eq!(choose(all, "", "").unwrap().len(), 9, "the provider has no others");
    }
}
