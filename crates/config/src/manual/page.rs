//! The manual page of the server, in the language of `man`.

use std::fmt::Write;

use super::shown;
use crate::parameter::Parameter;
use crate::settings::SECTIONS;

const HEAD: &str = r#".SH NAME
almandine\-server \- serves the Redis protocol on every core
.SH SYNOPSIS
.B almandine\-server
.RI [ FILE ]
.RB [ \- ]
.RB [ \-\-\fIPARAMETER\fR
.IR VALUE ...]...
.br
.B almandine\-server \-\-check\-config
.RI [ FILE ]
.RB [ \-\-\fIPARAMETER\fR
.IR VALUE ...]...
.SH DESCRIPTION
An in\-memory store of strings, hashes, lists, sets, sorted sets and streams that speaks the protocol of Redis and Valkey.
A worker per core executes what it receives. With
.B storage\-dir
data that does not fit
.B maxmemory
goes to disks and comes back by the key.
.PP
.I FILE
has the syntax of redis.conf, and
.B \-
reads more of it from the standard input. Parameters on the command line come last and win.
.SH OPTIONS
.TP
.BR \-h ", " \-\-help
Shows the parameters that have an effect.
.TP
.BR \-v ", " \-\-version
Shows the version.
.TP
.BR \-\-check\-config " [\fIFILE\fR]"
Says whether the server would start, with every error and its line, and notes which parameters have no effect, and why.
.SH PARAMETERS
Defaults stand in brackets. Those marked * are fixed at start; CONFIG SET changes the others. Bytes take units:
k is 1000, kb is 1024, likewise m, mb, g and gb.
"#;

const TAIL: &str = r#".SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
End the server. A second SIGINT does not wait.
.TP
.B SIGHUP
Is ignored. The log file is opened for each line, so it can be moved away at any time.
.SH EXIT STATUS
0 after an ordinary end, 1 when the server could not start or a part of it failed, otherwise the signal of the defect that ended it.
.SH FILES
.TP
.I /etc/almandine/almandine.conf
The configuration of the packaged service.
.SH EXAMPLES
.TP
.B almandine\-server /etc/almandine/almandine.conf \-\-port 7000
A file, with another port.
.TP
.B almandine\-server \-\-workers 4 \-\-maxmemory 8gb
Four workers and a memory budget.
.TP
.B almandine\-server \-\-storage\-dir /data \-\-maxmemory 8gb
What does not fit 8gb goes to /data.
.SH SEE ALSO
.BR almandine\-bench (1),
.BR redis\-cli (1)
"#;

/// The page.
pub(super) fn page() -> String {
    let mut text = format!(".TH ALMANDINE\\-SERVER 1 \"\" \"Almandine {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"));
    text.push_str(HEAD);
    for section in SECTIONS {
        let mut parameters = section.iter().filter(|parameter| shown(parameter)).peekable();
        if let Some(first) = parameters.peek() {
            // Writing to a String does not fail.
            let _ = writeln!(text, ".SS {}", first.section);
        }
        parameters.for_each(|parameter| write_parameter(&mut text, parameter));
    }
    text.push_str(TAIL);
    text
}

fn write_parameter(text: &mut String, parameter: &Parameter) {
    let mark = if parameter.flags.immutable { " *" } else { "" };
    let default = if parameter.default.is_empty() { "none" } else { parameter.default };
    let _ = writeln!(text, ".TP\n.BR \\-\\-{} \" [{}]{mark}\"", escaped(parameter.name), escaped(default));
    let _ = writeln!(text, "{}", escaped(parameter.summary));
    if !parameter.kind.names().is_empty() {
        let _ = writeln!(text, "One of: {}.", escaped(&parameter.kind.names().join(", ")));
    }
}

/// Text in which nothing is a request: no line begins with a dot or a quote, and `\` and `-` mean themselves.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq").replace('`', "");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
