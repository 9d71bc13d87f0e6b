//! Text in Markdown, taken apart into blocks: paragraphs, items, headings, rows of tables and
//! fenced code.
//!
//! Pages are read by it, and so are comments of sources.

/// A piece of a page: lines that follow each other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Block {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    /// Its lines, joined by newlines, without markers of items, headings and quotes.
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// The kind of a block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Heading,
    /// A paragraph, or an item of a list.
    Prose,
    /// A row of a table.
    Row,
    /// Fenced code, with the language that its fence names.
    Code(String),
}

/// A piece of text with the number of its line.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Takes lines apart. Each line comes with its number.
pub(super) fn blocks<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    // The block that the next line can continue.
    let mut open: Option<Block> = None;
    // The mark that ends the fenced code, and the code's lines so far.
    let mut fence: Option<(&str, Vec<&str>)> = None;
    for (number, line) in lines {
        let trimmed = line.trim();
        if let Some((mark, code)) = &mut fence {
            if trimmed.starts_with(*mark) {
                // Joined at the end, so that empty first lines keep the numbers of the others.
                if let Some(block) = &mut open {
                    block.text = code.join("\n");
                }
                fence = None;
                found.extend(open.take());
            } else {
                code.push(line);
            }
            continue;
        }
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        if let Some(mark) = mark {
            found.extend(open.take());
            let kind = Kind::Code(trimmed.trim_start_matches(['`', '~']).trim().to_owned());
            open = Some(Block { line: number + 1, text: String::new(), kind });
            fence = Some((mark, Vec::new()));
            continue;
        }
        if trimmed.is_empty() {
            found.extend(open.take());
            continue;
        }
        let (kind, text, begins) = classify(trimmed);
        match &mut open {
            Some(block) if !begins && block.kind == kind => block.push(text),
            _ => {
                found.extend(open.take());
                open = Some(Block { line: number, text: text.to_owned(), kind });
            }
        }
    }
    found.extend(open);
    found
}

/// The kind of a line, its text, and whether it begins a block.
fn classify(trimmed: &str) -> (Kind, &str, bool) {
    if trimmed.starts_with('#') && trimmed.trim_start_matches('#').starts_with(' ') {
        return (Kind::Heading, trimmed.trim_start_matches('#').trim(), true);
    }
    // Each row is a block, so that its errors have the number of its line.
    if trimmed.starts_with('|') {
        return (Kind::Row, trimmed, true);
    }
    let text = trimmed.strip_prefix('>').map_or(trimmed, str::trim);
    let digits = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let numbered = digits.len() < text.len() && digits.starts_with(". ");
    let marker = ["- ", "* ", "+ "].into_iter().find_map(|mark| text.strip_prefix(mark));
    match marker {
        Some(item) => (Kind::Prose, item.trim(), true),
        None if numbered => (Kind::Prose, digits[2..].trim(), true),
        None => (Kind::Prose, text, false),
    }
}

impl Block {
    fn push(&mut self, line: &str) {
        self.text.push('\n');
        self.text.push_str(line);
    }

    /// The texts in backticks. A newline within one counts as a space.
    pub(super) fn code_spans(&self) -> Vec<Span> {
        let spans = self.pieces().into_iter().filter(|(is_code, _)| *is_code);
        spans.map(|(_, span)| Span { text: span.text.replace('\n', " "), ..span }).collect()
    }

    /// The text with an `X` in place of each text in backticks, which is not English.
    pub(super) fn english(&self) -> String {
        let mut text = String::new();
        for (is_code, piece) in self.pieces() {
            if is_code {
                text.push('X');
                // The text behind it keeps its line numbers.
                text.extend(piece.text.chars().filter(|letter| *letter == '\n'));
            } else {
                text.push_str(&piece.text);
            }
        }
        text
    }

    /// The targets of links.
    pub(super) fn links(&self) -> Vec<Span> {
        let text = self.english();
        let mut found = Vec::new();
        for (at, _) in text.match_indices("](") {
            let target = &text[at + 2..];
            if let Some(end) = target.find(')') {
                let target = target[..end].split_whitespace().next().unwrap_or_default();
                let line = self.line + text[..at].matches('\n').count();
                found.push(Span { line, text: target.to_owned() });
            }
        }
        found
    }

    /// The parts of the text, and whether each is in backticks.
    fn pieces(&self) -> Vec<(bool, Span)> {
        let mut pieces = Vec::new();
        let mut rest = self.text.as_str();
        let mut line = self.line;
        let mut push = |is_code: bool, text: &str| {
            pieces.push((is_code, Span { line, text: text.to_owned() }));
            line += text.matches('\n').count();
        };
        while let Some(at) = rest.find('`') {
            // A text with a backtick in it has two backticks around it.
            let ticks = rest[at..].len() - rest[at..].trim_start_matches('`').len();
            let inside = &rest[at + ticks..];
            let Some(end) = inside.find(&rest[at..at + ticks]) else { break };
            push(false, &rest[..at]);
            push(true, &inside[..end]);
            rest = &inside[end + ticks..];
        }
        push(false, rest);
        pieces
    }
}

#[cfg(test)]
mod tests;
