use super::*;

fn parse(text: &str) -> Vec<Block> {
    blocks(text.lines().enumerate().map(|(index, line)| (index + 1, line)))
}

#[test]
fn a_page_is_taken_apart_into_blocks() {
    let page = "# A page\n\nOne\ntwo.\n- three\n  four\n2. five\n\n| a | b |\n```sh\n# six\n\nseven\n```\neight";
    let found: Vec<_> =
        parse(page).into_iter().map(|block| (block.line, block.text, block.kind)).collect();
    let block = |line, text: &str, kind| (line, text.to_owned(), kind);
    assert_eq!(
        found,
        [
            block(1, "A page", Kind::Heading),
            block(3, "One\ntwo.", Kind::Prose),
            block(5, "three\nfour", Kind::Prose),
            block(7, "five", Kind::Prose),
            block(9, "| a | b |", Kind::Row),
            block(11, "# six\n\nseven", Kind::Code("sh".to_owned())),
            block(15, "eight", Kind::Prose),
        ]
    );
}

#[test]
fn text_in_backticks_is_replaced() {
    let block = &parse("a `b\nc` d ``e`f``")[0];
    let spans: Vec<_> = block.code_spans().into_iter().map(|it| (it.line, it.text)).collect();
    assert_eq!(spans, [(1, "b c".to_owned()), (2, "e`f".to_owned())]);
    assert_eq!(block.english(), "a X\n d X");
}

#[test]
fn links_are_found_with_their_lines() {
    let block = &parse("see\n[`a`](b.md#c) and [d](<e> \"f\")")[0];
    let links: Vec<_> = block.links().into_iter().map(|it| (it.line, it.text)).collect();
    assert_eq!(links, [(2, "b.md#c".to_owned()), (2, "<e>".to_owned())]);
}
