//! A client of the console that sends exactly the bytes that it is given.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Reads one answer.
pub(crate) fn answer(stream: &mut impl Read) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { status, head, body: String::from_utf8(body).unwrap() })
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, and reads one answer.
pub(crate) fn ask(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream).unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// The numbers of the page, by the name and the labels of each sample.
pub(crate) type Page = BTreeMap<String, f64>;

pub(crate) fn page(address: SocketAddr) -> Page {
    try_page(address).unwrap_or_else(|error| panic!("{error}"))
}

/// An error where there is no console.
pub(crate) fn try_page(address: SocketAddr) -> io::Result<Page> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let answer = answer(&mut stream)?;
    assert_eq!(answer.status, 200);
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let split = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    Ok(lines.map(|line| split(line).unwrap_or_else(|| panic!("{line}"))).collect())
}

/// The samples of a family; of a histogram, its counts.
pub(crate) fn samples_of<'p>(page: &'p Page, family: &str) -> Vec<(&'p str, f64)> {
    let is_of = |name: &str| {
        let name = name.split('{').next().unwrap_or(name);
        name == family || name.strip_suffix("_count") == Some(family)
    };
    page.iter().filter(|(name, _)| is_of(name)).map(|(name, value)| (name.as_str(), *value)).collect()
}

/// The sum of them. None where there are none.
pub(crate) fn sum(page: &Page, family: &str) -> Option<f64> {
    let found = samples_of(page, family);
    (!found.is_empty()).then(|| found.iter().map(|(_, value)| value).sum())
}
