//! TLS from outside: clients with and without certificates, files that change, and peers that mean harm.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use almandine_testkit::client::encode;
use almandine_testkit::server::free_port;
use almandine_testkit::tls::{Peer, file};
use almandine_testkit::{Program, Server, Value};
use rustls::version::{TLS12, TLS13};

/// A server with a plain port and one for TLS.
struct Both {
    server: Server,
    secure: SocketAddr,
}

fn start(flags: &[&str]) -> Both {
    let port = free_port().to_string();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let own = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let server = Server::start(&Program::Almandine, &[&own[..], flags].concat());
    let secure = SocketAddr::new(server.address().ip(), port.parse().expect("a port"));
    Both { server, secure }
}

fn refusal(flags: &[&str]) -> String {
    let port = free_port().to_string();
    let flags = [&["--tls-port", &port][..], flags].concat();
    Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_else(|| panic!("{flags:?} started"))
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.bytes().unwrap_or_default()).into_owned()
}

#[test]
fn commands_pipelines_large_replies_and_messages_go_both_ways() {
    for (backend, version) in [("epoll", &TLS13), ("auto", &TLS13), ("auto", &TLS12)] {
        let both = start(&["--tls-auth-clients", "no", "--io-backend", backend]);
        let peer = Peer::new("ca.crt", None, &[version]);
        let mut client = peer.connect(both.secure).unwrap();
        let mut plain = both.server.client();
        assert_eq!(client.line("SET a 1"), Value::ok());
        assert_eq!((plain.line("GET a").to_string(), client.line("INCR a").to_string()), ("$\"1\"".into(), ":2".into()));
        // Many records in a chunk, and commands that cross records.
        let commands: Vec<[String; 3]> = (0..20_000).map(|n| ["SET".into(), format!("key:{n}"), format!("value of {n}")]).collect();
        assert!(client.pipeline(&commands).unwrap().iter().all(|reply| *reply == Value::ok()));
        let keys: Vec<[String; 2]> = (0..20_000).map(|n| ["GET".into(), format!("key:{n}")]).collect();
        let values = client.pipeline(&keys).unwrap();
        assert!(values.iter().enumerate().all(|(n, value)| text(value) == format!("value of {n}")));
        // Values that are sent from where they lie, and replies that are made while they are sent.
        let large: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
        assert_eq!(client.call(&[&b"SET"[..], b"large", &large]).unwrap(), Value::ok());
        client.send(&[vec!["GET", "large"], vec!["KEYS", "key:*"], vec!["GET", "a"], vec!["GET", "large"]]).unwrap();
        assert_eq!(client.receive().unwrap().bytes(), Some(&large[..]));
        assert_eq!(client.receive().unwrap().elements().map(<[_]>::len), Some(20_000));
        assert_eq!(text(&client.receive().unwrap()), "2");
        assert_eq!(client.receive().unwrap().bytes(), Some(&large[..]));
        plain.send(&(0..300).map(|n| vec!["RPUSH".to_owned(), "list".to_owned(), "x".repeat(n * 10)]).collect::<Vec<_>>()).unwrap();
        (0..300).for_each(|_| drop(plain.receive().unwrap()));
        let list = client.line("LRANGE list 0 -1");
        assert!(list.elements().unwrap().iter().enumerate().all(|(n, element)| element.bytes().unwrap().len() == n * 10));
        // Transactions, blocking commands, messages.
        let transaction = [vec!["MULTI"], vec!["INCR", "a"], vec!["GET", "a"], vec!["EXEC"]];
        let replies = client.pipeline(&transaction).unwrap();
        assert_eq!(replies[3].to_string(), "*[:3, $\"3\"]");
        client.send(&[["BLPOP", "queue", "0"]]).unwrap();
        let mut subscriber = peer.connect(both.secure).unwrap();
        subscriber.line("SUBSCRIBE news");
        assert_eq!(plain.line("RPUSH queue element"), Value::Integer(1));
        assert_eq!(client.receive().unwrap().to_string(), "*[$\"queue\", $\"element\"]");
        for n in 0..100 {
            assert_eq!(plain.line(&format!("PUBLISH news {n}")), Value::Integer(1));
        }
        for n in 0..100 {
            assert_eq!(text(&subscriber.receive().unwrap().elements().unwrap()[2]), n.to_string());
        }
        // Clients of both kinds are clients.
        let list = text(&client.line("CLIENT LIST"));
        assert_eq!(list.lines().count(), 3, "{list}");
        assert!(list.contains(&format!("laddr={}", both.secure)) && list.contains(&format!("laddr={}", both.server.address())));
    }
}

#[test]
fn either_end_may_end_the_connection() {
    let both = start(&["--tls-auth-clients", "no"]);
    let peer = Peer::plain();
    // The server says that it ends: what comes before is whole.
    let mut client = peer.connect(both.secure).unwrap();
    client.send(&[vec!["ECHO", "last"], vec!["QUIT"]]).unwrap();
    assert_eq!((text(&client.receive().unwrap()), client.receive().unwrap()), ("last".into(), Value::ok()));
    assert_eq!(client.connection().read(&mut [0]).unwrap(), 0, "an end without a word of it would be an error");
    // The client ends what it sends, in the words of TLS or below it, and still gets its replies.
    for below in [false, true] {
        let mut client = peer.connect(both.secure).unwrap();
        client.send(&[vec!["SET", "value", &"v".repeat(1_000_000)], vec!["GET", "value"], vec!["ECHO", "last"]]).unwrap();
        if below {
            client.end_writing()
        } else {
            client.connection().notify_end().unwrap()
        }
        assert_eq!(client.receive().unwrap(), Value::ok());
        assert_eq!(client.receive().unwrap().bytes().map(<[u8]>::len), Some(1_000_000));
        assert_eq!((text(&client.receive().unwrap()), client.receive().unwrap()), ("last".into(), Value::Closed));
    }
    // One that goes while it waits is gone.
    let mut client = peer.connect(both.secure).unwrap();
    client.send(&[["BLPOP", "nothing", "0"]]).unwrap();
    client.connection().notify_end().unwrap();
    assert!(!matches!(client.receive(), Ok(reply) if reply != Value::Closed));
    assert_eq!(text(&both.server.client().line("CLIENT LIST")).lines().count(), 1);
    // A node that stops says so, too.
    let mut client = peer.connect(both.secure).unwrap();
    client.line("PING");
    both.server.client().send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    assert_eq!(client.receive().unwrap(), Value::Closed);
}

#[test]
fn clients_show_certificates_as_they_are_told_to() {
    let both = start(&["--tls-auth-clients-user", "CN"]);
    let as_who = |own: Option<&str>| {
        let peer = Peer::new("ca.crt", own, rustls::ALL_VERSIONS);
        peer.connect(both.secure).and_then(|mut client| client.call(&["ACL", "WHOAMI"])).map_or("refused".into(), |who| match who {
            Value::Closed => "refused".to_owned(),
            who => text(&who),
        })
    };
    assert_eq!((as_who(None), as_who(Some("stranger"))), ("refused".into(), "refused".into()), "yes is the default");
    let mut plain = both.server.client();
    assert_eq!(as_who(Some("alice")), "default", "there is no such user");
    let log = plain.line("ACL LOG 1").to_string();
    assert!(log.contains("\"tls-cert\"") && log.contains("$\"username\", $\"alice\""), "{log}");
    assert!(text(&plain.line("INFO stats")).contains("acl_access_denied_tls_cert:1\r\n"));
    // The default user may need a password meanwhile: a certificate is as good as one.
    for command in
        ["ACL SETUSER alice on >secret +@all ~*", "ACL SETUSER urn:almandine:alice on +@all ~*", "CONFIG SET requirepass x"]
    {
        assert_eq!(plain.line(command), Value::ok());
    }
    assert_eq!(as_who(Some("alice")), "alice");
    assert_eq!(plain.line("CONFIG SET tls-auth-clients-user URI"), Value::ok());
    assert_eq!(as_who(Some("alice")), "urn:almandine:alice", "the first one that is a user");
    let optional = ["CONFIG", "SET", "tls-auth-clients-user", "off", "tls-auth-clients", "optional", "requirepass", ""];
    assert_eq!(plain.call(&optional).unwrap(), Value::ok());
    for (own, who) in [(None, "default"), (Some("alice"), "default"), (Some("stranger"), "refused")] {
        assert_eq!(as_who(own), who, "{own:?}");
    }
    assert_eq!(plain.line("CONFIG SET tls-auth-clients no"), Value::ok());
    assert_eq!(as_who(Some("stranger")), "default", "it is not asked for");
}

#[test]
fn files_that_change_are_for_new_connections_and_nobody_is_closed() {
    let directory = std::env::temp_dir().join(format!("almandine-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let put = |name: &str| {
        fs::copy(file(&format!("{name}.key")), path("own.key")).unwrap();
        fs::copy(file(&format!("{name}.crt")), path("own.crt")).unwrap();
    };
    put("server");
    let both = start(&["--tls-auth-clients", "no", "--tls-cert-file", &path("own.crt"), "--tls-key-file", &path("own.key")]);
    let (one, other) = (Peer::plain(), Peer::new("other-ca.crt", None, rustls::ALL_VERSIONS));
    let mut old = one.connect(both.secure).unwrap();
    let mut plain = both.server.client();
    put("other-server");
    assert!(one.is_served(both.secure) && !other.is_served(both.secure), "nobody has said that they have changed");
    assert_eq!(plain.line(&format!("CONFIG SET tls-cert-file {}", path("own.crt"))), Value::ok());
    assert!(!one.is_served(both.secure) && other.is_served(both.secure));
    assert_eq!(old.line("PING").to_string(), "+PONG", "it goes on as it began");
    // What cannot be used changes nothing.
    let refused = plain.line(&format!("CONFIG SET tls-key-file {}", file("server-rsa.key"))).to_string();
    assert!(refused.contains("argument 'tls-key-file'") && refused.contains("is not the key of"), "{refused}");
    let refused = plain.line("CONFIG SET tls-ciphers AES128-SHA").to_string();
    assert!(refused.contains("argument 'tls-ciphers'") && refused.contains("use some of ECDHE"), "{refused}");
    assert!(other.is_served(both.secure));
    // By itself, when it is told to look.
    assert_eq!(plain.line("CONFIG SET tls-auto-reload-interval 1"), Value::ok());
    put("server-rsa");
    let mut looks = 0;
    while !one.is_served(both.secure) {
        looks += 1;
        assert!(looks < 1000, "{}", both.server.log());
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(both.server.log().contains("new connections begin with them"));
    fs::write(path("own.key"), "no key").unwrap();
    while !both.server.log().contains("cannot be used, the former ones stay: tls-key-file: ") {
        looks += 1;
        assert!(looks < 2000, "{}", both.server.log());
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(one.is_served(both.secure) && old.line("PING").to_string() == "+PONG");
    // The port itself comes and goes.
    fs::copy(file("server-rsa.key"), path("own.key")).unwrap();
    assert_eq!(plain.line("CONFIG SET tls-port 0"), Value::ok());
    assert!(TcpStream::connect(both.secure).is_err() && old.line("PING").to_string() == "+PONG");
    assert_eq!(plain.line(&format!("CONFIG SET tls-port {}", both.secure.port())), Value::ok());
    assert!(one.is_served(both.secure));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn sessions_are_resumed_unless_told_otherwise() {
    let both = start(&["--tls-auth-clients-user", "CN", "--requirepass", "secret"]);
    let mut plain = both.server.client();
    plain.line("AUTH secret");
    assert_eq!(plain.line("ACL SETUSER alice on +@all ~*"), Value::ok());
    for version in [&TLS13, &TLS12] {
        let peer = Peer::new("ca.crt", Some("alice"), &[version]);
        let connect = || {
            let mut client = peer.connect(both.secure).unwrap();
            // Tickets come with the first reply.
            assert_eq!(text(&client.line("ACL WHOAMI")), "alice", "who it is is part of the session");
            client.connection().is_resumed()
        };
        assert_eq!((connect(), connect(), connect()), (false, true, true), "{version:?}");
        assert_eq!(plain.line("CONFIG SET tls-session-caching no"), Value::ok());
        assert_eq!((connect(), connect()), (false, false), "{version:?}");
        assert_eq!(plain.line("CONFIG SET tls-session-caching yes"), Value::ok());
    }
}

#[test]
fn what_cannot_be_followed_is_refused_with_what_to_do() {
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let pair = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    let no_clients = ["--tls-auth-clients", "no"];
    let encrypted = file("server-encrypted.key");
    let other_key = file("server-rsa.key");
    let cases: [(&[&str], &str); 10] = [
        (&[], "tls-cert-file: TLS needs a certificate: set it, or set tls-port to 0"),
        (&pair[..2], "tls-key-file: TLS needs the key of the certificate"),
        (&pair, "set it or tls-ca-cert-dir, or set tls-auth-clients to no"),
        (&[&pair[..2], &["--tls-key-file", &other_key], &no_clients].concat(), "server-rsa.key is not the key of "),
        (&[&pair[..2], &["--tls-key-file", &encrypted], &no_clients].concat(), "tls-key-file-pass: "),
        (
            &[&pair[..2], &["--tls-key-file", &encrypted, "--tls-key-file-pass", "wrong"], &no_clients].concat(),
            "is not the passphrase of ",
        ),
        (&["--tls-cert-file", "/missing.crt", "--tls-key-file", &key], "tls-cert-file: cannot read /missing.crt: "),
        (&["--tls-cert-file", &key, "--tls-key-file", &key], "has no certificate: it must be PEM"),
        (&[&pair[..], &no_clients, &["--tls-protocols", "TLSv1.1"]].concat(), "use TLSv1.2 and TLSv1.3"),
        (&[&pair[..], &["--tls-ca-cert-dir", "/missing"]].concat(), "tls-ca-cert-dir: cannot read /missing: "),
    ];
    for (flags, expected) in cases {
        let log = refusal(flags);
        assert!(log.contains(expected), "{flags:?}: {log}");
        let mut check = Command::new(almandine_testkit::server::almandine_path());
        let output = check.arg("--check-config").args(["--tls-port", "1"]).args(flags).output().unwrap();
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stdout).contains(expected), "{flags:?}: {output:?}");
    }
    let flags = ["--tls-cert-file", &certificate, "--tls-key-file", &encrypted, "--tls-key-file-pass", "a passphrase"];
    let both = start(&[&flags[..], &["--tls-ca-cert-file", &authority, "--tls-protocols", "TLSv1.2"]].concat());
    assert!(Peer::new("ca.crt", Some("alice"), &[&TLS12]).is_served(both.secure));
    assert!(!Peer::new("ca.crt", Some("alice"), &[&TLS13]).is_served(both.secure));
}

#[test]
fn peers_that_mean_harm_harm_nobody() {
    let mut both = start(&["--tls-auth-clients", "no"]);
    let peer = Peer::plain();
    let mut friend = peer.connect(both.secure).unwrap();
    let answer = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(both.secure).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // The end may come as a reset, when more was sent than was read.
        let _ = socket.read_to_end(&mut answer);
        answer
    };
    let mut ping = Vec::new();
    encode(&["PING"], &mut ping);
    let oversize = [&[22, 3, 1, 0xFF, 0xFF][..], &[0; 70_000]].concat();
    let endless = [22, 3, 1, 0x40, 0x00].into_iter().chain([1, 0xFF, 0xFF, 0xFF]).chain([0; 16_380]).collect::<Vec<u8>>().repeat(8);
    let harm: [&[u8]; 8] = [
        &ping,
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 100],
        &[0xFF; 40_000],
        &oversize,
        &endless,
        &[21, 3, 1, 0, 2, 2, 40],
        &[23, 3, 3, 0, 1, 0],
    ];
    for (number, bytes) in harm.into_iter().enumerate() {
        let answer = answer(bytes);
        assert!(answer.is_empty() || answer[0] == 21, "{number}: an alert or nothing, not {answer:?}");
        assert_eq!(friend.line("PING").to_string(), "+PONG");
    }
    // Handshakes that stop at every place, and those that come byte by byte.
    let mut stopped = Vec::new();
    for end in 0..200 {
        let mut socket = TcpStream::connect(both.secure).unwrap();
        socket.write_all(&[22, 3, 1, 0x40, 0, 1, 0, 0x3F].into_iter().chain([3; 200]).take(end).collect::<Vec<u8>>()).unwrap();
        stopped.push(socket);
    }
    assert_eq!(friend.line("PING").to_string(), "+PONG");
    assert_eq!(text(&friend.line("CLIENT LIST")).lines().count(), 1, "who has not finished is no client");
    assert!(peer.is_served(both.secure));
    drop(stopped);
    // Records that are damaged on their way end that connection.
    let mut victim = peer.connect(both.secure).unwrap();
    victim.line("PING");
    victim.connection().socket().write_all(&[23, 3, 3, 0, 40].into_iter().chain([7; 40]).collect::<Vec<u8>>()).unwrap();
    assert!(!matches!(victim.receive(), Ok(reply) if reply != Value::Closed));
    // Nor does a plain port speak TLS.
    assert!(peer.connect(both.server.address()).is_err());
    both.server.assert_alive("all of this");
    assert_eq!(friend.line("PING").to_string(), "+PONG");
}

#[test]
fn an_idle_connection_is_small() {
    let both = start(&["--tls-auth-clients", "no", "--workers", "1"]);
    let peer = Peer::plain();
    let connect = |count| {
        let connect = |_| {
            let mut client = peer.connect(both.secure).unwrap();
            client.line("PING");
            client
        };
        (0..count).map(connect).collect::<Vec<_>>()
    };
    let first = connect(50);
    let before = both.server.resident_bytes();
    let clients = connect(400);
    let each = (both.server.resident_bytes().saturating_sub(before)) / clients.len() as u64;
    println!("{each} bytes for each idle connection");
    assert!(each <= 25_000, "{each} bytes");
    drop(first);
}

#[test]
fn other_peoples_clients_speak_tls() {
    let both = start(&[]);
    let (port, ca, cert, key) = (both.secure.port().to_string(), file("ca.crt"), file("alice.crt"), file("alice.key"));
    let who = ["-p", &port, "--tls", "--cacert", &ca, "--cert", &cert, "--key", &key];
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(who).args(args).output().unwrap();
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(run("redis-cli", &["SET", "a", "1"]), "OK\n");
    assert_eq!(run("redis-cli", &["-3", "HELLO", "3"]).lines().next(), Some("server redis"));
    let report = run("redis-benchmark", &["-t", "set,get,lrange_600,mset", "-n", "2000", "-P", "16", "-d", "1000", "-q"]);
    assert!(report.contains("GET: ") && report.contains("LRANGE_600"), "{report}");
    let report = run("redis-benchmark", &["-t", "mset", "-n", "3000", "-P", "16", "-d", "2000", "-q"]);
    assert!(report.contains("MSET"), "{report}");
    let python = std::env::var("ALMANDINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = format!(
        "import redis\nr = redis.Redis(port={port}, ssl=True, ssl_ca_certs='{ca}', ssl_certfile='{cert}', ssl_keyfile='{key}')\n\
         r.set('k', 'v' * 100000)\nassert r.get('k') == b'v' * 100000\np = r.pipeline()\n[p.incr('n') for _ in range(500)]\n\
         assert p.execute()[-1] == 500"
    );
    let output = Command::new(python).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
