//! Writes the manual pages of mpt-tund and mpt-ctl and their completions for bash, zsh and fish.
//!
//! ```text
//! mpt-pages FOLDER    FOLDER/man/*.8, FOLDER/bash, FOLDER/zsh, FOLDER/fish
//! ```
//!
//! They are made of the same [`clap::Command`] as `--help`, so that there is nothing to keep in step. A program of its
//! own, and no option of the two, since only who makes packages needs it.

mod page;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::aot::{Shell, generate_to};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(folder), None) = (words.next(), words.next()) else {
        eprintln!("usage: mpt-pages FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpt-pages: {}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

fn programs() -> [Command; 2] {
    [mpt_tund::command(), mpt_ctl::command()]
}

/// Writes all of it below `folder`.
fn write(folder: &Path) -> io::Result<()> {
    let made = |name: &str| -> io::Result<PathBuf> {
        let made = folder.join(name);
        std::fs::create_dir_all(&made)?;
        Ok(made)
    };
    for program in programs() {
        let man = made("man")?;
        for (name, text) in page::pages(&program) {
            std::fs::write(man.join(format!("{name}.{}", page::SECTION)), text)?;
        }
        for (shell, name) in [
            (Shell::Bash, "bash"),
            (Shell::Zsh, "zsh"),
            (Shell::Fish, "fish"),
        ] {
            let word = program.get_name().to_owned();
            let file = generate_to(shell, &mut shown(&program), word, made(name)?)?;
            if shell == Shell::Bash {
                let text = std::fs::read_to_string(&file)?;
                std::fs::write(&file, with_one_name(&text, program.get_name()))?;
            }
        }
    }
    Ok(())
}

/// The program without what is hidden, which clap_complete 4.6 lists all the same. What stands for all commands is each
/// one's own here: it would be handed on to those that hide it.
fn shown(program: &Command) -> Command {
    fn shown(built: &Command) -> Command {
        let own = built.get_arguments().filter(|one| !one.is_hide_set());
        let below = built.get_subcommands().filter(|one| !one.is_hide_set());
        // They have to last as long as the program, which is over soon.
        let kept = |text: &str| -> &'static str { text.to_owned().leak() };
        let command = Command::new(kept(built.get_name()));
        let command = match built.get_version() {
            Some(version) => command.version(kept(version)),
            None => command,
        };
        command
            .about(built.get_about().cloned().unwrap_or_default())
            .disable_help_flag(true)
            .disable_version_flag(true)
            .disable_help_subcommand(true)
            .args(own.map(|one| one.clone().global(false)))
            .groups(built.get_groups().cloned())
            .subcommands(below.map(shown))
    }
    let mut built = program.clone();
    built.build();
    shown(&built)
}

/// Completions for bash in which each command has one name. A defect of clap_complete 4.6: of a program with a `-` in
/// its name, `mpt-ctl path` is called `mpt__ctl__subcmd__path` where it is found and `mpt__subcmd__ctl__subcmd__path`
/// where it is looked for, so that nothing behind the first word is completed.
fn with_one_name(text: &str, program: &str) -> String {
    let [looked_for, found] = ["__subcmd__", "__"].map(|dash| program.replace('-', dash));
    text.replace(
        &format!("{looked_for}__subcmd__"),
        &format!("{found}__subcmd__"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]
mod tests {
    use std::process;

    use super::*;

    fn written() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let path = folder.path().to_owned();
        (folder, path)
    }

    /// The programs, and all commands below them.
    fn all() -> Vec<Command> {
        fn add(command: &Command, to: &mut Vec<Command>) {
            to.push(command.clone());
            for below in command.get_subcommands() {
                add(below, to);
            }
        }
        let mut all = Vec::new();
        for program in programs() {
            add(&page::built(&program), &mut all);
        }
        all
    }

    fn page_of(folder: &Path, command: &Command) -> String {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let page = folder.join("man").join(format!("{name}.8"));
        let text = std::fs::read_to_string(&page);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        plain(&text.replace(r"\-", "-"))
    }

    /// Words alone: a page breaks lines elsewhere than `--help`, and has marks for the fonts.
    fn plain(text: &str) -> String {
        let mut text = text.to_owned();
        for mark in [r"\fB", r"\fI", r"\fR", r"\&", r"\*(Aq"] {
            let by = if mark == r"\*(Aq" { "'" } else { "" };
            text = text.replace(mark, by);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    }

    #[test]
    fn each_command_has_a_page_with_all_that_its_help_says() {
        let (_kept, folder) = written();
        let commands = all();
        assert!(commands.len() > 20, "{}", commands.len());
        for command in &commands {
            let page = page_of(&folder, command);
            let has = |what: &str| {
                let what = plain(what);
                assert!(page.contains(&what), "{}: {what}", command.get_name());
            };
            command
                .get_about()
                .into_iter()
                .for_each(|about| has(&about.to_string()));
            for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
                argument
                    .get_long()
                    .into_iter()
                    .for_each(|long| has(&format!("--{long}")));
                let help = argument.get_long_help().or(argument.get_help());
                help.into_iter().for_each(|help| has(&help.to_string()));
            }
            let after = command.get_after_long_help().or(command.get_after_help());
            for line in after.map(ToString::to_string).unwrap_or_default().lines() {
                // A heading stands there in capitals.
                if page::heading(line).is_none() {
                    has(line);
                }
            }
        }
    }

    #[test]
    fn each_shell_completes_each_command_and_option() {
        let (_kept, folder) = written();
        for (shell, name) in [("bash", "{}.bash"), ("zsh", "_{}"), ("fish", "{}.fish")] {
            for program in programs() {
                let file = folder
                    .join(shell)
                    .join(name.replace("{}", program.get_name()));
                let text = std::fs::read_to_string(&file).unwrap();
                for below in program.get_subcommands() {
                    assert!(text.contains(below.get_name()), "{shell}: {below}");
                    for argument in below.get_arguments().filter(|one| !one.is_hide_set()) {
                        let long = argument.get_long().unwrap_or_default();
                        assert!(text.contains(long), "{shell}: {below} --{long}");
                    }
                }
            }
        }
    }

    /// What a shell and a formatter say to them, where there is one.
    #[test]
    fn shells_and_mandoc_find_no_mistake() {
        let (_kept, folder) = written();
        let checks = [
            ("bash", "bash -n bash/*.bash"),
            ("zsh", "for file in zsh/_*; do zsh -n $file; done"),
            (
                "fish",
                "for file in fish/*; do fish --no-execute $file; done",
            ),
            (
                "man",
                "for page in man/*; do LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -E UTF-8 -l -Tutf8 -Z $page; done",
            ),
            (
                "bash",
                "source bash/mpt-ctl.bash; function=$(complete -p mpt-ctl | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); \
                 completes() { COMP_WORDS=(mpt-ctl $1) COMPREPLY=(); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                 $function mpt-ctl \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; \
                 [ \"${COMPREPLY[*]}\" = \"$2\" ] || echo \"$1: ${COMPREPLY[*]}\" >&2; }; \
                 completes reo reorder; completes 'path d' down; completes 'measure send --ra' --rate; \
                 completes 'peer add --he' --help; completes 'log de' debug; completes 'status --w' --watch; \
                 completes 'log --w' ''; completes 'path up --w' ''; completes 'genkey --' --help",
            ),
        ];
        for (program, script) in checks {
            let there = process::Command::new(program).arg("--version").output();
            if there.is_err() {
                println!("skipped: there is no {program} here");
                continue;
            }
            let output = process::Command::new("bash")
                .args(["-c", script])
                .current_dir(&folder)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && said.is_empty(),
                "{script}: {said}"
            );
        }
    }
}
