//! The shape of a library of functions. Its code is not run here: what a file has is kept as text.

/// The name that the first line of a library gives it: `#!<engine> name=<name>`. None when it is no such line.
#[must_use]
pub fn library_name(code: &[u8]) -> Option<&[u8]> {
    let line = code.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next()?;
    let mut names = words.map(|word| word.strip_prefix(b"name="));
    let name = names.next()??;
    let is_name = |word: &[u8]| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (names.next().is_none() && is_name(engine) && is_name(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::library_name;

    #[test]
    fn the_first_line_names_a_library() {
        assert_eq!(library_name(b"#!lua name=mylib\nredis.register_function('f', f)"), Some(&b"mylib"[..]));
        assert_eq!(library_name(b"#!LUA  name=a_1 "), Some(&b"a_1"[..]));
        for wrong in ["", "return 1", "#!lua", "#!lua name=", "#!lua name=a name=b", "#!lua name=a-b", "#! name=a", "#!lua mode=x"]
        {
            assert_eq!(library_name(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
