//! Words of a configuration file, which are text.

use almandine_base::words;

/// The words of `line`, or `None` when quotes are unbalanced or a word is not UTF-8.
#[must_use]
pub fn split(line: &str) -> Option<Vec<String>> {
    words::split(line.as_bytes())?.into_iter().map(|word| String::from_utf8(word).ok()).collect()
}

/// `word` in double quotes, so that [`split`] gives it back.
#[must_use]
pub fn quote(word: &str) -> String {
    let mut quoted = Vec::with_capacity(word.len() + 2);
    words::quote(word.as_bytes(), &mut quoted);
    quoted.into_iter().map(char::from).collect()
}
