//! The little XML that a client needs: the texts of elements with a known name.
//!
//! Responses are written by machines, and the elements in question contain only text, so searching
//! for tags finds the same as a parser would.

/// The texts of all elements of a name, as they stand.
pub(crate) fn texts<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once(open.as_str())?;
        let (text, behind) = behind.split_once(close.as_str())?;
        rest = behind;
        Some(text)
    })
}

/// The text of the first element of a name, with its references resolved.
pub(crate) fn text(xml: &str, name: &str) -> Option<String> {
    texts(xml, name).next().map(unescape)
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let plain = plain.replace("&#34;", "\"").replace("&#39;", "'").replace("&apos;", "'");
    plain.replace("&amp;", "&")
}

/// Text as it may stand in an element.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
