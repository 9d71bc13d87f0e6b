use clap::Command as Described;

use super::*;

/// Returns the commands without further commands, each with its words.
fn leaves(command: &Described, words: &str, found: &mut Vec<(String, Described)>) {
    for below in command.get_subcommands() {
        let words = format!("{words} {}", below.get_name());
        if below.has_subcommands() {
            leaves(below, &words, found);
        } else {
            found.push((words.trim_start().to_owned(), below.clone()));
        }
    }
}

fn all_leaves() -> Vec<(String, Described)> {
    let mut found = Vec::new();
    leaves(&Cli::command(), "", &mut found);
    found
}

#[test]
fn the_description_of_the_command_line_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn the_endpoint_is_an_option_of_commands_that_use_the_api() {
    let url = ["--endpoint", "http://127.0.0.1:9702"];
    for command in [&["user", "list"][..], &["bucket", "trash", "photos"], &["job", "list"]] {
        let words = [&["ashlar"], command, &url].concat();
        let parsed = Cli::try_parse_from(words).expect("a command").command;
        let Command::Administer(command) = parsed else { panic!("{parsed:?}") };
        assert!(command.endpoint().is_set());
    }
    // The benchmark has another option of this name.
    let words = [&["ashlar", "bench", "s3"], &url[..]].concat();
    Cli::try_parse_from(words).expect("a command");
    let words = [&["ashlar", "fsck"], &url[..]].concat();
    Cli::try_parse_from(words).expect_err("it works on the store itself");
}

#[test]
fn each_list_and_show_command_prints_a_table_or_json() {
    let shows = |words: &String| words.ends_with(" list") || words.ends_with(" show");
    let leaves = all_leaves();
    let (mut checked, mut without) = (0, Vec::new());
    for (words, command) in leaves.iter().filter(|(words, _)| shows(words)) {
        checked += 1;
        let output = command.get_arguments().find(|arg| arg.get_long() == Some("output"));
        let forms = output.map(|output| {
            let values = output.get_possible_values();
            values.iter().map(|value| value.get_name().to_owned()).collect::<Vec<_>>()
        });
        if forms != Some(vec!["table".to_owned(), "json".to_owned()]) {
            without.push(words);
        }
    }
    assert!(without.is_empty(), "without --output table|json: {without:?}");
    assert!(checked >= 14, "the names of list and show commands changed: {checked}");
}

#[test]
fn no_option_takes_a_secret() {
    // Other users of the machine see the arguments of a program.
    for (words, command) in all_leaves() {
        for arg in command.get_arguments() {
            let name = arg.get_long().unwrap_or_default();
            let is_secret = ["secret", "password", "token"].iter().any(|word| name.contains(word));
            assert!(!is_secret || name.ends_with("-file"), "{words} --{name}");
        }
    }
}
