//! The title of the process, as `set-proc-title` and `proc-title-template` say: where the server listens, in the list of processes.

use std::sync::OnceLock;

use almandine_config::Settings;
use almandine_io::title;

/// What does not change: the program as it was called, and its configuration file.
struct Fixed {
    program: String,
    file: String,
}

static FIXED: OnceLock<Fixed> = OnceLock::new();

/// Shows the title from now on, if the settings want one.
pub(crate) fn begin(settings: &Settings, program: &str, file: &str) {
    if settings.process.set_proc_title {
        // There is one server per process.
        let _ = FIXED.set(Fixed { program: program.to_owned(), file: file.to_owned() });
        follow(settings);
    }
}

/// Follows a change of the settings.
pub(crate) fn follow(settings: &Settings) {
    if let Some(fixed) = FIXED.get() {
        title::set(&expanded(settings, fixed));
    }
}

/// The template with its names replaced. That it has no others is checked when it is set.
fn expanded(settings: &Settings, fixed: &Fixed) -> String {
    let network = &settings.network;
    let secure_port = settings.tls.port;
    let address = match (if network.port == 0 { secure_port } else { network.port }, network.bind.first()) {
        (0, _) => network.unix_socket.clone(),
        (port, address) => format!("{}:{port}", address.map_or("*", String::as_str)),
    };
    let names = [
        ("{title}", fixed.program.clone()),
        ("{listen-addr}", address),
        ("{server-mode}", String::new()),
        ("{port}", network.port.to_string()),
        ("{tls-port}", secure_port.to_string()),
        ("{unixsocket}", network.unix_socket.clone()),
        ("{config-file}", fixed.file.clone()),
    ];
    let mut text = settings.process.proc_title_template.clone();
    for (name, value) in names {
        text = text.replace(name, &value);
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced() {
        let fixed = Fixed { program: "almandine-server".to_owned(), file: "/etc/a.conf".to_owned() };
        let mut settings = almandine_config::Config::defaults().snapshot().settings.clone();
        assert_eq!(expanded(&settings, &fixed), "almandine-server *:6379");
        settings.process.proc_title_template = "{title} {port} {unixsocket} {config-file}{server-mode}".to_owned();
        settings.network.unix_socket = "/run/a.sock".to_owned();
        assert_eq!(expanded(&settings, &fixed), "almandine-server 6379 /run/a.sock /etc/a.conf");
        settings.process.proc_title_template = "{listen-addr}".to_owned();
        settings.network.port = 0;
        assert_eq!(expanded(&settings, &fixed), "/run/a.sock");
    }
}
