//! An S3 server for tests, in memory: as much of the protocol as a device needs. It answers PUT, GET with a range, HEAD, DELETE,
//! the deletion of several, and listing in small pages, wants requests to be signed, and can fail some of them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The only key that may sign.
pub const KEY: &str = "test-key";
/// Names in a page of a listing.
const PAGE: usize = 5;
const TIME: &str = "Wed, 01 Jan 2025 00:00:00 GMT";

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    connections: Mutex<Vec<TcpStream>>,
    stop: AtomicBool,
    requests: AtomicU64,
    /// Each so-manieth request fails; none when 0.
    fail_each: AtomicU64,
    refuse: AtomicBool,
    delay_ms: AtomicU64,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer(u16, Vec<(&'static str, String)>, Vec<u8>);

impl Server {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// When the machine gives no port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (state, port) = (Arc::new(State::default()), listener.local_addr().expect("its number").port());
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.stop.load(Ordering::Acquire) {
                    break;
                }
                let Ok(copy) = stream.try_clone() else { continue };
                locked(&shared.connections).push(copy);
                let state = Arc::clone(&shared);
                // A client that goes away ends its connection's thread.
                thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Self { state, port, thread: Some(thread) }
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a client needs beside the name of a bucket, under the names of the environment.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_REGION", "nowhere-1".to_owned()),
        ]
    }

    /// Names and lengths, with the bucket before the name.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, usize)> {
        self.state.objects().iter().map(|(name, data)| (name.clone(), data.len())).collect()
    }

    /// Puts a small object there.
    pub fn put(&self, name: &str) {
        self.state.objects().insert(name.to_owned(), vec![1; 10]);
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// From now on each so-manieth request fails once; 0: none.
    pub fn fail_each(&self, count: u64) {
        self.state.fail_each.store(count, Ordering::Relaxed);
    }

    /// From now on each request takes so long.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Refuses everything, or no longer.
    pub fn refuse(&self, refuse: bool) {
        self.state.refuse.store(refuse, Ordering::Relaxed);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        for connection in locked(&self.state.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A test that panicked leaves a whole state: each change is one.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        locked(&self.objects)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = read_request(&mut reader)? {
            thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed)));
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let fail_each = self.fail_each.load(Ordering::Relaxed);
            let Answer(status, headers, body) = if fail_each > 0 && number.is_multiple_of(fail_each) {
                Answer(503, Vec::new(), b"<Error><Code>SlowDown</Code></Error>".to_vec())
            } else if self.refuse.load(Ordering::Relaxed) || !signed(&request) {
                Answer(403, Vec::new(), b"<Error><Code>AccessDenied</Code></Error>".to_vec())
            } else {
                self.answer(&request)
            };
            let mut head =
                format!("HTTP/1.1 {status} X\r\nLast-Modified: {TIME}\r\nETag: \"1\"\r\nContent-Length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            // In one piece, so that no part waits for the acknowledgement of another.
            let mut answer = head.into_bytes();
            if request.method != "HEAD" {
                answer.extend_from_slice(&body);
            }
            stream.write_all(&answer)?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut objects = self.objects();
        let missing = || Answer(404, Vec::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
        match request.method.as_str() {
            "PUT" if request.headers.contains_key("if-none-match") && objects.contains_key(&request.path) => {
                Answer(412, Vec::new(), b"<Error><Code>PreconditionFailed</Code></Error>".to_vec())
            }
            "PUT" => {
                objects.insert(request.path.clone(), request.body.clone());
                Answer(200, Vec::new(), Vec::new())
            }
            "DELETE" => {
                objects.remove(&request.path);
                Answer(204, Vec::new(), Vec::new())
            }
            "POST" if request.query.contains_key("delete") => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let mut deleted = String::new();
                for part in body.split("<Key>").skip(1) {
                    let key = part.split("</Key>").next().unwrap_or_default();
                    objects.remove(&format!("{}/{key}", request.path));
                    deleted.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
                }
                Answer(200, Vec::new(), format!("<DeleteResult>{deleted}</DeleteResult>").into_bytes())
            }
            "GET" if request.query.contains_key("list-type") => list(&objects, request),
            "GET" | "HEAD" => objects.get(&request.path).map_or_else(missing, |data| ranged(data, request)),
            _ => Answer(405, Vec::new(), Vec::new()),
        }
    }
}

fn signed(request: &Request) -> bool {
    let begin = format!("AWS4-HMAC-SHA256 Credential={KEY}/");
    request.headers.get("authorization").is_some_and(|value| value.starts_with(&begin))
}

fn list(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Answer {
    let word = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let (bucket, prefix, after) = (format!("{}/", request.path), word("prefix"), word("continuation-token"));
    let names = objects.iter().filter_map(|(path, data)| Some((path.strip_prefix(&bucket)?, data)));
    let direct = names.filter(|(name, _)| name.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.contains('/')));
    let mut left = direct.filter(|(name, _)| *name > after.as_str()).peekable();
    let (mut text, mut last) = (String::new(), String::new());
    for (name, data) in left.by_ref().take(PAGE) {
        let size = data.len();
        text.push_str(&format!(
            "<Contents><Key>{name}</Key><Size>{size}</Size>\
             <LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag></Contents>"
        ));
        name.clone_into(&mut last);
    }
    if left.peek().is_some() {
        text.push_str(&format!("<NextContinuationToken>{last}</NextContinuationToken>"));
    }
    Answer(200, Vec::new(), format!("<ListBucketResult>{text}</ListBucketResult>").into_bytes())
}

fn ranged(data: &[u8], request: &Request) -> Answer {
    let Some(range) = request.headers.get("range") else { return Answer(200, Vec::new(), data.to_vec()) };
    let bounds = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let number = |text: &str| text.parse::<usize>().ok();
    let bounds = bounds.and_then(|(first, last)| Some((number(first)?, number(last)?)));
    let Some((first, last)) = bounds.filter(|(first, _)| *first < data.len()) else {
        return Answer(416, Vec::new(), Vec::new());
    };
    let last = last.min(data.len() - 1);
    let header = format!("bytes {first}-{last}/{}", data.len());
    Answer(206, vec![("Content-Range", header)], data[first..=last].to_vec())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(name, value)| (name.to_owned(), value.replace("%2F", "/"))).collect();
    Ok(Some(Request { method, path: path.trim_matches('/').to_owned(), query, headers, body }))
}
