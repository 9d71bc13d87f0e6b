//! The commands and flags of our programs, read from the sources of their command lines.
//!
//! The program itself is not built for this: the types from which clap derives the command line are
//! read as tokens. For example, the variant `CheckConfig(Box<GatewayOptions>)` of an enum that
//! derives `Subcommand` is the command `check-config`, with the flags of the struct
//! `GatewayOptions`. Options that the macro `options!` declares are read, too.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A program, with the words that call it.
#[derive(Debug)]
pub(super) struct Program {
    call: &'static str,
    syntax: Syntax,
}

/// The command line of a program or of one command.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Syntax {
    /// Flags, without their two hyphens.
    pub(super) flags: BTreeSet<String>,
    pub(super) commands: BTreeMap<String, Syntax>,
}

/// The types of a crate from which clap derives a command line.
#[derive(Debug, Default)]
pub(super) struct Types {
    types: Vec<Type>,
}

/// A type from which clap derives a part of a command line.
#[derive(Debug)]
struct Type {
    /// The modules of its file, and its name.
    path: Vec<String>,
    /// True if the type derives `Parser`, so it is the whole command line.
    is_root: bool,
    fields: Vec<Field>,
    variants: Vec<Variant>,
}

/// A field of a struct or of a variant.
#[derive(Debug)]
struct Field {
    role: Role,
    /// The path of its type as it is written, without generics around it.
    type_path: Vec<String>,
}

/// The part that a field plays on the command line.
#[derive(Debug)]
enum Role {
    /// An argument with these flags; a positional one has none.
    Argument(Vec<String>),
    /// The fields of another type belong here.
    Flatten,
    /// Its type is an enum of commands.
    Commands,
}

#[derive(Debug)]
struct Variant {
    name: String,
    /// True if the commands of its type belong beside it, instead of below its name.
    is_flat: bool,
    fields: Vec<Field>,
}

type Tokens = Peekable<IntoIter>;

impl Program {
    /// Reads a program that `call` calls from the types of its crate.
    pub(super) fn read(call: &'static str, types: &Types) -> Result<Self> {
        let root = types.types.iter().find(|it| it.is_root);
        let root = root.with_context(|| format!("{call} has no type that derives Parser"))?;
        let mut syntax = types.syntax(root);
        // clap adds these by itself, so no source declares them.
        syntax.flags.extend(["help".to_owned(), "version".to_owned()]);
        syntax.commands.insert("help".to_owned(), Syntax::default());
        Ok(Self { call, syntax })
    }

    /// True if any command of the program has the flag.
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        fn has(syntax: &Syntax, flag: &str) -> bool {
            syntax.flags.contains(flag) || syntax.commands.values().any(|it| has(it, flag))
        }
        has(&self.syntax, flag)
    }

    /// The error of a line of a shell that calls the program with an unknown command or flag.
    /// `None` also if it does not call the program.
    pub(super) fn wrong_call(&self, line: &str) -> Option<String> {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let rest = line.strip_prefix(self.call)?.strip_prefix(' ')?;
        let mut path = self.call.to_owned();
        let mut syntax = &self.syntax;
        let mut behind_flag = false;
        for word in rest.split_whitespace() {
            // The rest is a comment, another program, or arguments.
            if matches!(word, "|" | "#" | "&&" | "||" | ";" | ">" | "<" | "&" | "--" | "…") {
                return None;
            }
            if let Some(flag) = word.strip_prefix("--") {
                let flag = flag.split('=').next().unwrap_or_default();
                // Flags before the command are the program's, and it accepts them behind it.
                if !syntax.flags.contains(flag) && !self.syntax.flags.contains(flag) {
                    return Some(format!("{path} has no flag --{flag}"));
                }
                behind_flag = !word.contains('=');
                continue;
            }
            if let Some(command) = syntax.commands.get(word) {
                path = format!("{path} {word}");
                syntax = command;
            // The word behind a flag may be the flag's value, so only other words must be commands.
            } else if !syntax.commands.is_empty() && !behind_flag && !is_placeholder(word) {
                return Some(format!("{path} has no command {word}"));
            }
            behind_flag = false;
        }
        None
    }

    #[cfg(test)]
    pub(super) fn syntax(&self) -> &Syntax {
        &self.syntax
    }
}

/// True for words such as `COMMAND`, which the reader of a page replaces.
fn is_placeholder(word: &str) -> bool {
    !word.contains(|letter: char| letter.is_ascii_lowercase())
}

impl Types {
    /// Adds the types of the source file of a module, such as `["commands", "bucket"]`.
    pub(super) fn add(&mut self, module: &[String], text: &str) -> Result<()> {
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
        self.items(module, tokens);
        Ok(())
    }

    fn items(&mut self, module: &[String], tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut derived: Vec<String> = Vec::new();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    if let Some(TokenTree::Group(group)) = tokens.peek() {
                        derived.extend(derives(group.stream()));
                    }
                }
                TokenTree::Ident(word) if word == "struct" || word == "enum" => {
                    let is_enum = word == "enum";
                    self.define(is_enum, &std::mem::take(&mut derived), module, &mut tokens);
                }
                // Derives of other items do not count for the next type.
                TokenTree::Ident(word) if word == "fn" || word == "impl" => derived.clear(),
                TokenTree::Ident(word) if word == "options" => self.groups(module, &mut tokens),
                _ => {}
            }
        }
    }

    /// Reads the type whose definition follows. The caller has read the keyword `struct` or `enum`.
    fn define(
        &mut self,
        is_enum: bool,
        derived: &[String],
        module: &[String],
        tokens: &mut Tokens,
    ) {
        let is = |name: &str| derived.iter().any(|it| it == name);
        let Some(TokenTree::Ident(name)) = tokens.next() else { return };
        let Some(TokenTree::Group(body)) = tokens.next() else { return };
        // Only types with these derives are parts of a command line.
        if !is("Parser") && !is("Args") && !is("Subcommand") {
            return;
        }
        let (fields, variants) = if is_enum {
            (Vec::new(), variants(body.stream()))
        } else {
            (fields(body.stream()), Vec::new())
        };
        let path = [module, &[name.to_string()]].concat();
        self.types.push(Type { path, is_root: is("Parser"), fields, variants });
    }

    /// Reads the groups of the macro `options!`, which become structs of options. The caller has
    /// read the word `options`. Does nothing if it is not a call of the macro.
    fn groups(&mut self, module: &[String], tokens: &mut Tokens) {
        if !matches!(tokens.next(), Some(TokenTree::Punct(mark)) if mark.as_char() == '!') {
            return;
        }
        let Some(TokenTree::Group(body)) = tokens.next() else { return };
        let mut tokens = body.stream().into_iter().peekable();
        while let Some(token) = tokens.next() {
            if !matches!(token, TokenTree::Ident(word) if word == "group") {
                continue;
            }
            let (Some(name), Some(TokenTree::Group(body))) = (tokens.next(), tokens.next()) else {
                continue;
            };
            let fields = split(body.stream()).into_iter().filter_map(|tokens| {
                let mut attributes = attributes(&tokens);
                // The macro adds `long` to each option.
                attributes.push(("arg".to_owned(), TokenStream::from_str("long").ok()?));
                Some(field(&tokens, &attributes))
            });
            self.types.push(Type {
                path: [module, &[name.to_string()]].concat(),
                is_root: false,
                fields: fields.collect(),
                variants: Vec::new(),
            });
        }
    }

    /// The command line of a type.
    fn syntax(&self, of: &Type) -> Syntax {
        let mut syntax = Syntax::default();
        of.fields.iter().for_each(|field| self.apply(field, &mut syntax));
        for variant in &of.variants {
            let mut command = Syntax::default();
            variant.fields.iter().for_each(|field| self.apply(field, &mut command));
            if variant.is_flat {
                syntax.commands.extend(command.commands);
            } else {
                syntax.commands.insert(variant.name.clone(), command);
            }
        }
        syntax
    }

    fn apply(&self, field: &Field, syntax: &mut Syntax) {
        match &field.role {
            Role::Argument(flags) => syntax.flags.extend(flags.iter().cloned()),
            Role::Flatten | Role::Commands => {
                if let Some(found) = self.find(&field.type_path) {
                    let inner = self.syntax(found);
                    syntax.flags.extend(inner.flags);
                    syntax.commands.extend(inner.commands);
                }
            }
        }
    }

    /// The type that a path names. The path may lead through an export, so that `test::Options` is
    /// in the module `test::steps`.
    fn find(&self, path: &[String]) -> Option<&Type> {
        let (name, modules) = path.split_last()?;
        self.types.iter().find(|it| {
            it.path.last() == Some(name) && modules.iter().all(|module| it.path.contains(module))
        })
    }
}

/// The names in an attribute, if it is `derive`: the last part of each path.
fn derives(attribute: TokenStream) -> Vec<String> {
    let mut tokens = attribute.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(list))) if name == "derive" => {
            list.stream().into_iter().map(|it| it.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

fn variants(body: TokenStream) -> Vec<Variant> {
    let mut found = Vec::new();
    for tokens in split(body) {
        let attributes = attributes(&tokens);
        let mut rest = behind_attributes(&tokens).iter();
        let Some(TokenTree::Ident(name)) = rest.next() else { continue };
        let name = named(&attributes, "name").unwrap_or_else(|| kebab(&name.to_string()));
        let fields = match rest.next() {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
                fields(body.stream())
            }
            // A variant around a type is that type's command line.
            Some(TokenTree::Group(body)) => {
                let type_path = last_path(body.stream());
                vec![Field { role: Role::Flatten, type_path }]
            }
            _ => Vec::new(),
        };
        let is_flat = has(&attributes, "command", "flatten");
        found.push(Variant { name, is_flat, fields });
    }
    found
}

fn fields(body: TokenStream) -> Vec<Field> {
    split(body).iter().map(|tokens| field(tokens, &attributes(tokens))).collect()
}

/// A field, by the tokens of its definition and by its attributes: each one's name and contents.
fn field(tokens: &[TokenTree], attributes: &[(String, TokenStream)]) -> Field {
    let rest = behind_attributes(tokens);
    let colon = rest
        .iter()
        .position(|it| matches!(it, TokenTree::Punct(mark) if mark.as_char() == ':'))
        .unwrap_or(rest.len());
    let name = rest[..colon].last().map(ToString::to_string).unwrap_or_default();
    // An option of the macro has its variable behind the type.
    let of_type = rest[colon..]
        .iter()
        .take_while(|it| !matches!(it, TokenTree::Punct(mark) if mark.as_char() == '='));
    let type_path = last_path(of_type.cloned().collect());
    let role = if has(attributes, "command", "flatten") {
        Role::Flatten
    } else if has(attributes, "command", "subcommand") {
        Role::Commands
    } else {
        let long = has(attributes, "arg", "long");
        let flag = named(attributes, "long").unwrap_or_else(|| name.replace('_', "-"));
        let aliases = ["visible_alias", "alias"].into_iter();
        let aliases = aliases.filter_map(|word| named(attributes, word));
        Role::Argument(long.then_some(flag).into_iter().chain(aliases).collect())
    };
    Field { role, type_path }
}

/// Cuts tokens at commas. Commas in generics do not occur in these types.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma = |it: &TokenTree| matches!(it, TokenTree::Punct(mark) if mark.as_char() == ',');
    tokens.split(is_comma).filter(|part| !part.is_empty()).map(<[_]>::to_vec).collect()
}

/// The attributes that tokens begin with: the name of each, and its contents in parentheses.
fn attributes(tokens: &[TokenTree]) -> Vec<(String, TokenStream)> {
    let mut found = Vec::new();
    for pair in tokens.chunks(2) {
        let [TokenTree::Punct(mark), TokenTree::Group(group)] = pair else { break };
        if mark.as_char() != '#' {
            break;
        }
        let mut inside = group.stream().into_iter();
        if let (Some(name), Some(TokenTree::Group(contents))) = (inside.next(), inside.next()) {
            found.push((name.to_string(), contents.stream()));
        }
    }
    found
}

fn behind_attributes(tokens: &[TokenTree]) -> &[TokenTree] {
    let is_attribute = |pair: &&[TokenTree]| matches!(pair.first(), Some(TokenTree::Punct(mark)) if mark.as_char() == '#');
    &tokens[2 * tokens.chunks(2).take_while(is_attribute).count()..]
}

/// True if an attribute of that name has the word alone or with a value.
fn has(attributes: &[(String, TokenStream)], of: &str, word: &str) -> bool {
    let contents = attributes.iter().filter(|(name, _)| name == of);
    contents
        .into_iter()
        .any(|(_, contents)| split(contents.clone()).iter().any(|part| part[0].to_string() == word))
}

/// The text that an attribute gives to a word, as in `long = "text"`.
fn named(attributes: &[(String, TokenStream)], word: &str) -> Option<String> {
    attributes.iter().flat_map(|(_, contents)| split(contents.clone())).find_map(|part| {
        let is_text = part.len() == 3 && part[0].to_string() == word;
        is_text.then(|| part[2].to_string().trim_matches('"').to_owned())
    })
}

/// The last path in the tokens of a type: `serve::Options` of `Box<serve::Options>`.
fn last_path(tokens: TokenStream) -> Vec<String> {
    let mut path = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => path.push(name.to_string()),
            TokenTree::Punct(mark) if mark.as_char() == '<' => path.clear(),
            _ => {}
        }
    }
    path
}

/// The name of a command, as clap makes it from a variant's name.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests;
