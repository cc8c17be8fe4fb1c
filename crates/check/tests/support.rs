//! `support`: the bundle says what the server and its machine say, and has nothing of what is secret, wherever that was brought in.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use almandine_testkit::server::free_port;
use almandine_testkit::tls::file as file_of;
use almandine_testkit::{Client, Program, Server, Value};

const PASSWORD: &str = "sesame-requirepass";
/// What is secret: each where its name says. The digest is that of the password of the user.
const SECRETS: [&str; 25] = [
    PASSWORD,
    "sesame-masterauth",
    "sesame-masteruser",
    "sesame-passphrase",
    "sesame-second-passphrase",
    "sesame-debug-context",
    "sesame-renamed",
    "sesame-user",
    "9144a730f88d4a054d5216733e54f3e663bf29c2162e423b5e59c6e53eae1294",
    "sesame-key-pattern",
    "sesame-channel-pattern",
    "sesame-selector-pattern",
    "sesame-first-argument",
    "sesame-key",
    "sesame-value",
    "sesame-denied-key",
    "sesame-denied-user",
    "sesame-client-name",
    "sesame-library",
    "sesame-version",
    "sesame-script",
    "SESAME-CODE",
    "sesame-logged",
    "sesame-debug-logged",
    "sesame-file",
];

struct Scene {
    server: Server,
    clients: Vec<Client>,
}

impl Scene {
    /// A server that has been given every secret.
    fn new() -> Self {
        let file =
            std::env::temp_dir().join(format!("almandine-support-{}-{:?}.conf", std::process::id(), std::thread::current().id()));
        let lines = "rename-command LOLWUT sesame-renamed\nuser sesame-user on >sesame-user-password ~sesame-key-pattern:* \
                     &sesame-channel-pattern +@read +client +select|sesame-first-argument (~sesame-selector-pattern +get)\n";
        fs::write(&file, lines).unwrap();
        let flags = [
            file.to_str().unwrap(),
            "--requirepass",
            PASSWORD,
            "--masterauth",
            "sesame-masterauth",
            "--masteruser",
            "sesame-masteruser",
            "--tls-key-file-pass",
            "sesame-passphrase",
            "--tls-client-key-file-pass",
            "sesame-second-passphrase",
            "--debug-context",
            "sesame-debug-context",
            "--slowlog-log-slower-than",
            "0",
            "--commandlog-request-larger-than",
            "0",
            "--commandlog-reply-larger-than",
            "0",
            "--latency-monitor-threshold",
            "1",
            "--enable-debug-command",
            "yes",
            "--logfile",
            "{dir}/server.log",
            "--unixsocket",
            "{dir}/server.sock",
        ];
        let server = Server::start(&Program::Almandine, &flags);
        fs::remove_file(file).unwrap();
        fs::write(server.directory().join("sesame-file"), "").unwrap();
        let [mut client, mut monitor, mut other] = [server.client(), server.client(), server.client()];
        for client in [&mut client, &mut monitor] {
            assert_eq!(client.line(&format!("AUTH {PASSWORD}")), Value::ok());
        }
        assert_eq!(monitor.line("MONITOR"), Value::ok());
        for line in [
            "CLIENT SETNAME sesame-client-name",
            "CLIENT SETINFO LIB-NAME sesame-library",
            "CLIENT SETINFO LIB-VER sesame-version",
            "SET sesame-key sesame-value",
            "DEBUG SLEEP 0.01",
            "DEBUG LOG sesame-debug-logged",
        ] {
            assert_eq!(client.line(line), Value::ok(), "{line}");
        }
        assert!(matches!(client.line("sesame-unknown"), Value::Error(_)));
        assert!(!matches!(client.line("sesame-renamed"), Value::Error(_)));
        let script = "redis.log(redis.LOG_WARNING, 'sesame-logged') return {err = 'SESAME-CODE of sesame-script'}";
        assert!(matches!(client.call(&["EVAL", script, "0"]).unwrap(), Value::Error(_)));
        assert_eq!(client.line("DEBUG SET-ACTIVE-EXPIRE 1"), Value::ok());
        assert_eq!(other.line("AUTH sesame-user sesame-user-password"), Value::ok());
        assert!(matches!(other.line("GET sesame-denied-key"), Value::Error(_)));
        assert!(matches!(other.line("AUTH sesame-denied-user x"), Value::Error(_)));
        Self { server, clients: vec![client, monitor, other] }
    }

    /// What the server says as it is, with what is on the disk beside it.
    fn raw(&mut self) -> String {
        let mut text = fs::read_to_string(self.server.directory().join("server.log")).unwrap();
        for line in [
            "INFO everything",
            "CONFIG GET * debug-context",
            "ACL LIST",
            "ACL LOG",
            "CLIENT LIST",
            "SLOWLOG GET 1000",
            "COMMANDLOG GET 1000 large-request",
        ] {
            text.push_str(&self.clients[0].line(line).to_string());
        }
        for entry in fs::read_dir(self.server.directory()).unwrap() {
            text.push_str(entry.unwrap().file_name().to_str().unwrap());
        }
        text
    }

    fn port(&self) -> [String; 2] {
        ["--port".to_owned(), self.server.address().port().to_string()]
    }

    /// Runs the program, and unpacks the bundle with `tar`.
    fn bundle(&self, arguments: &[&str]) -> (Output, PathBuf) {
        let place = self.server.directory().join("bundle");
        fs::create_dir(&place).unwrap();
        let file = place.join("support.tar.gz");
        let output = run(arguments, &file, PASSWORD);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{output:?}");
        assert!(Command::new("tar").arg("-xzf").arg(&file).current_dir(&place).status().unwrap().success());
        (output, place.join("support"))
    }
}

fn run(arguments: &[&str], file: &Path, password: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
    command.arg("support").args(arguments).arg(file).env("REDISCLI_AUTH", password).output().unwrap()
}

/// All files of a bundle, by their names.
fn read(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(read(&path));
        } else {
            files.push((path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

fn file<'f>(files: &'f [(String, String)], name: &str) -> &'f str {
    &files.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn no_secret_is_in_the_bundle_and_what_helps_is() {
    let mut scene = Scene::new();
    let raw = scene.raw();
    for secret in SECRETS {
        assert!(raw.contains(secret), "{secret} is nowhere, so that its absence from the bundle proves nothing");
    }
    let (output, directory) = scene.bundle(&scene.port().each_ref().map(String::as_str));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let files = read(&directory);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    for (name, text) in files.iter().map(|(name, text)| (name.as_str(), text)).chain([("what is printed", &said)]) {
        for line in text.lines() {
            assert!(!line.to_lowercase().contains("sesame"), "{name}: {line}");
            assert!(!SECRETS.iter().any(|secret| line.contains(secret)), "{name}: {line}");
        }
    }
    for (name, text) in [
        ("info.txt", "cmdstat_client|setname:calls=1"),
        ("info.txt", "almandine_version:"),
        ("info.txt", "errorstat_(left out):count=1"),
        ("config.txt", "requirepass (left out)"),
        ("config.txt", "tls-cert-file \n"),
        ("config.txt", "slowlog-log-slower-than 0"),
        ("users.txt", "user default on #(left out) ~* &* +@all"),
        ("users.txt", "~(left out)"),
        ("denied.txt", "reason=key"),
        ("denied.txt", "reason=auth"),
        ("clients.txt", "name=name1"),
        ("clients.txt", "cmd=monitor"),
        ("clients.txt", "user=user1"),
        ("slowlog.txt", "command=set words=3"),
        ("slowlog.txt", "command=client|setname words=3"),
        ("large-requests.txt", "command=set words=3"),
        ("latency-histogram.txt", "set calls 1 histogram_usec"),
        ("latency-latest.txt", "command "),
        ("latency-doctor.txt", "command: "),
        ("memory-stats.txt", "total.allocated "),
        ("memory-doctor.txt", " memory"),
        ("kernel.txt", "MemTotal"),
        ("process.txt", "Max open files"),
        ("process.txt", "worker"),
        ("files.txt", "server.log"),
        ("files.txt", "are free for the server"),
        ("log.txt", "* Ready to accept connections"),
        ("README.txt", "Left out: passwords"),
    ] {
        assert!(file(&files, name).contains(text), "{name} has no {text}: {}", file(&files, name));
    }
}

/// As it is, the log has what scripts wrote, but the passwords are not in it.
#[test]
fn the_log_is_shown_as_it_is_when_asked_for_but_for_known_secrets() {
    let mut scene = Scene::new();
    assert_eq!(scene.clients[0].line("DEBUG LOG it-is-sesame-masterauth-they-said"), Value::ok());
    let socket = scene.server.directory().join("server.sock");
    let (output, directory) = scene.bundle(&["--socket", socket.to_str().unwrap(), "--log-lines", "100"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let files = read(&directory);
    let log = file(&files, "log.txt");
    assert!(log.contains("sesame-logged") && !log.contains("sesame-masterauth"), "{log}");
}

/// The rest is there, and what is missing is named.
#[test]
fn what_a_user_may_not_ask_is_missing() {
    let scene = Scene::new();
    let place = scene.server.directory().join("bundle.tar.gz");
    let port = scene.server.address().port().to_string();
    let arguments = ["--port", &port, "--user", "sesame-user"];
    let output = run(&arguments, &place, "sesame-user-password");
    assert_eq!(output.status.code(), Some(3), "it may not even ask PING: {output:?}");
    let mut client = scene.server.client();
    client.line(&format!("AUTH {PASSWORD}"));
    assert_eq!(client.line("ACL SETUSER sesame-user +ping +info"), Value::ok());
    let output = run(&arguments, &place, "sesame-user-password");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("server/config.txt is missing: the server answers with the error NOPERM"), "{said}");
    assert!(!said.contains("info.txt") && !said.contains("sesame"), "{said}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let scene = Scene::new();
    let (server, port) = (&scene.server, scene.server.address().port().to_string());
    let place = server.directory().join("there.tar.gz");
    let fails = |arguments: &[&str], password: &str, text: &str| {
        let output = run(arguments, &place, password);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code() == Some(3) && said.contains(text) && !said.contains(password), "{said}");
    };
    fails(&["--port", &port], "wrong-password", "WRONGPASS");
    fails(&["--socket", "/nowhere"], PASSWORD, "/nowhere: No such file");
    fs::write(&place, "kept").unwrap();
    fails(&["--port", &port], PASSWORD, "exists");
    assert_eq!(fs::read_to_string(&place).unwrap(), "kept");
}

/// By TLS, with a certificate of the client; without, it says what to do.
#[test]
fn a_server_is_asked_by_tls() {
    let port = free_port().to_string();
    let (certificate, key, authority) = (file_of("server.crt"), file_of("server.key"), file_of("ca.crt"));
    let flags = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let server = Server::start(&Program::Almandine, &flags);
    let (client, client_key) = (file_of("alice.crt"), file_of("alice.key"));
    let ask = |name: &str, port: &str, options: &[&str]| {
        let place = server.directory().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
        let output = command.args(["support", "--host", "localhost", "--port", port, "--tls"]).args(options).arg(&place).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let shown = ["--cert", &client, "--key", &client_key];
    let (code, said) = ask("a.tar.gz", &port, &[&["--cacert", &authority][..], &shown].concat());
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ask("b.tar.gz", &port, &shown);
    assert!(code == Some(3) && said.contains("--cacert"), "{said}");
    let (code, said) = ask("c.tar.gz", &port, &["--insecure"]);
    assert!(code == Some(3) && said.contains("wants a certificate of the client"), "{said}");
    let (code, said) = ask("d.tar.gz", &server.address().port().to_string(), &["--insecure"]);
    assert!(code == Some(3) && said.contains("TLS"), "{said}");
}
