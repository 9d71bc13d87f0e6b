//! The part of XML that a client needs: the texts of elements by name.
//!
//! The elements in question contain only text, so a search for tags finds the same texts as a
//! parser. For example, `texts(xml, "Key")` returns the keys of a listing.

/// Returns the texts of all elements with this name, with their references not resolved.
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

/// Returns the text of the first element with this name, with its references resolved.
pub(crate) fn text(xml: &str, name: &str) -> Option<String> {
    texts(xml, name).next().map(unescape)
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let plain = plain.replace("&#34;", "\"").replace("&#39;", "'").replace("&apos;", "'");
    // This one comes last: `&amp;lt;` is the text `&lt;`, not `<`.
    plain.replace("&amp;", "&")
}

/// Returns the text with references for the characters that XML reserves.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
