//! Compares the tables of `docs/S3.md` with the tables of the code. Set `GOLDEN_BLESS=1` to
//! write the page's tables again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use s3::operation::{Stub, Support};
use s3::{Code, Operation};

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/S3.md")
}

fn of(support: Support) -> impl Iterator<Item = Operation> {
    Operation::ALL.iter().copied().filter(move |operation| operation.support() == support)
}

fn served() -> String {
    let mut table = "| operation | request | permission |\n|---|---|---|\n".to_owned();
    for operation in of(Support::Served) {
        let action = operation.action().map_or("none".to_owned(), |action| format!("`{action}`"));
        let (name, line) = (operation.name(), operation.request_line());
        writeln!(table, "| {name} | `{line}` | {action} |")
            .expect("writing to a string cannot fail");
    }
    table
}

fn stubbed() -> String {
    let mut table = "| operation | answer |\n|---|---|\n".to_owned();
    for operation in of(Support::Stubbed) {
        let answer = match operation.stub().expect("a stubbed operation has a response") {
            Stub::Absent(code) => format!("{} `{}`", code.status().as_u16(), code.as_str()),
            Stub::Document(root, "") => format!("200, an empty `{root}`"),
            Stub::Document(root, content) => format!("200, `{root}` with `{content}`"),
            Stub::NoContent => "204".to_owned(),
        };
        writeln!(table, "| {} | {answer} |", operation.name())
            .expect("writing to a string cannot fail");
    }
    table
}

fn refused() -> String {
    let names: Vec<&str> = of(Support::Refused).map(Operation::name).collect();
    let mut text = String::new();
    let mut line = String::new();
    for (at, name) in names.iter().enumerate() {
        let end = if at + 1 == names.len() { "." } else { "," };
        if line.len() + name.len() + 2 > 100 {
            writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
            line.clear();
        }
        write!(line, "{name}{end} ").expect("writing to a string cannot fail");
    }
    writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    text
}

fn codes() -> String {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for &code in Code::ALL {
        by_status.entry(code.status().as_u16()).or_default().push(code);
    }
    let mut table = "| status | code | message, if nothing more exact is known |\n".to_owned();
    table.push_str("|---|---|---|\n");
    for (status, codes) in by_status {
        for code in codes {
            writeln!(table, "| {status} | `{}` | {} |", code.as_str(), code.message())
                .expect("writing to a string cannot fail");
        }
    }
    table
}

/// Puts a table between its marks.
fn put(page: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name}: written by the tests of crates/s3 -->\n");
    let start = page.find(&begin).unwrap_or_else(|| panic!("no place for {name}")) + begin.len();
    let end = start + page[start..].find("<!-- end -->").expect("the end of a table");
    format!("{}\n{table}\n{}", &page[..start], &page[end..])
}

#[test]
fn the_page_lists_the_operations_and_codes_of_the_tables() {
    let shown = std::fs::read_to_string(page()).expect("a page");
    let mut expected = shown.clone();
    let tables =
        [("served", served()), ("stubbed", stubbed()), ("refused", refused()), ("codes", codes())];
    for (name, table) in tables {
        expected = put(&expected, name, &table);
    }
    if std::env::var_os("GOLDEN_BLESS").is_some() {
        std::fs::write(page(), &expected).expect("the page is writable");
    } else {
        assert!(shown == expected, "docs/S3.md differs: update it with GOLDEN_BLESS=1");
    }
}
