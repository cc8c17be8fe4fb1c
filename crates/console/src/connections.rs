//! The connections of the console: accepted, bounded in number, size and time, and handed to hyper.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use almandine_handler::Table;
use almandine_instance::Instance;
use almandine_tls::Acceptor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::hosts::Hosts;
use crate::request::answer;

/// Connections at once. For one more, the oldest is closed: a scrape takes milliseconds, so the oldest is idle or slow.
const CONNECTIONS_MAX: usize = 64;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of a request may take, from the end of the last one or the beginning of the connection on.
const HEAD: Duration = Duration::from_secs(30);
/// Bytes that the head of a request may have.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers that it may have.
const HEADERS_MAX: usize = 64;
/// How long a connection is used; then it ends with the request that it is at.
const LIFE: Duration = Duration::from_secs(120);
/// How long that may take.
const LAST_REQUEST: Duration = Duration::from_secs(10);
/// How long to wait before accepting again when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections need.
pub(crate) struct Common {
    pub(crate) instance: Weak<Instance>,
    pub(crate) table: &'static Table,
    pub(crate) tls: Arc<Acceptor>,
    pub(crate) bind: Vec<String>,
}

/// The connections that there are, the oldest first.
#[derive(Default)]
pub(crate) struct Open {
    number: u64,
    tasks: VecDeque<(u64, AbortHandle)>,
}

/// Accepts connections, without an end. They are TLS where `secure`.
pub(crate) async fn accept(listener: TcpListener, secure: bool, common: Rc<Common>, open: Rc<RefCell<Open>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(stream, secure, Rc::clone(&common), &open),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn begin(stream: TcpStream, secure: bool, common: Rc<Common>, all: &Rc<RefCell<Open>>) {
    let mut open = all.borrow_mut();
    while open.tasks.len() >= CONNECTIONS_MAX {
        if let Some((_, oldest)) = open.tasks.pop_front() {
            oldest.abort();
        }
    }
    open.number += 1;
    let (number, others) = (open.number, Rc::clone(all));
    let task = spawn_local(async move {
        connection(stream, secure, &common).await;
        others.borrow_mut().tasks.retain(|(other, _)| *other != number);
    });
    open.tasks.push_back((number, task.abort_handle()));
}

async fn connection(stream: TcpStream, secure: bool, common: &Common) {
    let Ok(local) = stream.local_addr() else { return };
    // The answer is one piece.
    let _ = stream.set_nodelay(true);
    if !secure {
        return serve(stream, local, None, common).await;
    }
    // Not before there are certificates; `Console::prepare` sees to it that there are.
    let Some(config) = common.tls.server_config() else { return };
    let Ok(Ok(stream)) = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await else { return };
    let name = stream.get_ref().1.server_name().map(str::to_owned);
    serve(stream, local, name, common).await;
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, local: SocketAddr, server_name: Option<String>, common: &Common) {
    let hosts = Hosts { bind: &common.bind, local, server_name: server_name.as_deref() };
    let service = service_fn(|request| {
        let instance = common.instance.upgrade();
        let response = answer(&request, &hosts, instance.as_deref(), common.table);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    if timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // What a peer does not take by then is lost to it.
        let _ = timeout(LAST_REQUEST, connection).await;
    }
}
