//! The manual page and the completions of shells, from the definition of the command line.

use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

/// Prints what packages hold beside the program.
#[derive(Debug, Args)]
pub(super) struct PrintReference {
    /// What to print.
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Man,
    Bash,
    Zsh,
    Fish,
}

impl PrintReference {
    /// Prints it.
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        print!("{}", self.what.text().map_err(|error| error.to_string())?);
        Ok(ExitCode::SUCCESS)
    }
}

impl What {
    fn text(self) -> std::io::Result<String> {
        let shell = match self {
            Self::Man => return page(),
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut super::Cli::command(), "almandine-bench", &mut text);
        // Without blanks at the ends of lines.
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
    }
}

/// One page, with a section for each subcommand.
fn page() -> std::io::Result<String> {
    let mut root = super::Cli::command();
    root.build();
    let mut text = Vec::new();
    let man = Man::new(root.clone()).date("");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        render_subcommand(command, &mut text)?;
    }
    // Formatters of old take ASCII only.
    Ok(String::from_utf8_lossy(&text).replace('…', "..."))
}

fn render_subcommand(command: &Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let name = command.get_name().to_uppercase();
    text.extend_from_slice(format!(".SH {name}\n{about}.\n").as_bytes());
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", "").replace(".SH ", ".SS ");
    text.extend_from_slice(options.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_scripts_know_the_subcommands_that_are_not_hidden() {
        for what in [What::Man, What::Bash, What::Zsh, What::Fish] {
            let text = what.text().unwrap();
            assert!(text.contains("pipeline") && text.to_lowercase().contains("sweep"), "{what:?}");
        }
        let page = page().unwrap();
        assert!(page.contains(".SH OFFLINE") && !page.contains(".SH PRINT"));
    }
}
