//! Recognizes items that are compiled for tests only.
//!
//! For example, `#[cfg(all(test, unix))]` is for tests only, and `#[cfg(any(test, unix))]` is not.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Returns true if an attribute restricts an item to tests. `attribute` is the text in its
/// brackets.
pub(super) fn is_for_tests(attribute: TokenStream) -> bool {
    let mut tokens = attribute.into_iter();
    let named = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "cfg");
    match tokens.next() {
        Some(TokenTree::Group(group)) if named => needs_test(group.stream()),
        _ => false,
    }
}

/// Returns true if a condition of `cfg` holds in tests only: it is `test`, or an `all(…)` with such
/// a part.
fn needs_test(condition: TokenStream) -> bool {
    let mut tokens = condition.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), None) => name == "test",
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(all))) if name == "all" => {
            let parts: Vec<TokenTree> = all.stream().into_iter().collect();
            parts
                .split(|part| matches!(part, TokenTree::Punct(mark) if mark.as_char() == ','))
                .any(|part| needs_test(part.iter().cloned().collect()))
        }
        _ => false,
    }
}

/// Skips the item, field, match arm or statement that follows an attribute.
pub(super) fn skip_item(tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) {
    let mut words = 0;
    let mut braces_end_it = true;
    let mut comma_ends_it = true;
    for token in tokens.by_ref() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            TokenTree::Punct(mark) if mark.as_char() == ',' && comma_ends_it => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && braces_end_it => {
                return;
            }
            TokenTree::Ident(word) => {
                let word = word.to_string();
                // Words such as `pub` and `async` come before the keyword of an item. A keyword of
                // an item decides which mark ends it. For example, a struct may end with a brace,
                // and a `use` with braces ends with a semicolon.
                let is_item = matches!(
                    word.as_str(),
                    "fn" | "impl" | "mod" | "struct" | "enum" | "trait" | "type" | "use"
                ) || matches!(word.as_str(), "const" | "static" | "let");
                if is_item && words < 3 {
                    comma_ends_it = false;
                    braces_end_it =
                        !matches!(word.as_str(), "use" | "const" | "static" | "let" | "type");
                }
                words += 1;
            }
            _ => {}
        }
    }
}
