//! Which questions are asked, and the parts of the bundle that their answers become. A part that cannot be had is named, with the
//! reason, and the others are there all the same.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::redact::{LEFT_OUT, Redactor, error_code, figures};
use super::{LOG_LINES, Support, log, machine};
use crate::server::{Connection, Reply};

/// Shorter ones would be found in texts that do not hold them.
const SECRET_BYTES_MIN: usize = 4;
/// Parameters whose values are looked for in the lines of the log.
const SECRETS: [&str; 4] = ["requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];
const NOT_HERE: &str = "the server is on another machine, or belongs to a user whose processes are not shown";
const NO_LOGFILE: &str =
    "The server writes its log to the standard output. Where it is a service, journalctl -u almandine has it.\n";
const ABOUT: &str = "What a server says of itself, for those who look for the cause of a problem.\n\n\
    Left out: passwords and their hashes, keys, values, arguments of commands, patterns of users' rights, scripts, functions, and \
    what clients call themselves. Users, names and addresses of clients are numbered: the same number is the same one. In it are: \
    the configuration with its paths and addresses, names of commands, figures, and what the kernel says of machine and process.\n";

/// A bundle that is being written.
pub(super) struct Collection {
    archive: Archive,
    connection: Connection,
    redactor: Redactor,
    /// Parts that could not be had, and why.
    missing: Vec<(String, String)>,
    parameters: BTreeMap<String, String>,
}

impl Collection {
    /// Writes the bundle. Returns the parts that are missing.
    pub(super) fn write(task: &Support, connection: Connection, secrets: Vec<String>) -> io::Result<Vec<(String, String)>> {
        let archive =
            Archive::create(&task.to).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", task.to.display())))?;
        let (redactor, missing, parameters) = (Redactor::new(), Vec::new(), BTreeMap::new());
        let mut collection = Self { archive, connection, redactor, missing, parameters };
        collection.server()?;
        collection.machine(task, secrets)?;
        let missing: String = collection.missing.iter().map(|(name, why)| format!("{name} is missing: {why}\n")).collect();
        collection
            .archive
            .add("support/README.txt", &format!("{ABOUT}\nWritten by almandine-check {}.\n{missing}", env!("CARGO_PKG_VERSION")))?;
        collection.archive.finish()?;
        Ok(collection.missing)
    }

    /// What the server answers.
    fn server(&mut self) -> io::Result<()> {
        self.ask("server/info.txt", &["INFO", "everything"], |redactor, reply| redactor.info(reply.text().unwrap_or_default()))?;
        self.ask("server/config.txt", &["CONFIG", "GET", "*"], |redactor, reply| redactor.parameters(reply.list()))?;
        self.ask("server/users.txt", &["ACL", "LIST"], |redactor, reply| redactor.users(reply.list()))?;
        self.ask("server/denied.txt", &["ACL", "LOG"], |redactor, reply| redactor.denied(reply.list()))?;
        self.ask("server/clients.txt", &["CLIENT", "LIST"], |redactor, reply| redactor.clients(reply.text().unwrap_or_default()))?;
        self.ask("server/slowlog.txt", &["SLOWLOG", "GET", "1000"], |redactor, reply| redactor.slow(reply.list()))?;
        for kind in ["large-request", "large-reply"] {
            let name = format!("server/{kind}s.txt");
            self.ask(&name, &["COMMANDLOG", "GET", "1000", kind], |redactor, reply| redactor.slow(reply.list()))?;
        }
        let histograms = |redactor: &mut Redactor, reply: &Reply| redactor.histograms(reply.list());
        self.ask("server/latency-histogram.txt", &["LATENCY", "HISTOGRAM"], histograms)?;
        let lines = |_: &mut Redactor, reply: &Reply| match reply {
            Reply::List(list) => list.iter().map(|element| figures(element).trim_start().to_owned() + "\n").collect(),
            reply => figures(reply).trim_start().to_owned() + "\n",
        };
        self.ask("server/latency-latest.txt", &["LATENCY", "LATEST"], lines)?;
        self.ask("server/latency-doctor.txt", &["LATENCY", "DOCTOR"], lines)?;
        self.ask("server/memory-doctor.txt", &["MEMORY", "DOCTOR"], lines)?;
        self.ask("server/memory-stats.txt", &["MEMORY", "STATS"], |_, reply| {
            reply.list().chunks(2).map(|pair| pair.iter().map(figures).collect::<String>().trim_start().to_owned() + "\n").collect()
        })
    }

    /// Asks the server, and adds the answer as `show` shows it.
    fn ask(&mut self, name: &str, words: &[&str], show: impl Fn(&mut Redactor, &Reply) -> String) -> io::Result<()> {
        match self.connection.call(words) {
            Ok(Reply::Error(text)) => self.miss(name, &format!("the server answers with the error {}", error_code(&text))),
            Ok(reply) => {
                self.remember(words, &reply);
                self.archive.add(&format!("support/{name}"), &show(&mut self.redactor, &reply))?;
            }
            Err(error) => self.miss(name, &format!("the connection: {error}")),
        }
        Ok(())
    }

    fn miss(&mut self, name: &str, why: &str) {
        self.missing.push((name.to_owned(), why.to_owned()));
    }

    /// Keeps the configuration and the process' id, which say where to look on this machine.
    fn remember(&mut self, words: &[&str], reply: &Reply) {
        match words.first() {
            Some(&"CONFIG") => {
                let pairs = reply.list().chunks_exact(2);
                let pairs = pairs.filter_map(|pair| Some((pair[0].text()?.to_owned(), pair[1].text()?.to_owned())));
                self.parameters.extend(pairs);
            }
            Some(&"INFO") => {
                let id = reply.text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("process_id:")));
                self.parameters.extend(id.map(|id| ("process_id".to_owned(), id.to_owned())));
            }
            _ => {}
        }
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// What the machine says, if the server is on this one.
    fn machine(&mut self, task: &Support, mut secrets: Vec<String>) -> io::Result<()> {
        let process = self.parameter("process_id").parse::<u32>().ok();
        let Some(process) = process.filter(|process| self.connection.is_near() && machine::is_server(*process)) else {
            for name in ["machine/kernel.txt", "machine/process.txt", "machine/files.txt", "machine/log.txt"] {
                self.miss(name, NOT_HERE);
            }
            return Ok(());
        };
        self.archive.add("support/machine/kernel.txt", &machine::kernel())?;
        self.archive.add("support/machine/process.txt", &machine::process(process))?;
        self.archive.add("support/machine/files.txt", &self.files())?;
        let logfile = self.parameter("logfile");
        if logfile.is_empty() {
            return self.archive.add("support/machine/log.txt", NO_LOGFILE);
        }
        let path = Path::new(self.parameter("dir")).join(logfile);
        secrets.extend(SECRETS.iter().map(|name| self.parameter(name).to_owned()));
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        match log::tail(&path, task.log_lines.unwrap_or(LOG_LINES), task.log_lines.is_some(), &secrets) {
            Ok(text) => self.archive.add("support/machine/log.txt", &text),
            Err(error) => {
                self.miss("machine/log.txt", &format!("the file of the log: {}", error.kind()));
                Ok(())
            }
        }
    }

    /// The disks, and the files of the server. In `dir` there may be files of others, whose names are left out.
    fn files(&self) -> String {
        let mut text = String::new();
        let directory = PathBuf::from(self.parameter("dir"));
        let own = ["dbfilename", "appenddirname", "backupdirname", "logfile", "aclfile", "pidfile", "appendfilename"];
        let own = own.map(|name| Path::new(self.parameter(name)).file_name().and_then(OsStr::to_str).unwrap_or_default());
        machine::disk(&mut text, "dir", &directory);
        let is_own = |name: &str| own.contains(&name) || name.starts_with("temp-") && name.ends_with(".rdb");
        machine::files(&mut text, "dir", &directory, is_own);
        if self.parameter("appendonly") == "yes" {
            machine::files(&mut text, "appenddirname", &directory.join(self.parameter("appenddirname")), |_| true);
        }
        for (number, path) in self.parameter("storage-dir").split_whitespace().enumerate() {
            let what = format!("storage-dir {}", number + 1);
            machine::disk(&mut text, &what, &directory.join(path));
            machine::files(&mut text, &what, &directory.join(path), |_| true);
        }
        text.push_str(&format!("== names of other files in dir are {LEFT_OUT}\n"));
        text
    }
}
