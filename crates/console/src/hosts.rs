//! The header `Host`: names that the console answers for. A web page whose name was pointed at this machine asks under that name,
//! and is refused.

use std::net::{IpAddr, SocketAddr};

/// What one connection may be asked under.
pub(crate) struct Hosts<'c> {
    /// The words of `metrics-bind`.
    pub(crate) bind: &'c [String],
    /// Our end of the connection.
    pub(crate) local: SocketAddr,
    /// The name under which the peer made the TLS connection: the certificate has vouched for it.
    pub(crate) server_name: Option<&'c str>,
}

impl Hosts<'_> {
    /// Whether a host, perhaps with a port, is one of ours. The port is not looked at: it may have been mapped.
    pub(crate) fn include(&self, host_and_port: &str) -> bool {
        let host = without_port(host_and_port);
        if host.eq_ignore_ascii_case("localhost") || self.server_name.is_some_and(|name| name.eq_ignore_ascii_case(host)) {
            return true;
        }
        let address = host.parse::<IpAddr>().ok();
        if address.is_some_and(|address| address.is_loopback() || address == self.local.ip().to_canonical()) {
            return true;
        }
        let mut words = self.bind.iter().map(|word| word.strip_prefix('-').unwrap_or(word));
        words.any(|word| word.eq_ignore_ascii_case(host) || address.is_some() && word.parse().ok() == address)
    }
}

/// `[::1]:80` is `::1`, `db.example.:80` is `db.example`.
fn without_port(text: &str) -> &str {
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_server_are_answered() {
        let bind = ["-10.0.0.7".to_owned(), "metrics.internal".to_owned()];
        let hosts = Hosts { bind: &bind, local: "10.0.0.8:9121".parse().unwrap(), server_name: Some("db1.example") };
        for ours in [
            "localhost",
            "LOCALHOST:9121",
            "localhost.",
            "127.0.0.1:80",
            "127.3.2.1",
            "[::1]:9121",
            "[::1]",
            "10.0.0.7",
            "10.0.0.8:9121",
            "metrics.internal:1",
            "DB1.example:9121",
        ] {
            assert!(hosts.include(ours), "{ours}");
        }
        for other in
            ["", "evil.example", "localhost.evil.example", "10.0.0.9", "evil.example:9121", "[::2]", "127.0.0.1.evil.example", "*"]
        {
            assert!(!hosts.include(other), "{other}");
        }
    }
}
