//! `ping`: which answers are a sign of life, and which of a server that is ready.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::process::Command;
use std::thread;

use almandine_testkit::server::free_port;
use almandine_testkit::tls::file;
use almandine_testkit::{Client, Program, Server, Value};

/// The exit code, and what is said.
fn ping(arguments: &[&str], password: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
    command.arg("ping").args(arguments).env_remove("REDISCLI_AUTH").envs(password.map(|password| ("REDISCLI_AUTH", password)));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[test]
fn any_answer_is_a_sign_of_life_and_pong_alone_says_that_it_is_ready() {
    let mut server = Server::start(&Program::Almandine, &["--save", "3600 1000", "--unixsocket", "{dir}/socket"]);
    let port = server.address().port().to_string();
    let socket = server.directory().join("socket").display().to_string();
    for place in [["--port", &port], ["--socket", &socket]] {
        assert_eq!(ping(&place, None), (Some(0), "PONG".into()));
    }
    let both = |password: Option<&str>| {
        let (live, said) = ping(&["-p", &port], password);
        let (ready, same) = ping(&["-p", &port, "--ready"], password);
        assert_eq!(said, same);
        (live, ready, said.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(both(None), (Some(0), Some(0), "PONG".into()));
    let mut client = server.client();
    // A snapshot that fails has all writes refused, and PING with them.
    std::fs::create_dir_all(server.directory().join("dump.rdb/full")).unwrap();
    client.line("BGSAVE");
    while matches!(client.line("PING"), Value::Simple(_)) {
        thread::yield_now();
    }
    assert_eq!(both(None), (Some(0), Some(1), "MISCONF".into()));
    assert_eq!(client.line("CONFIG SET requirepass sesame"), Value::ok());
    assert_eq!(both(None), (Some(0), Some(1), "NOAUTH".into()));
    assert_eq!(both(Some("wrong")), (Some(0), Some(1), "WRONGPASS".into()));
    assert_eq!(client.line("CONFIG SET stop-writes-on-bgsave-error no"), Value::ok());
    assert_eq!(both(Some("sesame")), (Some(0), Some(0), "PONG".into()));
    server.kill();
    let (code, said) = ping(&["-p", &port], None);
    assert!(code == Some(3) && said.contains(&format!("127.0.0.1:{port}: ")), "{code:?} {said}");
}

#[test]
fn a_server_that_loads_its_data_lives_and_is_not_ready() {
    let mut server = Server::start(&Program::Almandine, &[]);
    let address = server.address();
    let port = address.port().to_string();
    let mut client = server.client();
    let sets: Vec<[String; 3]> = (0..2_000).map(|n| ["SET".into(), n.to_string(), "value".into()]).collect();
    client.pipeline(&sets).unwrap();
    assert_eq!(client.line("SAVE"), Value::ok());
    server.kill();
    thread::scope(|threads| {
        // It takes twenty seconds, unless it is told to be quick.
        threads.spawn(|| server.start_again_with(&["--key-load-delay", "10000"]));
        let live = loop {
            let live = ping(&["-p", &port], None);
            if live.0 != Some(3) {
                break live;
            }
        };
        let ready = ping(&["-p", &port, "--ready"], None);
        assert_eq!(Client::connect(address).unwrap().line("CONFIG SET key-load-delay 0"), Value::ok());
        assert!(live.0 == Some(0) && live.1.starts_with("LOADING"), "{live:?}");
        assert!(ready.0 == Some(1) && ready.1.starts_with("LOADING"), "{ready:?}");
    });
    assert_eq!(ping(&["-p", &port, "--ready"], None), (Some(0), "PONG".into()));
}

#[test]
fn it_speaks_tls() {
    let port = free_port().to_string();
    let [certificate, key, authority] = ["server.crt", "server.key", "ca.crt"].map(file);
    let flags = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let server = Server::start(&Program::Almandine, &[&flags[..], &["--tls-auth-clients", "no"]].concat());
    assert_eq!(
        ping(&["-p", &port, "--tls", "--cacert", &authority, "--ready"], None),
        (Some(0), "PONG".into()),
        "{}",
        server.log()
    );
    assert_eq!(ping(&["-p", &port], None).0, Some(3), "a server that cannot be understood is none");
}
