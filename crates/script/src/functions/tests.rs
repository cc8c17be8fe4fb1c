//! Libraries: which there are, what is logged of changes, and which keep something.

use super::*;

const LIMIT: usize = 16 << 20;

fn library(name: &str, function: &str) -> Vec<u8> {
    format!("#!lua name={name}\nredis.register_function('{function}', function(keys, args) return keys[1] end)").into_bytes()
}

#[test]
fn libraries_come_whole_or_not_at_all() {
    let libraries = Libraries::default();
    assert_eq!(libraries.load(&library("one", "f"), false, LIMIT).unwrap().0, b"one");
    assert!(libraries.find(b"F").is_some() && libraries.find(b"g").is_none());
    let refused = libraries.load(&library("one", "g"), false, LIMIT).unwrap_err();
    assert_eq!(refused.0, b"ERR Library 'one' already exists");
    let refused = libraries.load(&library("two", "f"), false, LIMIT).unwrap_err();
    assert_eq!(refused.0, b"ERR Function f already exists");
    assert!(libraries.load(&library("one", "g"), true, LIMIT).is_ok());
    assert!(libraries.find(b"f").is_none() && libraries.find(b"g").is_some());
    let both = [library("three", "h"), library("four", "g")];
    assert!(libraries.restore(&both, RestorePolicy::Append, LIMIT).is_err() && libraries.totals().0 == 1);
    assert!(libraries.restore(&both, RestorePolicy::Flush, LIMIT).is_ok());
    assert_eq!((libraries.totals().0, libraries.totals().1), (2, 2));
    assert!(libraries.delete(b"four").is_some() && libraries.delete(b"four").is_none() && libraries.find(b"g").is_none());
    let (version, texts) = libraries.texts();
    assert_eq!(texts, [library("three", "h")]);
    libraries.flush();
    assert_eq!((libraries.totals(), libraries.texts()), ((0, 0, 0), (version + 1, vec![])));
    libraries.go_on_from(100);
    assert!(libraries.load(&library("one", "f"), false, LIMIT).is_ok() && libraries.texts().0 == 101);
}

/// As long as a change may be in the log before the one that it follows, the next one says which libraries there are.
#[test]
fn a_change_is_logged_alone_where_the_log_has_all_before() {
    use ChangeKind::{Any, Deleted, Loaded};
    let libraries = Libraries::default();
    let load = |name: &str| libraries.load(&library(name, name), true, LIMIT).unwrap().1;
    let logged = |change: LibraryChange| {
        libraries.logged(change.version);
        change.kind
    };
    assert_eq!(logged(load("one")), Any, "there were none: nothing says their version");
    assert_eq!((logged(load("two")), logged(libraries.delete(b"one").unwrap())), (Loaded, Deleted));
    let (before, behind) = (load("three"), load("four"));
    assert_eq!((before.kind, behind.kind), (Loaded, Any), "the one before is not in the log");
    assert_eq!((logged(before), load("five").kind, logged(behind)), (Loaded, Any, Any));
    assert_eq!(load("six").kind, Any, "the fifth is not in the log");
    libraries.logged(libraries.texts().0);
    let restored = libraries.restore(&[library("seven", "g")], RestorePolicy::Append, LIMIT).unwrap();
    assert_eq!((logged(restored), restored.version), (Loaded, libraries.texts().0));
    assert_eq!(libraries.restore(&[library("a", "b")], RestorePolicy::Flush, LIMIT).unwrap().kind, Any);
    assert_eq!(logged(libraries.flush().unwrap()), Any);
    libraries.go_on_from(100);
    assert_eq!((load("one").kind, libraries.texts().0), (Any, 101));
}

#[test]
fn libraries_are_told_apart_by_whether_they_keep_anything() {
    let libraries = Libraries::default();
    for (number, (code, keeps_nothing)) in [
        ("redis.register_function('f', function(keys) return keys[1] end)", true),
        ("local most = 3 local function g(n) return n + most end redis.register_function('f', function() return g(1) end)", true),
        ("local s = string redis.register_function('f', function() return s.rep('x', 3) end)", true),
        ("redis.register_function('f', function() local n = 0 local function up() n = n + 1 end up() return n end)", true),
        ("local n = 0 redis.register_function('f', function() n = n + 1 return n end)", false),
        ("local t = {} redis.register_function('f', function() t[1] = 1 return #t end)", false),
        ("local n = 0 local function up() n = n + 1 end redis.register_function('f', function() up() return n end)", false),
        ("local t = {} local function g() return t end redis.register_function('f', function() g()[1] = 1 end)", false),
        ("local w = string.gmatch('a b', '%a') redis.register_function('f', function() return w() end)", false),
    ]
    .into_iter()
    .enumerate()
    {
        let before = libraries.generation();
        let loaded = libraries.load(format!("#!lua name=one\n{code}").as_bytes(), number > 0, LIMIT);
        assert_eq!(loaded.unwrap().0, b"one", "{code}");
        assert_eq!(libraries.find(b"f").unwrap().keeps_nothing, keeps_nothing, "{code}");
        assert_ne!(libraries.generation(), before);
    }
}

#[test]
fn what_never_ends_is_not_loaded() {
    let libraries = Libraries::default();
    let refused = libraries.load(b"#!lua name=a\nwhile true do end", false, LIMIT).unwrap_err();
    assert_eq!(refused.0, b"ERR FUNCTION LOAD timeout");
    assert!(libraries.load(&library("a", "f"), false, LIMIT).is_ok());
}
