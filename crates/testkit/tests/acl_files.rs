//! Users in files, of `aclfile` and of the configuration: loaded, saved, exchanged with other servers.
//! `ALMANDINE_TEST_SEED=n` repeats a run.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use almandine_testkit::users::{Generator, Pair, has_other_keys_in_redis, in_later_words, set, strings, without_commands, words};
use almandine_testkit::{Program, Server, Value};

#[test]
fn a_file_is_loaded_saved_and_loaded_again() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("users.acl");
    fs::write(&path, "user alice on >secret ~a* &* +@all\nuser bob off\nuser default on nopass ~* &* +@all\n").unwrap();
    let server = Server::start(&Program::Almandine, &["--aclfile", path.to_str().unwrap()]);
    let (mut admin, mut alice, mut listener) = (server.client(), server.client(), server.client());
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "bob", "default"]);
    assert_eq!(alice.line("AUTH alice secret"), Value::ok());
    assert_eq!(listener.line("AUTH alice secret"), Value::ok());
    listener.line("SUBSCRIBE news");
    // A mistake changes nothing, and no password is told.
    fs::write(&path, "user alice on >other +nosuch\nuser carol on >geheim nonsense\n").unwrap();
    let problems = admin.line("ACL LOAD").to_string();
    assert!(problems.contains(":1: Error in applying operation '+nosuch'") && problems.contains(":2: Syntax error."), "{problems}");
    assert!(!problems.contains("geheim") && !problems.contains("other"), "{problems}");
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "bob", "default"]);
    // Saved, the file says what holds, and has no password either.
    assert_eq!(admin.line("ACL SAVE"), Value::ok());
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("user alice on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~a* &* +@all\n"),
        "{text}"
    );
    assert!(text.contains("\nuser bob off resetchannels -@all\n") && !text.contains("secret"), "{text}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");
    // Alice may not listen any more and keeps her other connection; bob is gone.
    fs::write(&path, "user alice on >secret ~a* +@all\n").unwrap();
    assert_eq!(admin.line("ACL LOAD"), Value::ok());
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "default"]);
    assert_eq!(alice.line("GET a").to_string(), "(nil)");
    assert_eq!(listener.receive().unwrap(), Value::Closed);
    assert_eq!(alice.line("SUBSCRIBE news").to_string(), "-\"NOPERM No permissions to access a channel\"");
    // The configuration has no lines of users where there is a file.
    fs::write(&path, "").unwrap();
    assert_eq!(admin.line("ACL LOAD"), Value::ok());
    assert!(alice.line("PING") == Value::Closed || alice.receive().unwrap() == Value::Closed);
    fs::remove_dir_all(&directory).unwrap();
}

/// A directory that is gone at the end of a test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-acl-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files that Redis 8.0 and Valkey 9.1 have saved, with rules about commands that are not served here.
#[test]
fn files_of_other_servers_are_read_and_saved_unchanged() {
    let directory = Directory::new("others");
    for name in ["redis-8.0.6.acl", "valkey-9.1.2.acl"] {
        let original = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/acl").join(name);
        let text = fs::read_to_string(original).unwrap();
        let (as_users, as_lines) = (directory.0.join(name), directory.0.join(format!("{name}.conf")));
        fs::write(&as_users, &text).unwrap();
        fs::write(&as_lines, &text).unwrap();
        let sorted = |lines: Vec<String>| lines.into_iter().collect::<BTreeSet<String>>();
        let wanted = sorted(text.lines().map(str::to_owned).collect());
        assert!(wanted.len() > 45 && text.contains("+eval") && text.contains("cluster|"), "{name}");
        let server = Server::start(&Program::Almandine, &["--aclfile", as_users.to_str().unwrap()]);
        let mut client = server.client();
        assert_eq!(sorted(strings(&client.line("ACL LIST"))), wanted, "{name}");
        assert_eq!(client.line("ACL SAVE"), Value::ok());
        assert_eq!(sorted(fs::read_to_string(&as_users).unwrap().lines().map(str::to_owned).collect()), wanted, "{name}");
        assert_eq!(client.line("ACL LOAD"), Value::ok());
        let server = Server::start(&Program::Almandine, &[as_lines.to_str().unwrap()]);
        // A line about the default user begins with what `reset` leaves, as in Redis.
        let listed = strings(&server.client().line("ACL LIST"));
        let listed = listed.iter().map(|line| line.replace("user default on nopass sanitize-payload", "user default on nopass"));
        let wanted = wanted.iter().map(|line| line.replace("user default on nopass sanitize-payload", "user default on nopass"));
        assert_eq!(sorted(listed.collect()), sorted(wanted.collect()), "{name}");
    }
}

/// What redis-server saves is read here and permits the same; what is saved here is read there.
#[test]
fn files_go_to_redis_server_and_back() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let directory = Directory::new("exchange");
    let path = directory.0.join("users.acl");
    fs::write(&path, "").unwrap();
    let flags = ["--aclfile", path.to_str().unwrap()];
    let pair = Pair { ours: Server::start(&Program::Almandine, &flags), oracle: Server::start(&Program::Redis, &flags) };
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut generator = Generator::new(&pair, seed);
    for round in 0..2 {
        for user in 0..80 {
            let maker = if round == 0 { &mut theirs } else { &mut ours };
            set(maker, &format!("u{user}"), &generator.rules());
        }
        let (saves, reads) = if round == 0 { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
        assert_eq!(saves.line("ACL SAVE"), Value::ok());
        assert_eq!(reads.line("ACL LOAD"), Value::ok(), "seed {seed}: {}", fs::read_to_string(&path).unwrap());
        let users = strings(&theirs.line("ACL USERS"));
        assert!(users.len() > 40, "{users:?}");
        for user in users {
            let asks = format!("ACL GETUSER {user}");
            let (our_user, their_user) = (ours.line(&asks), theirs.line(&asks));
            assert_eq!(without_commands(&our_user), without_commands(&their_user), "seed {seed}, {user}");
            for _ in 0..20 {
                let call = [words(&format!("ACL DRYRUN {user}")), generator.call()].concat();
                let (our, their) = (ours.call(&call).unwrap(), in_later_words(theirs.call(&call).unwrap(), &user));
                let keys = theirs.call(&[words("COMMAND GETKEYS"), call[3..].to_vec()].concat()).unwrap();
                let is_known = keys.is_error() || has_other_keys_in_redis(&call[3..]);
                assert!(our == their || is_known, "seed {seed}: {call:?}\nours   {our}\ntheirs {their}");
            }
        }
    }
}

fn refusal(flags: &[&str]) -> String {
    match Server::try_start(&Program::Almandine, flags, &[]) {
        Ok(_) => panic!("{flags:?} starts"),
        Err(problem) => problem,
    }
}

#[test]
fn a_server_that_restricts_less_than_it_was_told_to_does_not_start() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-start-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("users.acl");
    let file = path.to_str().unwrap();
    assert!(refusal(&["--aclfile", file]).contains("Error loading ACLs, opening file"));
    fs::write(&path, "user a on +nosuch\n").unwrap();
    assert!(refusal(&["--aclfile", file]).contains("Unknown command or category name in ACL"));
    fs::write(&path, "user a on\n").unwrap();
    assert!(
        refusal(&["--aclfile", file, "--user", "b", "on"]).contains("please define either an ACL file or declare users directly")
    );
    assert!(
        refusal(&["--user", "b", "on", "nonsense"])
            .contains("Error loading ACL rule 'nonsense' for the user named 'b': Syntax error")
    );
    let hidden = refusal(&["--user", "b", "<geheim"]);
    assert!(hidden.contains("does not exist") && !hidden.contains("geheim"), "{hidden}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn users_are_written_into_the_configuration_and_read_again() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-conf-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("a.conf");
    fs::write(&path, "# mine\nuser old on nopass\nuser gone on nopass\ntimeout 0\n").unwrap();
    let rewritten = {
        let server = Server::start(&Program::Almandine, &[path.to_str().unwrap()]);
        let mut admin = server.client();
        admin.line("ACL SETUSER old ~o* +get");
        admin.line("ACL DELUSER gone");
        admin.line("ACL SETUSER new on >secret (%R~x +@read)");
        assert_eq!(admin.line("CONFIG REWRITE"), Value::ok());
        admin.line("ACL LIST")
    };
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\n") && !text.contains("gone") && !text.contains("secret"), "{text}");
    // The directory of the first server is gone.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("dir ")).collect();
    fs::write(&path, lines.join("\n")).unwrap();
    let server = Server::start(&Program::Almandine, &[path.to_str().unwrap()]);
    // A line about the default user begins with what `reset` leaves, as in Redis.
    let read = server.client().line("ACL LIST").to_string().replacen(" sanitize-payload", "", 1);
    assert_eq!(read, rewritten.to_string(), "{text}");
    fs::remove_dir_all(&directory).unwrap();
}
