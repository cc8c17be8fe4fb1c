//! Manual pages and completions of the tools, from the definitions of their command lines.
//!
//! **Is**: a hidden subcommand that prints what packages hold beside a program.
//! **Is not**: the manual of the server, whose parameters have a table of their own.
//! **Invariants**: every subcommand that is not hidden has a section of the page.
//! **Start reading at**: [`PrintReference`].

use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

/// What a program's help says of the hidden subcommand.
pub const AFTER_HELP: &str =
    "The subcommand `print-reference man|bash|zsh|fish` prints the manual page, or the completions of a shell.";

/// Prints what packages hold beside the program.
#[derive(Debug, Args)]
pub struct PrintReference {
    /// What to print.
    what: Reference,
}

/// What packages hold beside a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reference {
    /// The manual page.
    Man,
    /// Completions for bash.
    Bash,
    /// Completions for zsh.
    Zsh,
    /// Completions for fish.
    Fish,
}

impl PrintReference {
    /// Prints it, of this command line.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn run(&self, command: Command) -> Result<ExitCode, String> {
        print!("{}", self.what.text(command).map_err(|error| error.to_string())?);
        Ok(ExitCode::SUCCESS)
    }
}

impl Reference {
    /// The text of it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn text(self, mut command: Command) -> std::io::Result<String> {
        let shell = match self {
            Self::Man => return page(command),
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
        };
        let mut text = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(shell, &mut command, name, &mut text);
        // Without blanks at the ends of lines.
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
    }
}

/// One page, with a section for each subcommand.
fn page(mut root: Command) -> std::io::Result<String> {
    root.build();
    let mut text = Vec::new();
    let man = Man::new(root.clone()).date("");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    for command in root.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        render_subcommand(command, &mut text)?;
    }
    // Formatters of old take ASCII only.
    Ok(String::from_utf8_lossy(&text).replace('…', "..."))
}

fn render_subcommand(command: &Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let name = command.get_name().to_uppercase();
    text.extend_from_slice(format!(".SH {name}\n{}.\n", about.trim_end_matches('.')).as_bytes());
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", "").replace(".SH ", ".SS ");
    text.extend_from_slice(options.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn the_page_and_the_scripts_know_the_subcommands_that_are_not_hidden() {
        let subcommand = |name: &'static str| Command::new(name).about("Does it.").arg(Arg::new("depth").long("depth"));
        let command = || Command::new("tool").subcommands([subcommand("dive"), subcommand("print").hide(true)]);
        for what in Reference::value_variants() {
            let text = what.text(command()).unwrap().to_lowercase();
            assert!(text.contains("dive") && text.contains("depth"), "{what:?}: {text}");
        }
        let page = page(command()).unwrap();
        assert!(page.contains(".SH DIVE\nDoes it.\n") && !page.contains(".SH PRINT") && !page.contains(".SH HELP"), "{page}");
    }
}
