use clap::CommandFactory as _;

use super::*;

fn program() -> Program {
    let mut types = Types::default();
    let sources = [
        "#[derive(Debug, Parser)]
         #[command(name = \"ashlar\")]
         struct Cli {
             /// A file, or none
             #[arg(long, value_name = \"FILE\", global = true)]
             config: Option<PathBuf>,
             #[command(flatten)]
             common: config::Common,
             #[command(subcommand)]
             command: Command,
         }
         #[derive(Subcommand)]
         enum Command {
             /// Serve
             Serve(Box<serve::GatewayOptions>),
             #[command(subcommand)]
             Bucket(serve::BucketCommand),
             CheckConfig,
             #[command(flatten)]
             More(serve::MoreCommand),
         }",
        "#[derive(clap::Args)]
         struct Common { #[arg(long)] other: bool }
         #[derive(clap::Args)]
         pub(crate) struct GatewayOptions { #[arg(long = \"port\")] listen: String, folder: PathBuf }
         #[derive(Subcommand)]
         pub(crate) enum BucketCommand { Set { name: String, #[arg(long, short)] opaque_etags: bool } }
         #[derive(Subcommand)]
         pub(crate) enum MoreCommand { Key { #[arg(long)] user: String } }
         struct Other { #[arg(long)] late: bool }",
        "macro_rules! options { () => {} }
         options! { group Common { /// Where
             #[arg(value_name = \"URL\", visible_alias = \"where\")] meta_url: String = \"ASHLAR_META\",
         } }",
    ];
    for (module, text) in ["cli", "serve", "config"].into_iter().zip(sources) {
        types.add(&[module.to_owned()], text).unwrap();
    }
    Program::read("ashlar", &types).unwrap()
}

#[test]
fn commands_and_flags_are_read_from_the_types() {
    let program = program();
    for line in [
        "ashlar serve --port 1 DIR --meta-url x",
        "ashlar --config serve serve",
        "ashlar bucket set NAME --opaque-etags true --config=x",
        "ashlar --where x check-config | less --late",
        "ashlar COMMAND --help",
        "ashlar key --user anna",
        "$ ashlar bucket",
        "other --late",
    ] {
        assert_eq!(program.wrong_call(line), None, "{line}");
    }
    for (line, error) in [
        ("ashlar serve --listen 1", "ashlar serve has no flag --listen"),
        ("ashlar late", "ashlar has no command late"),
        ("ashlar more", "ashlar has no command more"),
        ("ashlar --config=x late", "ashlar has no command late"),
        ("ashlar bucket late", "ashlar bucket has no command late"),
        ("ashlar check-config --opaque-etags", "ashlar check-config has no flag --opaque-etags"),
        ("ashlar --other", "ashlar has no flag --other"),
        ("ashlar serve --late=1", "ashlar serve has no flag --late"),
    ] {
        assert_eq!(program.wrong_call(line).as_deref(), Some(error));
    }
    assert!(program.has_flag("opaque-etags") && !program.has_flag("late"));
}

#[test]
fn the_sources_of_xtask_agree_with_its_command_line() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = super::super::programs(&root).unwrap().remove(0);
    let command = crate::Task::command();
    for task in command.get_subcommands() {
        let read = &program.syntax().commands[task.get_name()];
        let flags: BTreeSet<String> =
            task.get_arguments().filter_map(|it| it.get_long()).map(str::to_owned).collect();
        assert_eq!(read.flags, flags, "{}", task.get_name());
    }
    let help = 1;
    assert_eq!(program.syntax().commands.len(), command.get_subcommands().count() + help);
}
