//! One request and its answer. Nothing here waits.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use almandine_handler::Table;
use almandine_instance::Instance;

use crate::health;
use crate::hosts::Hosts;
use crate::page::{self, Format};

/// Longest path with its query, in bytes.
const TARGET_BYTES_MAX: usize = 256;
const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "/metrics, /health/live and /health/ready are here\n";

/// What is sent, in one piece.
pub(crate) struct Content(Option<Bytes>);

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Answers a request. `instance` is none once the server has gone.
pub(crate) fn answer<B: Body>(
    request: &Request<B>,
    hosts: &Hosts<'_>,
    instance: Option<&Instance>,
    table: &'static Table,
) -> Response<Content> {
    match refuse(request, hosts) {
        Some(refusal) => refusal,
        None => serve(request, instance, table),
    }
}

/// What is wrong with a request for any path.
fn refuse<B: Body>(request: &Request<B>, hosts: &Hosts<'_>) -> Option<Response<Content>> {
    let closing = |status, text: String| {
        let mut response = plain(status, text);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Some(response)
    };
    if !request.body().is_end_stream() {
        return closing(StatusCode::PAYLOAD_TOO_LARGE, "requests have no body here\n".to_owned());
    }
    let target = request.uri();
    if target.path_and_query().map_or(0, |target| target.as_str().len()) > TARGET_BYTES_MAX {
        return closing(StatusCode::URI_TOO_LONG, format!("a path has at most {TARGET_BYTES_MAX} bytes here\n"));
    }
    let host = match (target.authority(), only(request.headers())) {
        (Some(authority), _) => Some(authority.as_str()),
        (None, host) => host,
    };
    let Some(host) = host else {
        return closing(StatusCode::BAD_REQUEST, "the header Host is missing, or there are several\n".to_owned());
    };
    if !hosts.include(host) {
        let text = "the header Host does not name this server: ask for localhost, for an address of metrics-bind, or, with TLS, \
                    for a name of the certificate\n";
        return closing(StatusCode::MISDIRECTED_REQUEST, text.to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    None
}

fn only(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none())?;
    host.to_str().ok()
}

fn serve<B>(request: &Request<B>, instance: Option<&Instance>, table: &'static Table) -> Response<Content> {
    let Some(instance) = instance else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned());
    };
    match request.uri().path() {
        "/metrics" => {
            let format = format(request.headers());
            with_type(StatusCode::OK, format.content_type(), page::write(instance, table, format))
        }
        "/health/live" => plain(StatusCode::OK, "alive\n".to_owned()),
        "/health/ready" => match health::not_ready(instance) {
            None => plain(StatusCode::OK, "ready\n".to_owned()),
            Some(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        "/" => plain(StatusCode::OK, PATHS.to_owned()),
        _ => plain(StatusCode::NOT_FOUND, PATHS.to_owned()),
    }
}

fn plain(status: StatusCode, text: String) -> Response<Content> {
    with_type(status, TEXT, text)
}

fn with_type(status: StatusCode, kind: &'static str, text: String) -> Response<Content> {
    let mut response = Response::new(Content(Some(Bytes::from(text)).filter(|bytes| !bytes.is_empty())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The format that the peer prefers by the header `Accept`: OpenMetrics only where it is named and nothing else is liked better.
fn format(headers: &HeaderMap) -> Format {
    let (mut open, mut text) = (0.0_f32, None);
    for range in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let (mut quality, mut known) = (1.0_f32, true);
        for part in parts {
            match part.split_once('=').map(|(key, value)| (key.trim(), value.trim().trim_matches('"'))) {
                Some(("q", value)) => quality = value.parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0),
                Some(("version", value)) => known = matches!(value, "1.0.0" | "0.0.1" | "0.0.4"),
                _ => {}
            }
        }
        if name.eq_ignore_ascii_case("application/openmetrics-text") && known {
            open = open.max(quality);
        } else if name.eq_ignore_ascii_case("text/plain") && known {
            text = Some(text.unwrap_or(0.0_f32).max(quality));
        }
    }
    if open > 0.0 && open >= text.unwrap_or(0.0) { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_peer_prefers() {
        let chosen = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            format(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;\
                          version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(chosen(prometheus), Format::OpenMetrics);
        assert_eq!(chosen("application/openmetrics-text"), Format::OpenMetrics);
        assert_eq!(chosen("text/html, */*;q=0.1"), Format::Prometheus);
        assert_eq!(chosen("application/openmetrics-text;q=0.2, text/plain;q=0.9"), Format::Prometheus);
        assert_eq!(chosen("application/openmetrics-text;q=0"), Format::Prometheus);
        assert_eq!(chosen("application/openmetrics-text;version=9.0.0"), Format::Prometheus);
        assert_eq!(format(&HeaderMap::new()), Format::Prometheus);
    }
}
