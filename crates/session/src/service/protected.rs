//! Protected mode: without a password, only peers on this machine are served.

use almandine_acl::User;
use almandine_config::Settings;
use almandine_io::socket::Address;
use almandine_net::Peer;

/// What a refused peer is told, word for word as Redis does, because tools look for it.
pub(crate) const DENIED: &str = "\
    DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default \
    user. In this mode connections are only accepted from the loopback interface. If you want to connect from external \
    computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command \
    'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is \
    running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make \
    this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration \
    file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server \
    manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password \
    for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting \
    connections from the outside.";

/// Whether the peer must be refused. `default_user` is the one that it would be.
pub(crate) fn refuses(settings: &Settings, default_user: &User, peer: &Peer) -> bool {
    settings.security.protected_mode && default_user.needs_no_password() && !is_local(&peer.remote)
}

/// Whether an address is of this machine.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.ip().to_canonical().is_loopback(),
        Address::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_unix_sockets_are_local() {
        for (address, local) in [("127.0.0.1:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true), ("10.0.0.1:1", false)] {
            assert_eq!(is_local(&Address::Ip(address.parse().unwrap())), local, "{address}");
        }
    }
}
