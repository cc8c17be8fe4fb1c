//! Loads over TLS, against our server and against redis-server, and what is said where a connection cannot be made.

use std::io::ErrorKind;
use std::process::{Command, Output};

use almandine_bench::control::Address;
use almandine_bench::link::{Buffers, Link};
use almandine_testkit::server::{Program, Server, free_port};
use almandine_testkit::tls::file;
use almandine_tls::{ClientOptions, Connector};
use rustix::net::{RecvFlags, SendFlags};

/// A server with a plain port and one for TLS.
struct Both {
    server: Server,
    secure: String,
}

fn start(program: &Program, flags: &[&str]) -> Both {
    let secure = free_port().to_string();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let own = ["--tls-port", &secure, "--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    Both { server: Server::start(program, &[&own[..], flags].concat()), secure }
}

fn bench(words: &str, port: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-bench"));
    command.args(words.split(' ')).args(["-q", "-p", port]).args(more).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What a run that must succeed prints.
fn done(words: &str, port: &str, more: &[&str]) -> String {
    let output = bench(words, port, more);
    assert!(output.status.success(), "{words}: {}", said(&output));
    said(&output)
}

/// What a run that must fail prints.
fn refused(words: &str, port: &str, more: &[&str]) -> String {
    let output = bench(words, port, more);
    assert!(!output.status.success(), "{words}: {}", said(&output));
    said(&output)
}

fn trusting(authority: &str) -> [String; 3] {
    ["--tls".into(), "--cacert".into(), file(authority)]
}

#[test]
fn loads_are_those_of_plain_connections() {
    for program in [Program::Almandine, Program::Redis] {
        let both = start(&program, &["--tls-auth-clients", "no"]);
        let trusting = trusting("ca.crt");
        let flags = trusting.each_ref().map(String::as_str);
        let text = done("load -o get -k 3000 -v 1-20000", &both.secure, &flags);
        assert!(text.contains("3000 keys are loaded"), "{text}");
        assert_eq!(both.server.client().line("DBSIZE").to_string(), ":3000");
        // Batches beyond what is encrypted at a time, replies of many records, and the protocol that begins with HELLO.
        for load in ["-o get -P 1", "-o set -P 64", "-o get -P 64 --resp 3", "-o get -P 16 --in-flight 3"] {
            let text = done(&format!("offline {load} -k 3000 -v 1-20000 -c 10 -s 0.2 --verify"), &both.secure, &flags);
            assert!(!text.contains("wrong replies") && !text.contains("are null"), "{load}: {text}");
        }
        let text = done("online -o get -k 3000 -c 5 -r 500 -s 0.3", &both.secure, &flags);
        assert!(!text.contains("were not answered"), "{text}");
        for suite in ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"] {
            done("offline -o get -k 3000 -c 2 -s 0.1", &both.secure, &[&flags[..], &["--tls-ciphersuites", suite]].concat());
        }
    }
}

#[test]
fn handshakes_are_full_or_resumed_as_they_were_asked_for() {
    for program in [Program::Almandine, Program::Redis] {
        let both = start(&program, &["--tls-auth-clients", "no"]);
        let trusting = trusting("ca.crt");
        let flags = trusting.each_ref().map(String::as_str);
        let text = done("connect -c 2 -s 0.2", &both.secure, &flags);
        assert!(text.contains("full handshake"), "{text}");
        let text = done("connect -c 2 -s 0.2 --resume", &both.secure, &flags);
        assert!(text.contains("resumed handshake"), "{text}");
        let text = done("connect -c 2 -s 0.2", &both.server.address().port().to_string(), &[]);
        assert!(text.contains("connection"), "{text}");
    }
    let both = start(&Program::Almandine, &["--tls-auth-clients", "no", "--tls-session-caching", "no"]);
    let trusting = trusting("ca.crt");
    let text = refused("connect -c 2 -s 0.2 --resume", &both.secure, &trusting.each_ref().map(String::as_str));
    assert!(text.contains("resumes no sessions (tls-session-caching?)"), "{text}");
}

#[test]
fn a_client_shows_its_certificate() {
    for program in [Program::Almandine, Program::Redis] {
        let both = start(&program, &[]);
        let trusting = trusting("ca.crt");
        let flags = trusting.each_ref().map(String::as_str);
        let with = |own: &str| {
            let files = [file(&format!("{own}.crt")), file(&format!("{own}.key"))];
            bench("offline -o ping -c 2 -s 0.1", &both.secure, &[&flags[..], &["--cert", &files[0], "--key", &files[1]]].concat())
        };
        let output = with("alice");
        assert!(output.status.success(), "{}", said(&output));
        let output = with("stranger");
        assert!(!output.status.success() && said(&output).contains("does not take the client's certificate"), "{}", said(&output));
        let text = refused("offline -o ping -c 2 -s 0.1", &both.secure, &flags);
        assert!(text.contains("wants a certificate of the client") && text.contains("give one by --cert and --key"), "{text}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let both = start(&Program::Almandine, &["--tls-auth-clients", "no"]);
    let plain = both.server.address().port().to_string();
    let run = |port: &str, authority: &str, more: &[&str]| {
        let flags = trusting(authority);
        refused("offline -o ping -c 2 -s 0.1", port, &[&flags.each_ref().map(String::as_str)[..], more].concat())
    };
    let text = run(&both.secure, "other-ca.crt", &[]);
    assert!(text.contains("its certificate is not trusted") && text.contains("by --cacert"), "{text}");
    let text = run(&both.secure, "ca.crt", &["--sni", "example.com"]);
    assert!(text.contains("its certificate is for another name") && text.contains("by --sni"), "{text}");
    let text = run(&plain, "ca.crt", &[]);
    assert!(text.contains("TLS") && text.contains("tls-port") && text.contains("leave --tls out"), "{text}");
    let text = refused("offline -o ping -c 2 -s 0.1", &both.secure, &[]);
    assert!(text.contains("speaks TLS on this port, give --tls"), "{text}");
    done("offline -o ping -c 2 -s 0.1", &both.secure, &["--tls", "--insecure", "--sni", "example.com"]);
    let text = refused("offline -o ping", &both.secure, &["--cacert", "a"]);
    assert!(text.contains("--tls"), "{text}");
}

#[test]
fn what_the_socket_does_not_take_goes_when_it_does() {
    let both = start(&Program::Almandine, &["--tls-auth-clients", "no"]);
    let options = ClientOptions { ca_file: file("ca.crt").into(), ..ClientOptions::default() };
    let address = Address::Tcp("127.0.0.1".into(), both.secure.parse().expect("a port"));
    let mut link = Link::open(&address, Some(&Connector::new(&options).expect("files"))).expect("a server");
    // The replies are not read, so that the server stops reading at some time.
    let text = "x".repeat(100_000);
    let request = format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{text}\r\n").repeat(1000);
    let expected = format!("$100000\r\n{text}\r\n").repeat(1000);
    let mut sent = 0;
    let blocked = loop {
        match link.send(&request.as_bytes()[sent..], SendFlags::DONTWAIT) {
            Ok(taken) => sent += taken,
            Err(error) => break error,
        }
    };
    assert!(blocked.kind() == ErrorKind::WouldBlock && !link.is_flushed() && sent < request.len(), "{blocked} at {sent}");
    let (mut buffers, mut received) = (Buffers::new(1 << 16), Vec::new());
    while received.len() < expected.len() {
        match link.receive(&mut buffers, RecvFlags::DONTWAIT) {
            Ok(bytes) => received.extend_from_slice(bytes.expect("the server goes on")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        match link.send(&request.as_bytes()[sent..], SendFlags::DONTWAIT) {
            Ok(taken) => sent += taken,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
    assert!(received == expected.as_bytes() && link.is_flushed() && sent == request.len());
}
