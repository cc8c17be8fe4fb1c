//! Passwords reach neither MONITOR nor the command logs, the same as in redis-server.

use almandine_testkit::{Client, Program, Server};

/// Commands that hold the word `secret` where a password stands, beside words that may be shown.
const COMMANDS: &[&str] = &[
    "AUTH secret",
    "AUTH default secret",
    "HELLO 3 AUTH default secret SETNAME shown",
    "hello 2 setname shown auth default secret",
    "CONFIG SET masterauth secret",
    "config set maxmemory-samples 7 MASTERAUTH secret",
    "ACL SETUSER bob on >secret",
    "CONFIG SET requirepass secret",
    "HELLO 3 AUTH default secret",
    "SET shown value",
];

/// What one of them and the logs say, without times and addresses.
fn arguments_in_log(client: &mut Client, command: &str) -> Vec<String> {
    let text = client.line(command).to_string();
    let mut found: Vec<String> = Vec::new();
    for part in text.split("*[").filter(|part| part.starts_with("$\"")) {
        found.push(part.split(']').next().unwrap_or_default().to_owned());
    }
    found
}

fn secrets(program: &Program) -> Vec<String> {
    let server = Server::start(program, &["--slowlog-log-slower-than", "0"]);
    let (mut client, mut listener) = (server.client(), server.client());
    listener.line("MONITOR");
    for command in COMMANDS {
        client.line(command);
    }
    let logged = arguments_in_log(&mut client, "SLOWLOG GET 12");
    client.line("ECHO end");
    let mut seen: Vec<String> = Vec::new();
    while seen.last().is_none_or(|line| !line.contains("end")) {
        let line = listener.receive().expect("a line").to_string();
        seen.push(line.split_once("] ").map_or(String::new(), |(_, command)| command.to_owned()));
    }
    for line in seen.iter().chain(&logged) {
        assert!(!line.contains("secret"), "{} shows {line}", program.name());
    }
    assert!(seen.iter().any(|line| line.contains("shown")), "{seen:?}");
    assert!(logged.iter().any(|line| line.contains("redacted")), "{logged:?}");
    seen.into_iter().chain(logged).collect()
}

#[test]
fn passwords_are_redacted_as_in_redis() {
    assert_eq!(secrets(&Program::Almandine), secrets(&Program::Redis));
}

/// Fast commands are logged together under the name of the first of them; what ran before them in the pipeline is none of them.
#[test]
fn a_slow_pipeline_shows_no_password() {
    let server =
        Server::start(&Program::Almandine, &["--slowlog-log-slower-than", "1000", "--commandlog-request-larger-than", "1024"]);
    let mut client = server.client();
    let (value, long) = ("v".repeat(512), "secret".repeat(400));
    for greeting in [&["HELLO", "3", "AUTH", "default", &long][..], &["AUTH", "default", &long], &["ACL", "SETUSER", "bob", &long]]
    {
        let mut pipeline = vec![greeting.to_vec()];
        pipeline.extend((0..2000).map(|_| vec!["SET", "key", value.as_str()]));
        client.pipeline(&pipeline).expect("replies");
    }
    for log in ["SLOWLOG GET 100", "COMMANDLOG GET 100 large-request", "COMMANDLOG GET 100 large-reply"] {
        let logged = client.line(log).to_string();
        assert!(!logged.contains("secret"), "{log}: {logged}");
    }
    assert!(client.line("COMMANDLOG GET 100 large-request").to_string().contains("redacted"));
}
