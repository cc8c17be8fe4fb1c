//! `cargo xtask deb`: the Debian package, from what `packaging/` holds and a build of the programs.
//!
//! The tree of the package is laid out in `target/deb/root` and handed to `dpkg-deb`, which is all of Debian's tools that it takes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the package holds beside the programs: from where, to where.
const FILES: &[(&str, &str)] = &[
    ("packaging/systemd/almandine.service", "usr/lib/systemd/system/almandine.service"),
    ("packaging/debian/almandine.conf", "etc/almandine/almandine.conf"),
    ("packaging/debian/logrotate", "etc/logrotate.d/almandine"),
    ("docs/operations.md", "usr/share/doc/almandine/operations.md"),
    ("docs/durability.md", "usr/share/doc/almandine/durability.md"),
    ("docs/scripts.md", "usr/share/doc/almandine/scripts.md"),
    ("docs/start.md", "usr/share/doc/almandine/start.md"),
    ("docs/known-limits.md", "usr/share/doc/almandine/known-limits.md"),
    ("docs/comparison.md", "usr/share/doc/almandine/comparison.md"),
    ("docs/BENCHMARKING.md", "usr/share/doc/almandine/BENCHMARKING.md"),
    ("docs/BENCHMARKS.md", "usr/share/doc/almandine/BENCHMARKS.md"),
    ("docs/grid.md", "usr/share/doc/almandine/grid.md"),
    ("docs/differences.md", "usr/share/doc/almandine/differences.md"),
    ("docs/clients.md", "usr/share/doc/almandine/clients.md"),
    ("docs/object-storage.md", "usr/share/doc/almandine/object-storage.md"),
    ("docs/reference/commands.md", "usr/share/doc/almandine/reference/commands.md"),
    ("docs/reference/config.md", "usr/share/doc/almandine/reference/config.md"),
    ("docs/reference/metrics.md", "usr/share/doc/almandine/reference/metrics.md"),
    ("docs/reference/prometheus.md", "usr/share/doc/almandine/reference/prometheus.md"),
    ("docs/moving/move.py", "usr/share/doc/almandine/moving/move.py"),
    ("docs/moving/same.py", "usr/share/doc/almandine/moving/same.py"),
    ("packaging/debian/copyright", "usr/share/doc/almandine/copyright"),
    ("LICENSE-MIT", "usr/share/doc/almandine/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/almandine/LICENSE-APACHE"),
];

/// What is compressed, as Debian wants it.
const COMPRESSED: &[(&str, &str)] = &[("CHANGELOG.md", "usr/share/doc/almandine/CHANGELOG.md.gz")];

/// What the programs print about themselves: what the program calls it, and where it belongs, `@` for the program's name.
const PRINTED: [(&str, &str); 4] = [
    ("man", "usr/share/man/man1/@.1.gz"),
    ("bash", "usr/share/bash-completion/completions/@"),
    ("zsh", "usr/share/zsh/vendor-completions/_@"),
    ("fish", "usr/share/fish/vendor_completions.d/@.fish"),
];

/// The programs, and how they are asked for what they print.
const PROGRAMS: [(&str, &str); 3] =
    [("almandine-server", "--print-reference"), ("almandine-bench", "print-reference"), ("almandine-check", "print-reference")];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds the programs in `profile`, and the package of them.
pub(crate) fn run(root: &Path, profile: &str) -> bool {
    match build(root, profile) {
        Ok(package) => {
            println!("{}", package.display());
            true
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}

fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let packages = PROGRAMS.iter().flat_map(|(program, _)| ["--package", program]);
    execute(Command::new("cargo").args(["build", "--locked", "--profile", profile]).args(packages).current_dir(root))?;
    let target = root.join("target");
    let built = target.join(if profile == "dev" { "debug" } else { profile });
    let tree = target.join("deb/root");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|error| error.to_string())?;
    }
    for (program, print) in PROGRAMS {
        let to = place(&tree, &format!("usr/bin/{program}"))?;
        execute(Command::new("strip").arg("-o").arg(&to).arg(built.join(program)))?;
        set_mode(&to, 0o755)?;
        for (what, to) in PRINTED {
            let text = output(Command::new(built.join(program)).args([print, what]))?;
            install(&tree, &to.replace('@', program), text.as_bytes())?;
        }
    }
    for (from, to) in FILES.iter().chain(COMPRESSED) {
        let content = fs::read(root.join(from)).map_err(|error| format!("{from}: {error}"))?;
        install(&tree, to, &content)?;
    }
    write_control(root, &tree)?;
    let package = target.join(format!("deb/almandine_{}_{}.deb", env!("CARGO_PKG_VERSION"), architecture()?));
    execute(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&tree).arg(&package))?;
    Ok(package)
}

/// Puts a file into the tree, compressed if its name says so.
fn install(tree: &Path, to: &str, content: &[u8]) -> Result<(), String> {
    let to = place(tree, to)?;
    let plain = to.with_extension("");
    let compressed = to.extension().is_some_and(|extension| extension == "gz");
    let written = if compressed { &plain } else { &to };
    fs::write(written, content).map_err(|error| format!("{}: {error}", written.display()))?;
    if compressed {
        execute(Command::new("gzip").args(["-9n"]).arg(written))?;
    }
    set_mode(&to, 0o644)
}

fn write_control(root: &Path, tree: &Path) -> Result<(), String> {
    let template = fs::read_to_string(root.join("packaging/debian/control.in")).map_err(|error| error.to_string())?;
    let size = output(Command::new("du").args(["-sk"]).arg(tree))?;
    let control = template
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ARCHITECTURE@", &architecture()?)
        .replace("@DEPENDS@", &format!("libc6 (>= {}), libgcc-s1", libc_version()?))
        .replace("@SIZE@", size.split_whitespace().next().unwrap_or("0"));
    let write = |name: &str, text: &str, mode| {
        let path = place(tree, &format!("DEBIAN/{name}"))?;
        fs::write(&path, text).map_err(|error| error.to_string())?;
        set_mode(&path, mode)
    };
    write("control", &control, 0o644)?;
    write("conffiles", "/etc/almandine/almandine.conf\n/etc/logrotate.d/almandine\n", 0o644)?;
    for script in SCRIPTS {
        let text = fs::read_to_string(root.join("packaging/debian").join(script)).map_err(|error| error.to_string())?;
        write(script, &text, 0o755)?;
    }
    Ok(())
}

/// The version of the system's library that the programs were linked with: an older one may lack what they use.
fn libc_version() -> Result<String, String> {
    let said = output(Command::new("ldd").arg("--version"))?;
    let version = said.lines().next().and_then(|line| line.split_whitespace().last());
    version.map(str::to_owned).ok_or_else(|| "ldd does not say its version".to_owned())
}

fn architecture() -> Result<String, String> {
    Ok(output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// A path in the tree, whose directory exists.
fn place(tree: &Path, path: &str) -> Result<PathBuf, String> {
    let path = tree.join(path);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| error.to_string())?;
    Ok(path)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| format!("{}: {error}", path.display()))
}

fn execute(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_package_holds_is_there() {
        let root = crate::root::root();
        for (from, to) in FILES.iter().chain(COMPRESSED) {
            assert!(root.join(from).is_file(), "{from}");
            assert!(!to.starts_with('/'), "{to}");
        }
        for script in SCRIPTS {
            let text = fs::read_to_string(root.join("packaging/debian").join(script)).unwrap();
            assert!(text.starts_with("#!/bin/sh\nset -e\n"), "{script}");
        }
    }

    #[test]
    fn the_package_holds_the_pages_that_its_pages_refer_to() {
        let root = crate::root::root();
        for (from, _) in FILES.iter().filter(|(from, _)| from.ends_with(".md")) {
            let text = fs::read_to_string(root.join(from)).unwrap();
            // `](page.md` and `page.md` between back-quotes, relative to the page or to docs/.
            let names = text.split(['(', ')', '`', ' ', '#', '\n']).filter(|word| word.ends_with(".md") && !word.contains("://"));
            for name in names {
                let beside = Path::new(from).parent().unwrap().join(name);
                let held = |path: &Path| FILES.iter().chain(COMPRESSED).any(|(from, _)| Path::new(from) == path);
                let refers = root.join(&beside).is_file() || root.join("docs").join(name).is_file();
                assert!(!refers || held(&beside) || held(&Path::new("docs").join(name)), "{from} refers to {name}");
            }
        }
    }

    /// A port that another server has, or a unit that an operator has masked, must not leave the package half installed.
    #[test]
    fn a_service_that_does_not_start_does_not_fail_the_installation() {
        let directory = std::env::temp_dir().join(format!("almandine-postinst-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in
            [("systemctl", "echo $* >>$0.log\nexit 1"), ("getent", "exit 0"), ("mkdir", ""), ("chown", ""), ("chmod", "")]
        {
            let path = directory.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            set_mode(&path, 0o755).unwrap();
        }
        let here = directory.display().to_string();
        let script = fs::read_to_string(crate::root::root().join("packaging/debian/postinst")).unwrap();
        let script = script.replace("/run/systemd/system", &here);
        let run = Command::new("/bin/sh").args(["-c", &script, "postinst", "configure"]).env("PATH", &here).output().unwrap();
        let (said, called) = (String::from_utf8_lossy(&run.stderr), fs::read_to_string(directory.join("systemctl.log")).unwrap());
        assert!(run.status.success(), "{said}");
        assert!(called.contains("restart almandine.service"), "{called}");
        assert!(said.contains("journalctl -u almandine") && said.contains("/etc/almandine/almandine.conf"), "{said}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
