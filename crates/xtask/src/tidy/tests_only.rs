//! Which items are compiled for tests only.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Whether an attribute, by what stands in its brackets, keeps an item out of all but tests.
pub(super) fn is_for_tests(attribute: TokenStream) -> bool {
    let mut tokens = attribute.into_iter();
    let named = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "cfg");
    match tokens.next() {
        Some(TokenTree::Group(group)) if named => needs_test(group.stream()),
        _ => false,
    }
}

/// Whether a condition holds in tests only: it is `test`, or one of `all` that must hold is.
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

/// Goes past the item, field, arm or statement that follows an attribute.
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
                // `pub`, `async` and the like do not say yet what it is.
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
