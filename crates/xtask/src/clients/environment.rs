//! Where a program runs: its packages, of the versions that its directory pins, fetched by its language's own tool.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What a program is written in; its directory says the rest.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// `main.py`, and `requirements.txt` where it needs packages.
    Python,
    /// The same beside Debian packages, which are unpacked and not installed: `NAME`, or `NAME/SUITE` for what another release has.
    PythonAnd(&'static [&'static str]),
    /// `main.mjs` with `package.json` and `package-lock.json`.
    Node,
    /// A module.
    Go,
    /// `pom.xml` with a class `Main`, compiled beside `Checks.java`.
    Maven,
    /// A package of its own, outside of the workspace.
    Cargo,
}

/// Why a program cannot run.
pub(super) enum Unready {
    /// Its language is not installed.
    NoToolchain(String),
    /// Its packages cannot be had.
    NotFetched(String),
    /// It does not compile, or cannot be started.
    Broken(String),
}

/// Prepares what is not there yet, and says how the program is started. `source` is its directory, `place` where it is built.
pub(super) fn prepare(kind: Kind, source: &Path, place: &Path) -> Result<Command, Unready> {
    match kind {
        Kind::Python => python(source, place),
        Kind::PythonAnd(packages) => {
            packages.iter().try_for_each(|package| unpack(package, place))?;
            python(source, place)
        }
        Kind::Node => node(source, place),
        Kind::Go => go(source, place),
        Kind::Maven => maven(source, place),
        Kind::Cargo => cargo(source, place),
    }
}

fn python(source: &Path, place: &Path) -> Result<Command, Unready> {
    needs("python3", "--version")?;
    let requirements = source.join("requirements.txt");
    let mut program = Command::new("python3");
    if requirements.is_file() {
        let environment = place.join("environment");
        let python = environment.join("bin/python");
        if is_new(&[&requirements], place) {
            let _ = fs::remove_dir_all(&environment);
            fetch(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
            fetch(Command::new(&python).args(install).arg(&requirements))?;
            done(&[&requirements], place);
        }
        program = Command::new(python);
    }
    program.arg(source.join("main.py")).current_dir(place);
    Ok(program)
}

/// Into `PLACE/system`, or `PLACE/SUITE`.
fn unpack(package: &str, place: &Path) -> Result<(), Unready> {
    needs("dpkg-deb", "--version")?;
    let suite = package.split_once('/').map(|(_, suite)| suite);
    let place = place.join(suite.unwrap_or("system"));
    if place.join("usr").is_dir() {
        return Ok(());
    }
    fs::create_dir_all(&place).map_err(|e| Unready::Broken(format!("{}: {e}", place.display())))?;
    let options = suite.map_or(Ok(Vec::new()), |suite| lists_of(suite, &place.join("apt")))?;
    fetch(Command::new("apt-get").args(options).args(["download", package]).current_dir(&place))?;
    let archive = |path: &Path| path.extension().is_some_and(|extension| extension == "deb");
    let found = fs::read_dir(&place).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let Some(archive) = found.into_iter().find(|path| archive(path)) else {
        return Err(Unready::NotFetched(format!("apt-get download {package} left no archive")));
    };
    build(Command::new("dpkg-deb").arg("-x").arg(archive).arg(place)).map(drop)
}

/// With what Debian signs all of its releases.
const DEBIAN_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches the list of another release's packages, from where the system has its own. The options by which `apt-get` uses it, and
/// it alone.
fn lists_of(suite: &str, place: &Path) -> Result<Vec<String>, Unready> {
    let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
    let output = Command::new("apt-get").args(targets).output().map_err(|e| Unready::NotFetched(format!("apt-get: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(archive) = text.lines().next() else {
        return Err(Unready::NotFetched("apt has no list of Debian's packages: apt-get update".to_owned()));
    };
    let broken = |e| Unready::Broken(format!("{}: {e}", place.display()));
    fs::create_dir_all(place.join("lists/partial")).map_err(broken)?;
    fs::create_dir_all(place.join("cache/archives/partial")).map_err(broken)?;
    fs::write(place.join("sources.list"), format!("deb [signed-by={DEBIAN_KEYS}] {archive} {suite} main\n")).map_err(broken)?;
    let place = place.display();
    let settings = [
        format!("Dir::Etc::sourcelist={place}/sources.list"),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={place}/lists"),
        format!("Dir::Cache={place}/cache"),
    ];
    let options: Vec<String> = settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]).collect();
    fetch(Command::new("apt-get").args(&options).arg("update"))?;
    Ok(options)
}

fn node(source: &Path, place: &Path) -> Result<Command, Unready> {
    needs("node", "--version")?;
    needs("npm", "--version")?;
    let lock = source.join("package-lock.json");
    // Node looks for packages from where a program lies.
    let shared = source.with_file_name("checks.mjs");
    build(Command::new("cp").arg(shared).arg(place.with_file_name("checks.mjs")))?;
    build(Command::new("cp").arg("-r").arg(source.join(".")).arg(place))?;
    if is_new(&[&lock], place) {
        fetch(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--silent"]).current_dir(place))?;
        done(&[&lock], place);
    }
    let mut program = Command::new("node");
    program.arg(place.join("main.mjs")).current_dir(place);
    Ok(program)
}

fn go(source: &Path, place: &Path) -> Result<Command, Unready> {
    needs("go", "version")?;
    fetch(Command::new("go").args(["mod", "download"]).current_dir(source))?;
    let program = place.join("program");
    build(Command::new("go").args(["build", "-mod=readonly", "-o"]).arg(&program).arg(".").current_dir(source))?;
    Ok(Command::new(program))
}

fn maven(source: &Path, place: &Path) -> Result<Command, Unready> {
    needs("java", "--version")?;
    needs("mvn", "--version")?;
    let (pom, main) = (source.join("pom.xml"), source.join("Main.java"));
    let (parent, checks) = (source.with_file_name("parent.xml"), source.with_file_name("Checks.java"));
    let files: [&Path; 4] = [&pom, &main, &parent, &checks];
    if is_new(&files, place) {
        let mvn = |goal: &[&str]| {
            let mut mvn = Command::new("mvn");
            mvn.args(["-q", "-B", "-f"]).arg(&pom).arg(format!("-Dplace={}", place.display())).args(goal);
            mvn
        };
        fetch(&mut mvn(&["dependency:copy-dependencies"]))?;
        build(&mut mvn(&["compile"]))?;
        done(&files, place);
    }
    let mut program = Command::new("java");
    program.arg("-cp").arg(format!("{0}/classes:{0}/dependency/*", place.display())).arg("Main").current_dir(place);
    Ok(program)
}

fn cargo(source: &Path, place: &Path) -> Result<Command, Unready> {
    let cargo = |words: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.args(words).arg("--manifest-path").arg(source.join("Cargo.toml")).env_remove("RUSTFLAGS");
        cargo
    };
    fetch(&mut cargo(&["fetch", "--quiet", "--locked"]))?;
    build(cargo(&["build", "--quiet", "--locked"]).arg("--target-dir").arg(place))?;
    let name = source.file_name().unwrap_or_default();
    Ok(Command::new(place.join("debug").join(name)))
}

pub(super) fn needs(program: &str, version: &str) -> Result<(), Unready> {
    let there = Command::new(program).arg(version).output().is_ok_and(|output| output.status.success());
    if there { Ok(()) } else { Err(Unready::NoToolchain(format!("{program} is not installed"))) }
}

pub(super) fn fetch(command: &mut Command) -> Result<String, Unready> {
    run(command).map_err(Unready::NotFetched)
}

pub(super) fn build(command: &mut Command) -> Result<String, Unready> {
    run(command).map_err(Unready::Broken)
}

/// What it has written.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", text.trim()))
}

/// Whether this was prepared last.
pub(super) fn contents_are(place: &Path, wanted: &str) -> bool {
    fs::read(place.join("prepared")).is_ok_and(|prepared| prepared == wanted.as_bytes())
}

/// This is prepared.
pub(super) fn note_contents(place: &Path, wanted: &str) {
    // At worst it is prepared again.
    let _ = fs::write(place.join("prepared"), wanted);
}

/// Whether what was prepared last was prepared from other files than these.
fn is_new(files: &[&Path], place: &Path) -> bool {
    fs::read(place.join("prepared")).ok().is_none_or(|prepared| prepared != contents(files))
}

fn done(files: &[&Path], place: &Path) {
    // At worst it is prepared again.
    let _ = fs::write(place.join("prepared"), contents(files));
}

fn contents(files: &[&Path]) -> Vec<u8> {
    files.iter().flat_map(|file| fs::read(file).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_prepared_again() {
        let place = std::env::temp_dir().join(format!("almandine-prepared-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let file = place.join("requirements.txt");
        fs::write(&file, "a==1").unwrap();
        assert!(is_new(&[&file], &place));
        done(&[&file], &place);
        assert!(!is_new(&[&file], &place));
        fs::write(&file, "a==2").unwrap();
        assert!(is_new(&[&file], &place));
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_is_not_installed_is_said() {
        assert!(
            matches!(needs("no-such-language", "--version"), Err(Unready::NoToolchain(why)) if why.contains("no-such-language"))
        );
        let failed = run(Command::new("sh").args(["-c", "echo why; exit 1"]));
        assert_eq!(failed, Err("sh failed: why".to_owned()));
    }
}
