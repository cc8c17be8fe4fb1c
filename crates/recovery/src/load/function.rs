//! The shape of a library of functions. Its code is not run here: what a file has is kept as text.

use almandine_base::words;

/// The name that the first line of a library gives it: `#!<engine> name=<name>`. None when it is no such line.
#[must_use]
pub fn library_name(code: &[u8]) -> Option<Vec<u8>> {
    let words = words::split(code.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?)?;
    let [engine, name] = &words[..] else { return None };
    let name = name.strip_prefix(b"name=")?;
    let is_name = |word: &[u8]| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (is_name(engine) && is_name(name)).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::library_name;

    #[test]
    fn the_first_line_names_a_library() {
        assert_eq!(library_name(b"#!lua name=mylib\nredis.register_function('f', f)"), Some(b"mylib".to_vec()));
        assert_eq!(library_name(b"#!LUA  name=a_1 "), Some(b"a_1".to_vec()));
        assert_eq!(library_name(b"#!lua 'name=quoted'\n"), Some(b"quoted".to_vec()));
        assert_eq!(library_name(b"#!lua name=\"b\"\n"), Some(b"b".to_vec()));
        for wrong in ["", "return 1", "#!lua", "#!lua name=", "#!lua name=a name=b", "#!lua name=a-b", "#! name=a", "#!lua mode=x"]
        {
            assert_eq!(library_name(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
