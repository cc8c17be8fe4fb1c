//! The first line of a script: `#!lua name=library flags=no-writes,allow-oom`.

use almandine_base::words;

use crate::ScriptError;
use crate::flags::ScriptFlags;

/// What the first line of a script that EVAL gets says, and where its code begins: at the end of that line, whose number counts.
pub(crate) fn of_script(body: &[u8]) -> Result<(ScriptFlags, &[u8]), ScriptError> {
    if !body.starts_with(b"#!") {
        return Ok((ScriptFlags::COMPATIBLE, body));
    }
    let end = body.iter().position(|byte| *byte == b'\n').ok_or_else(|| ScriptError::new("ERR Invalid script shebang"))?;
    let words = words::split(&body[..end]).ok_or_else(|| ScriptError::new("ERR Invalid engine in script shebang"))?;
    let Some((engine, options)) = words.split_first() else {
        return Err(ScriptError::new("ERR Invalid engine in script shebang"));
    };
    if !engine.eq_ignore_ascii_case(b"#!lua") {
        return Err(ScriptError::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return Err(ScriptError::quoting("ERR Unknown lua shebang option: ", option, ""));
        };
        for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
            let flag = ScriptFlags::named(name)
                .ok_or_else(|| ScriptError::quoting("ERR Unexpected flag in script shebang: ", name, ""))?;
            flags = flags.with(flag);
        }
    }
    Ok((flags, &body[end..]))
}

/// The name that the first line of a library gives it, and where its code begins.
pub(crate) fn of_library(code: &[u8]) -> Result<(Vec<u8>, &[u8]), ScriptError> {
    if !code.starts_with(b"#!") {
        return Err(ScriptError::new("ERR Missing library metadata"));
    }
    let invalid = || ScriptError::new("ERR Invalid library metadata");
    let end = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = words::split(&code[..end]).ok_or_else(invalid)?;
    let (engine, options) = words.split_first().ok_or_else(invalid)?;
    let mut name = None;
    for option in options {
        match option.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                return Err(ScriptError::new("ERR Invalid metadata value, name argument was given multiple times"));
            }
            Some(value) => name = Some(value.to_vec()),
            None => return Err(ScriptError::quoting("ERR Invalid metadata value given: ", option, "")),
        }
    }
    let name = name.ok_or_else(|| ScriptError::new("ERR Library name was not given"))?;
    if !is_name(&name) {
        return Err(ScriptError::new(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"#!lua") {
        return Err(ScriptError::quoting("ERR Engine '", &engine[2..], "' not found"));
    }
    Ok((name, &code[end..]))
}

/// Letters, digits and underscores.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        String::from_utf8(of_script(body.as_bytes()).unwrap_err().0).unwrap()
    }

    #[test]
    fn flags_are_read_and_the_line_stays() {
        assert_eq!(of_script(b"return 1").unwrap(), (ScriptFlags::COMPATIBLE, &b"return 1"[..]));
        let (flags, code) = of_script(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert_eq!(flags, ScriptFlags::NO_WRITES.with(ScriptFlags::ALLOW_OOM));
        assert_eq!(code, b"\nreturn 1");
        assert_eq!(of_script(b"#!LUA\n").unwrap().0, ScriptFlags::default());
        assert_eq!(of_script(b"#!lua flags=\n").unwrap().0, ScriptFlags::default());
    }

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_redis() {
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(error("#!not-lua\n"), "ERR Unexpected engine in script shebang: #!not-lua");
        assert_eq!(error("#!lua badger=data\n"), "ERR Unknown lua shebang option: badger=data");
        assert_eq!(error("#!lua flags=allow-what\n"), "ERR Unexpected flag in script shebang: allow-what");
        assert_eq!(error("#!lua 'x\n"), "ERR Invalid engine in script shebang");
    }
}
