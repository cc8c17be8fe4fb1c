//! What an operator reads when a server starts, or does not.

use std::fs;

use almandine_testkit::{Program, Server, Value};

fn refusal(flags: &[&str]) -> String {
    Server::try_start(&Program::Almandine, flags, &[]).err().unwrap_or_else(|| panic!("{flags:?} started"))
}

fn line_with<'l>(log: &'l str, text: &str) -> &'l str {
    log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no '{text}' in\n{log}"))
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

#[test]
fn the_log_says_what_was_configured_and_what_has_no_effect() {
    let server = Server::start(
        &Program::Almandine,
        &["--hz", "50", "--import-mode", "no", "--extended-redis-compatibility", "yes", "--storage-dir", "{dir}/s"],
    );
    let log = server.log();
    line_with(&log, "# Accepted and without effect: extended-redis-compatibility, hz");
    line_with(&log, "No configuration file");
    line_with(&log, "three quarters of the machine's");
    assert!(!log.contains("No memory limit"), "{log}");
    let mut client = server.client();
    assert_eq!(client.line("CONFIG SET hz 20 timeout 100"), ok());
    line_with(&server.log(), "# Accepted and without effect: hz");
    assert_eq!(client.line("CONFIG SET appendonly yes"), ok());
    let value = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    assert_eq!(client.line("CONFIG GET appendonly"), Value::Array(vec![value("appendonly"), value("yes")]));
}

#[test]
fn the_configuration_file_is_named_and_promises_that_cannot_be_kept_are_refused() {
    let directory = std::env::temp_dir().join(format!("almandine-start-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("a.conf");
    fs::write(&file, "timeout 100\n").unwrap();
    let server = Server::start(&Program::Almandine, &["--include", file.to_str().unwrap()]);
    assert_eq!(server.client().line("CONFIG SET timeout 5"), ok());
    let refused = refusal(&["--tls-port", "6380"]);
    assert!(refused.contains("tls-cert-file: TLS needs a certificate"), "{refused}");
    let output = std::process::Command::new(almandine_testkit::server::almandine_path())
        .args([file.to_str().unwrap(), "--port", "0"])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    line_with(&log, &format!("Configuration loaded from {}", file.display()));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_server_says_what_of_the_data_it_does_not_save() {
    let mut server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    assert_eq!(
        (client.line("SET a 1"), client.line("SET b 1"), client.line("SELECT 5"), client.line("SET c 1")),
        (ok(), ok(), ok(), ok())
    );
    client.send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(std::time::Duration::from_secs(20)).is_some());
    line_with(&server.log(), "# Nothing was saved: 3 keys in 2 databases end with the server, for 'save' is empty");
    // NOSAVE says that the operator knows.
    let mut server = Server::start(&Program::Almandine, &[]);
    assert_eq!(server.client().line("SET a 1"), ok());
    server.client().send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    assert!(server.await_exit(std::time::Duration::from_secs(20)).is_some());
    assert!(!server.log().contains("saved"), "{}", server.log());
}

#[test]
fn a_directory_with_files_of_others_is_no_storage() {
    let refused = refusal(&["--storage-dir", "{dir}"]);
    assert!(refused.contains("holds 'log', which is not of this server"), "{refused}");
    let refused = refusal(&["--storage-dir", "{dir}/s {dir}/./s"]);
    assert!(refused.contains("twice"), "{refused}");
    let refused = refusal(&["--prot", "1"]);
    assert!(refused.contains("Reading the command line\n>>> 'prot \"1\"'") && !refused.contains("at line"), "{refused}");
    let server = Server::start(&Program::Almandine, &["--maxmemory", "1kb"]);
    line_with(&server.log(), "# Attention: maxmemory is 1024 bytes and the empty index takes 1048576");
}

#[test]
fn data_of_an_earlier_server_is_deleted_and_the_log_says_so() {
    let directory = std::env::temp_dir().join(format!("almandine-earlier-{}", std::process::id()));
    let flags = ["--storage-dir", directory.to_str().unwrap(), "--maxmemory", "16mb", "--enable-debug-command", "yes"];
    let server = Server::start(&Program::Almandine, &flags);
    assert!(!server.log().contains("earlier server"), "{}", server.log());
    assert_eq!(server.client().call(&["SET", "key", &"v".repeat(9000)]).unwrap(), ok());
    assert!(server.make_cold());
    drop(server);
    let server = Server::start(&Program::Almandine, &flags);
    line_with(&server.log(), "# Deleted 1 files (");
    assert_eq!(server.client().line("GET key"), Value::NullBulk);
    drop(server);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_log_file_that_cannot_be_written_is_an_error() {
    let refused = refusal(&["--logfile", "{dir}/missing/log"]);
    assert!(refused.contains("missing/log': No such file or directory"), "{refused}");
    // In the background too, for the process that started it.
    let refused = refusal(&["--logfile", "{dir}/missing/log", "--daemonize", "yes"]);
    assert!(refused.contains("missing/log': No such file or directory"), "{refused}");
}

#[test]
fn a_relative_log_file_stays_where_the_server_started() {
    let server = Server::start(&Program::Almandine, &["--logfile", "here.log", "--enable-protected-configs", "yes"]);
    let text = || fs::read_to_string(server.directory().join("here.log")).unwrap();
    line_with(&text(), "is starting");
    assert_eq!(server.client().line("CONFIG SET dir /tmp"), ok());
    assert_eq!(server.client().line("CONFIG SET hz 20"), ok());
    line_with(&text(), "without effect: hz");
}

#[test]
fn too_little_memory_above_storage_is_refused_with_the_least_that_works() {
    let refused = refusal(&["--maxmemory", "1mb", "--storage-dir", "{dir}/s"]);
    assert!(refused.contains("at least 9437184 (9mb)"), "{refused}");
    let server = Server::start(&Program::Almandine, &["--maxmemory", "9mb", "--storage-dir", "{dir}/s"]);
    let mut client = server.client();
    let value = "v".repeat(1000);
    for batch in 0..100 {
        let sets: Vec<[String; 3]> = (0..200).map(|n| ["SET".to_owned(), format!("{batch}.{n}"), value.clone()]).collect();
        assert!(client.pipeline(&sets).unwrap().iter().all(|reply| *reply == ok()), "batch {batch}\n{}", server.log());
    }
    assert_eq!(client.line("GET 0.0"), Value::Bulk(value.into_bytes()));
    assert_eq!(client.line("CONFIG SET maxmemory 1mb"), ok());
    line_with(&server.log(), "it must be at least 9437184 (9mb)");
    assert_eq!(client.line("CONFIG SET maxmemory 10mb"), ok());
}

#[test]
fn lines_take_the_configured_form() {
    let server = Server::start(&Program::Almandine, &["--log-format", "json", "--log-timestamp-format", "iso8601"]);
    let log = server.log();
    let line = line_with(&log, "Ready to accept connections");
    assert!(
        line.starts_with("{\"pid\":") && line.ends_with("\"level\":\"notice\",\"message\":\"Ready to accept connections\"}"),
        "{line}"
    );
    assert!(line.contains("+00:00\""), "{line}");
    let mut client = server.client();
    assert_eq!(client.line("CONFIG SET log-format logfmt log-timestamp-format milliseconds"), ok());
    assert_eq!(client.line("CONFIG SET hz 20"), ok());
    let log = server.log();
    assert!(line_with(&log, "without effect: hz").contains(" role=primary timestamp=\"1"), "{log}");
}

#[test]
fn the_score_of_the_out_of_memory_killer_follows_the_setting() {
    let server = Server::start(&Program::Almandine, &["--oom-score-adj", "absolute", "--oom-score-adj-values", "300 400 500"]);
    let score = || fs::read_to_string(format!("/proc/{}/oom_score_adj", server.pid())).unwrap().trim().to_owned();
    assert_eq!(score(), "300");
    let mut client = server.client();
    assert_eq!(client.call(&["CONFIG", "SET", "oom-score-adj-values", "700 0 0"]).unwrap(), ok());
    assert_eq!(score(), "700");
    assert_eq!(client.line("CONFIG SET oom-score-adj no"), ok());
    assert_eq!(score(), fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim());
}
