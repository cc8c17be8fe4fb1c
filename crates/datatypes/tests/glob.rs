//! Globs against redis-server and against a naive matcher.

mod oracle;

use almandine_datatypes::glob::{Case, matches};
use oracle::{Oracle, Random, command};
use proptest::prelude::*;

const ALPHABET: &[u8] = b"aabbcABz*??[[]]^^--\\\\\x00\xff\x80";

#[test]
fn patterns_select_the_keys_that_redis_selects() {
    let mut oracle = Oracle::start();
    let mut random = Random(5);
    let mut texts: Vec<_> = (0..150).map(|_| random.text(7, b"aabbcABz*?[]^-\\\x00\xff\x80")).collect();
    texts.push(Vec::new());
    texts.sort();
    texts.dedup();
    oracle.ask_all(&texts.iter().map(|text| command([b"SET", text, b""])).collect::<Vec<_>>());
    // "*" alone never reaches Redis' matcher.
    let patterns: Vec<_> = (0..4_000).map(|_| random.text(9, ALPHABET)).filter(|pattern| pattern != b"*").collect();
    let replies = oracle.ask_all(&patterns.iter().map(|pattern| command([b"KEYS", pattern])).collect::<Vec<_>>());
    for (pattern, reply) in patterns.iter().zip(replies) {
        let mut theirs: Vec<_> = reply.array().iter().map(|key| key.text().to_vec()).collect();
        theirs.sort();
        let ours: Vec<_> = texts.iter().filter(|text| matches(pattern, text, Case::Sensitive)).cloned().collect();
        assert_eq!(ours, theirs, "{}", pattern.escape_ascii());
    }
}

/// `CONFIG GET` ignores case; a text with special bytes finds nothing, and one without is a name or nothing.
#[test]
fn patterns_without_case_select_what_redis_selects() {
    let mut oracle = Oracle::start();
    let mut random = Random(6);
    let all = oracle.ask(&[b"CONFIG", b"GET", b"*"]);
    let names: Vec<_> = all.array().chunks(2).map(|pair| pair[0].text().to_vec()).collect();
    let pieces = ["*", "*", "?", "[A-M]", "[^N-z]", "[Z-a]", "[l-]", "m", "A", "x", "E", "-", "\\s", "[\\S\\e]"];
    let patterns: Vec<Vec<u8>> = (0..2_000)
        .map(|_| (0..=random.below(5)).map(|_| random.of(&pieces)).collect::<String>() + "*")
        .map(String::into_bytes)
        .collect();
    let commands: Vec<_> = patterns.iter().map(|pattern| command([b"CONFIG", b"GET", pattern])).collect();
    for (pattern, reply) in patterns.iter().zip(oracle.ask_all(&commands)) {
        let mut theirs: Vec<_> = reply.array().chunks(2).map(|pair| pair[0].text().to_vec()).collect();
        theirs.sort();
        let mut ours: Vec<_> = names.iter().filter(|name| matches(pattern, name, Case::Insensitive)).cloned().collect();
        ours.sort();
        assert_eq!(ours, theirs, "{}", pattern.escape_ascii());
    }
}

/// Stars and question marks only, by the definition.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
        ([first, pattern @ ..], [byte, text @ ..]) => (*first == b'?' || first == byte) && naive(pattern, text),
        _ => false,
    }
}

proptest! {
    #[test]
    fn stars_match_by_the_definition(pattern in "[ab*?]{0,8}", text in "[ab]{1,10}") {
        let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(matches(pattern, text, Case::Sensitive), naive(pattern, text));
    }

    #[test]
    fn an_escaped_text_matches_itself_only(
        text in prop::collection::vec(any::<u8>(), 0..20),
        other in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let escaped: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
        prop_assert!(matches(&escaped, &text, Case::Sensitive));
        prop_assert_eq!(matches(&escaped, &other, Case::Sensitive), text == other);
    }
}
