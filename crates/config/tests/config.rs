//! What users of the crate rely on: loading, atomic changes, views, rewriting.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::PathBuf;

use almandine_config::choices::{Allowed, IoBackend};
use almandine_config::config::{Directive, View};
use almandine_config::{Config, LoadError, SetError, Startup, Stated};

struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("almandine-config-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load(args: &[&str]) -> Result<Config, LoadError> {
    match Config::load(&args.iter().map(ToString::to_string).collect::<Vec<_>>())? {
        Startup::Run(config) => Ok(*config),
        Startup::Print(text) => Err(LoadError(text)),
        Startup::Check(report) => panic!("{report:?}"),
    }
}

#[test]
fn the_command_line_wins_over_the_file() {
    let dir = Directory::new("wins");
    let file = dir.write("a.conf", "port 1\ntimeout 5\nSAVE 900 1\nsave 60 2 30 3\nuser bob on >x\nrename-command KEYS \"\"\n");
    let config = load(&[&file, "--port", "7000", "--workers", "3", "--io-backend", "epoll", "--bind", "127.0.0.1", "::1"]).unwrap();
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    assert_eq!((settings.network.port, settings.connections.timeout_s, settings.engine.workers), (7000, 5, 3));
    assert_eq!(settings.engine.io_backend, IoBackend::Epoll);
    assert_eq!(settings.network.bind, ["127.0.0.1", "::1"]);
    assert_eq!(snapshot.show("save").unwrap(), "900 1 60 2 30 3");
    let directive = |name, words: &[&str]| Directive { name, words: words.iter().map(ToString::to_string).collect() };
    assert_eq!(config.directives(), [directive("user", &["bob", "on", ">x"]), directive("rename-command", &["KEYS", ""])]);
    assert_eq!(config.file().unwrap().to_str().unwrap(), file);
    assert_eq!(load(&[&file, "--save", ""]).unwrap().snapshot().show("save").unwrap(), "");
}

#[test]
fn includes_follow_patterns_and_name_the_file_that_fails() {
    let dir = Directory::new("include");
    dir.write("b1.inc", "port 1\ntimeout 5\n");
    dir.write("b2.inc", "port 2\n");
    let all = dir.write("all.conf", &format!("include {0}/b*.inc\ninclude {0}/none*.inc\n", dir.0.display()));
    let config = load(&[&all]).unwrap();
    assert_eq!((config.snapshot().settings.network.port, config.snapshot().settings.connections.timeout_s), (2, 5));
    let itself = dir.write("loop.conf", &format!("include {}/loop.conf\n", dir.0.display()));
    assert!(load(&[&itself]).unwrap_err().0.contains("Too many nested include directives"));
    let bad = dir.write("b3.inc", "\nport x\n");
    assert!(load(&[&all]).unwrap_err().0.contains("at line 2\n>>> 'port x'\nargument couldn't be parsed"), "{bad}");
}

#[test]
fn what_is_not_served_is_refused() {
    assert!(load(&["--version"]).unwrap_err().0.starts_with("Almandine server v="));
    assert!(load(&["-h"]).unwrap_err().0.starts_with("Usage: almandine-server"));
    assert!(load(&["--test-memory", "4"]).is_err());
    assert!(load(&["x.conf", "--sentinel"]).is_err());
}

#[test]
fn a_mistyped_parameter_gets_a_suggestion() {
    let error = |args: &[&str]| load(args).unwrap_err().0;
    assert!(error(&["--max-memory", "1gb"]).ends_with("There is no parameter 'max-memory'. Did you mean 'maxmemory'?\n"));
    assert!(error(&["--holiday", "1"]).ends_with("\nBad directive or wrong number of arguments\n"));
    assert!(error(&["-p", "7000"]).contains("begin with two dashes"));
}

#[test]
fn a_change_is_seen_by_views_once_and_as_a_whole() {
    let config = Config::defaults();
    let mut view = View::new(&config);
    assert!(!view.refresh(&config));
    let changed = config.set(&[(b"timeout", b"9"), (b"maxclients", b"10000")], true, |_, _| Ok(())).unwrap();
    assert_eq!(changed.iter().map(|p| p.name).collect::<Vec<_>>(), ["timeout"]);
    assert_eq!(view.settings().connections.timeout_s, 0);
    assert!(view.refresh(&config) && !view.refresh(&config));
    assert_eq!(view.settings().connections.timeout_s, 9);
    let generation = config.generation();
    assert!(config.set(&[(b"timeout", b"9")], true, |_, _| Ok(())).unwrap().is_empty());
    assert_eq!(config.generation(), generation);
}

#[test]
fn what_has_no_effect_is_told() {
    let config = load(&["--save", "", "--hz", "20", "--timeout", "5", "--io-threads", "1"]).unwrap();
    assert_eq!(config.snapshot().without_effect().map(|p| p.name).collect::<Vec<_>>(), ["hz"]);
}

#[test]
fn save_points_are_those_of_redis_unless_the_data_is_elsewhere() {
    let save = |args: &[&str]| load(args).unwrap().snapshot().show("save").unwrap();
    assert_eq!(save(&[]), "3600 1 300 100 60 10000");
    assert_eq!(save(&["--hz", "20"]), "3600 1 300 100 60 10000");
    assert_eq!(save(&["--storage-dir", "/x"]), "");
    assert_eq!(save(&["--storage-device", "memory"]), "");
    assert_eq!(save(&["--storage-dir", "/x", "--save", "900 1"]), "900 1");
    assert_eq!(save(&["--save", ""]), "");
}

#[test]
fn what_promises_safety_that_is_not_there_is_refused() {
    let promises =
        [["rdma-port", "6380"], ["replicaof", "10.0.0.1 6379"], ["min-replicas-to-write", "1"], ["cluster-enabled", "yes"]];
    let dir = Directory::new("promises");
    for [name, value] in promises {
        let error = load(&[&format!("--{name}"), value]).unwrap_err().0;
        assert!(error.contains(&format!("'{name} {value}': There ")), "{error}");
        let file = dir.write("a.conf", &format!("{name} {value}\n"));
        assert!(load(&[&file]).is_err(), "{name}");
    }
    // The last word counts, and defaults may be said.
    let file = dir.write("b.conf", "cluster-enabled yes\nmin-replicas-to-write 0\nreplicaof no one\nimport-mode no\n");
    let config = load(&[&file, "--cluster-enabled", "no"]).unwrap();
    let error = config.set(&[(b"timeout", b"9"), (b"import-mode", b"yes")], true, |_, _| Ok(())).unwrap_err().to_string();
    assert!(error.starts_with("CONFIG SET failed (possibly related to argument 'import-mode') - Expiry cannot"), "{error}");
    assert_eq!(config.snapshot().settings.connections.timeout_s, 0);
    config.set(&[(b"import-mode", b"no")], true, |_, _| Ok(())).unwrap();
}

#[test]
fn a_failed_change_is_taken_back() {
    let config = Config::defaults();
    let mut applied = Vec::new();
    let result = config.set(&[(b"port", b"1"), (b"timeout", b"9")], true, |settings, _| {
        applied.push(settings.network.port);
        match settings.network.port {
            1 => Err(SetError::failed("port", "Unable to listen on this port. Check server logs.")),
            _ => Ok(()),
        }
    });
    let text = "CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.";
    assert_eq!(result.unwrap_err().to_string(), text);
    assert_eq!(applied, [1, 6379]);
    assert_eq!((config.snapshot().settings.network.port, config.generation()), (6379, 0));
}

#[test]
fn protected_parameters_follow_the_switch() {
    assert!(!Allowed::Local.permits(false) && Allowed::Local.permits(true) && Allowed::Yes.permits(false));
    let config = load(&["--enable-protected-configs", "local"]).unwrap();
    let error = config.set(&[(b"dbfilename", b"x")], false, |_, _| Ok(())).unwrap_err();
    assert_eq!(error, SetError::failed("dbfilename", "can't set protected config"));
    config.set(&[(b"dbfilename", b"x")], true, |_, _| Ok(())).unwrap();
}

#[test]
fn patterns_find_each_parameter_once_and_hidden_ones_by_name_only() {
    let config = Config::defaults();
    let starts = |pattern: &[u8], name: &[u8]| name.starts_with(pattern.strip_suffix(b"*").unwrap_or(pattern));
    let found = config.get([&b"slave-p*"[..], b"SLAVE-PRIORITY", b"maxm*", b"maxmemory", b"watchdog*"], starts);
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let expected = ["maxmemory", "maxmemory-clients", "maxmemory-eviction-tenacity", "maxmemory-policy", "maxmemory-samples"];
    assert_eq!(names[..5], expected);
    assert_eq!(names[5..], ["slave-priority"]);
    assert_eq!(config.get([&b"watchdog-period"[..]], starts), [("watchdog-period", "0".to_owned())]);
}

#[test]
fn a_rewritten_file_loads_to_the_same_values() {
    let dir = Directory::new("rewrite");
    let file = dir.write("a.conf", "# keep me\nport 1\n");
    let config = load(&[&file]).unwrap();
    let pairs: [(&[u8], &[u8]); 6] = [
        (b"requirepass", b"a \"b\"\n\\c"),
        (b"client-output-buffer-limit", b"pubsub 1mb 1kb 5"),
        (b"shutdown-on-sigterm", b"nosave now"),
        (b"latency-tracking-info-percentiles", b""),
        (b"notify-keyspace-events", b"KEA"),
        (b"save", b""),
    ];
    config.set(&pairs, true, |_, _| Ok(())).unwrap();
    config.rewrite(Stated::AsNeeded, &[]).unwrap();
    let again = load(&[&file]).unwrap();
    assert_eq!(again.get([&b"*"[..]], |_, _| true), config.get([&b"*"[..]], |_, _| true));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("# keep me\nport 1\n\n# Generated by CONFIG REWRITE\n"));
    assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 1);
    assert_eq!(Config::defaults().rewrite(Stated::AsNeeded, &[]).unwrap_err(), "The server is running without a config file");
}

#[test]
fn a_file_that_states_everything_means_the_same() {
    let dir = Directory::new("all");
    let file = dir.write("all.conf", "timeout 7\nclient-output-buffer-limit pubsub 1 2 3\n");
    let before = load(&[&file]).unwrap();
    before.rewrite(Stated::All, &[]).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\nmaxclients 10000\n") && text.contains("\nworkers 0\n"), "{text}");
    let after = load(&[&file]).unwrap();
    let all = |config: &Config| config.get([&b"*"[..]], |_, _| true);
    assert_eq!(all(&before), all(&after));
}

#[test]
fn a_check_finds_everything_that_is_wrong_with_its_place() {
    let dir = Directory::new("check");
    let included = dir.write("b.conf", "timeout 5\nmaxmemory 5 apples\n");
    let text = format!(
        "# fine\nport 7000\nmaxmemroy 1gb\ninclude {included}\nhz 50\ncluster-enabled yes\nbad \"quote\ninclude /nowhere\n"
    );
    let file = dir.write("a.conf", &text);
    let check = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let Startup::Check(report) = Config::load(&args).unwrap() else { panic!("{args:?}") };
        report
    };
    let report = check(&["--check-config", &file, "--prot", "1", "--timeout", "x"]);
    let expected = [
        format!(
            "{file}:3: 'maxmemroy 1gb': Bad directive or wrong number of arguments There is no parameter 'maxmemroy'. Did you \
             mean 'maxmemory'?"
        ),
        format!("{included}:2: 'maxmemory 5 apples': wrong number of arguments"),
        format!("{file}:7: 'bad \"quote': Unbalanced quotes in configuration line"),
        format!("{file}:8: Fatal error, can't open config file '/nowhere': No such file or directory"),
        "command line: 'prot \"1\"': Bad directive or wrong number of arguments There is no parameter 'prot'. Did you mean 'port'?"
            .to_owned(),
        "command line: 'timeout \"x\"': argument couldn't be parsed into an integer".to_owned(),
        format!("{file}:6: 'cluster-enabled yes': There is no cluster yet. Set it to no to start a single server."),
    ];
    assert_eq!(report.errors, expected);
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    assert!(report.notes[0].starts_with(&format!("{file}:5: 'hz' has no effect. ")), "{:?}", report.notes);
    let sound = check(&["--check-config", &dir.write("c.conf", "port 7000\nsave \"\"\n")]);
    assert!(sound.errors.is_empty() && sound.notes.is_empty(), "{sound:?}");
}
