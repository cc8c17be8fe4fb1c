//! Parameters that act on the process: each is seen from outside.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;
use std::time::Duration;

use almandine_testkit::{Client, Program, Server, Value};

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn command_line(server: &Server) -> String {
    let bytes = fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

#[test]
fn the_list_of_processes_shows_where_the_server_listens() {
    let server = Server::start(&Program::Almandine, &[]);
    let program = almandine_testkit::server::almandine_path();
    assert_eq!(command_line(&server), format!("{} 127.0.0.1:{}", program.display(), server.address().port()));
    let mut client = server.client();
    assert_eq!(client.call(&["CONFIG", "SET", "proc-title-template", "cache on {port}{server-mode}"]).unwrap(), ok());
    assert_eq!(command_line(&server), format!("cache on {}", server.address().port()));
    assert_eq!(client.line("CONFIG SET port 0"), ok());
    assert_eq!(command_line(&server), "cache on 0");
    // The environment, which lay behind the command line, is whole.
    let long = "x".repeat(10_000);
    assert_eq!(client.call(&["CONFIG", "SET", "proc-title-template", &long]).unwrap(), ok());
    let title = command_line(&server);
    assert!(title.len() > 20 && long.starts_with(&title), "as much as there is room for");
    let plain = Server::start(&Program::Almandine, &["--set-proc-title", "no"]);
    assert!(command_line(&plain).contains("\0--set-proc-title\0no"));
}

#[test]
fn the_server_keeps_to_its_cores() {
    let allowed = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
    };
    let server = Server::start(&Program::Almandine, &["--server_cpulist", "0"]);
    assert_eq!(allowed(server.pid()), "0");
    let Value::Bulk(info) = server.client().line("INFO server") else { panic!("INFO") };
    assert!(String::from_utf8(info).unwrap().contains("\r\nworkers:1\r\n"), "one worker for one core");
    assert!(Server::try_start(&Program::Almandine, &["--server_cpulist", "1-"], &[]).is_err());
}

#[test]
fn its_cores_change_while_it_runs() {
    let allowed = |server: &Server| {
        let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let status = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
        let list =
            |status: String| status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        status.map(list).collect::<std::collections::BTreeSet<_>>()
    };
    let server = Server::start(&Program::Almandine, &[]);
    let (all, mut client) = (allowed(&server), server.client());
    assert_eq!(client.line("CONFIG SET server_cpulist 0"), ok());
    assert!(allowed(&server).iter().eq(["0"]), "{:?}", allowed(&server));
    assert!(client.line("CONFIG SET server_cpulist 1023").to_string().contains("server_cpulist"));
    assert!(allowed(&server).iter().eq(["0"]), "nothing changes when it fails");
    assert_eq!(client.call(&["CONFIG", "SET", "server_cpulist", ""]).unwrap(), ok());
    assert_eq!(allowed(&server), all);
    let pinned = Server::start(&Program::Almandine, &["--pin-workers", "yes", "--workers", "1"]);
    assert!(pinned.client().line("CONFIG SET server_cpulist 0").to_string().contains("pin-workers"));
}

#[test]
fn the_zone_is_in_hello_and_info_where_there_is_one() {
    let server = Server::start(&Program::Almandine, &["--availability-zone", "eu-1b"]);
    let mut client = server.client();
    let hello = client.line("HELLO 3").to_string();
    assert!(hello.contains("availability_zone") && hello.contains("eu-1b"), "{hello}");
    assert!(client.line("INFO server").to_string().contains("availability_zone:eu-1b"));
    assert_eq!(client.call(&["CONFIG", "SET", "availability-zone", ""]).unwrap(), ok());
    assert!(!client.line("HELLO 3").to_string().contains("availability_zone"));
}

#[test]
fn a_panic_ends_the_process_as_it_is_told_to_and_repeats_the_remark() {
    for (flag, code) in [("yes", Some(1)), ("no", None)] {
        let flags = ["--use-exit-on-panic", flag, "--enable-debug-command", "yes", "--debug-context", "seen on host 7"];
        let mut server = Server::start(&Program::Almandine, &flags);
        let _ = server.client().call(&["DEBUG", "PANIC"]);
        let status = server.await_exit(std::time::Duration::from_secs(20)).unwrap();
        assert_eq!(status.code(), code, "{status}");
        assert!(server.log().contains("A remark that was set: seen on host 7"), "{}", server.log());
    }
}

#[test]
fn what_is_promised_and_not_there_is_refused_with_what_to_do() {
    let refused =
        [["--locale-collate", "de_DE.UTF-8", "strings are compared by their bytes"], ["--rdma-port", "6380", "There is no RDMA"]];
    for [flag, value, reason] in refused {
        let error = Server::try_start(&Program::Almandine, &[flag, value], &[]).err().unwrap();
        assert!(error.contains(reason), "{error}");
    }
    let server = Server::start(&Program::Almandine, &["--shutdown-on-sigterm", "nosave now"]);
    let _ = server.client().line("PING");
}

#[test]
fn a_check_of_the_configuration_starts_nothing_and_says_everything() {
    let file = std::env::temp_dir().join(format!("almandine-check-{}.conf", std::process::id()));
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let program = almandine_testkit::server::almandine_path();
        let output = Command::new(program).arg("--check-config").arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check("port 1\n"), (true, "The configuration is sound.\n".to_owned()));
    let (sound, text) = check("prot 1\n\nmaxmemory x\nhz 50\nuser bob on\n");
    assert!(!sound);
    for part in [":1: 'prot 1': ", "Did you mean 'port'?", ":3: 'maxmemory x': ", "note: ", ":4: 'hz' has no effect.", "2 errors: "]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!check("port 0\n").0);
    assert_eq!(check("save 900 1\nsave 60 10000\n"), (true, "The configuration is sound.\n".to_owned()));
    let (sound, text) = check("maxmemory 1kb\n");
    assert!(text.ends_with("1 warning: the server would start, and not do all that the configuration asks for.\n"), "{text}");
    assert!(sound && text.contains("warning: maxmemory is 1024 bytes and the empty index takes 1048576"), "{text}");
    let parent = std::env::temp_dir();
    let (parent, name) = (parent.display(), parent.file_name().unwrap().to_string_lossy());
    let twice = format!("storage-dir {parent}/almandine-nowhere {parent}/../{name}/almandine-nowhere/");
    for (storage, reason) in [
        ("storage-dir /etc", "storage-dir: '/etc' holds '"),
        (twice.as_str(), "twice"),
        ("storage-dir-size 1gb", "storage-dir-size bounds storage-dir, which is not set"),
    ] {
        let (sound, text) = check(&format!("{storage}\n"));
        assert!(!sound && text.contains(reason), "{text}");
    }
    assert!(!check("rename-command NOSUCH x\n").0);
    let (sound, text) = check("logfile /nonexistent/log\n");
    assert!(!sound && text.contains("Can't open the log file '/nonexistent/log'"), "{text}");
    assert!(check("user bob on >secret ~* +@all\n").0);
    assert!(!check("user bob on nonsense\n").0);
    fs::remove_file(&file).unwrap();
}

/// The file to rewrite is made a pipe, and CONFIG REWRITE waits for what it holds. The background frees a value only when every
/// worker has left the epoch.
#[test]
fn memory_is_reclaimed_while_config_rewrite_waits_for_its_file() {
    let directory = std::env::temp_dir().join(format!("almandine-rewrite-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("a.conf");
    fs::write(&file, "timeout 0\n").unwrap();
    // With epoll the worker that waits accepts no connection.
    let flags = [file.to_str().unwrap(), "--workers", "2", "--io-backend", "epoll"];
    let server = Server::start(&Program::Almandine, &flags);
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let mut rewriting = server.client();
    rewriting.send(&[["CONFIG", "REWRITE"]]).unwrap();
    // This returns when the server has opened the pipe.
    let pipe = fs::OpenOptions::new().write(true).open(&file).unwrap();
    let mut other = std::iter::repeat_with(|| server.client()).find_map(answering).unwrap();
    assert_eq!(other.line("SETRANGE large 1000000 v"), Value::Integer(1_000_001));
    assert_eq!(other.line("UNLINK large"), Value::Integer(1));
    let started = std::time::Instant::now();
    while !other.line("INFO memory").to_string().contains("lazyfreed_objects:1\\r\\n") {
        assert!(started.elapsed() < Duration::from_secs(30), "the value is never freed");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(pipe);
    assert_eq!(rewriting.receive().unwrap(), ok());
    assert!(fs::metadata(&file).unwrap().is_file(), "the pipe was replaced");
    fs::remove_dir_all(&directory).unwrap();
}

/// The client, if it gets a reply soon: if its worker is not the one that waits.
fn answering(mut client: Client) -> Option<Client> {
    client.stream().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let answers = client.call(&["PING"]).is_ok();
    client.stream().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    answers.then_some(client)
}
