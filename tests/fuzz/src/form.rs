//! Forms of browsers. The fields and the file do not depend on the pieces in which the body
//! arrives, and they are the bytes between the delimiters.

use bytes::Bytes;
use http::HeaderMap;
use s3::auth::{FormCredentials, RequestHead};
use s3::post::{
    FIELD_BYTES_MAX, FIELDS_MAX, FilePart, Form, FormEvent, FormReader, PRE_FILE_BYTES_MAX,
    boundary,
};
use s3::request::PostObject;
use s3::{BucketName, Code, Fault};

use crate::faults;
use crate::framing::terms;
use crate::message::Message;
use crate::naive_signer::SECRET;
use crate::pieces;

/// The input: a byte that decides the cuts, then a request as text, whose body is the form.
pub(crate) fn check(input: &[u8]) {
    let [seed, text @ ..] = input else { return };
    let Some(message) = Message::read(text) else { return };
    let content_type = message.headers.get("content-type").map(http::HeaderValue::as_bytes);
    let Ok(boundary) = boundary(content_type) else { return };
    assert!((1..=70).contains(&boundary.len()));
    let whole = read(&boundary, &pieces::cut(message.body, 1));
    for seed in [0, *seed] {
        assert_eq!(read(&boundary, &pieces::cut(message.body, seed)), whole, "cut as {seed} says");
    }
    let Ok(events) = whole else { return };
    let (fields, file, content) = taken_apart(events);
    lies_between_delimiters(&boundary, message.body, &fields, &content);
    means_something(&message, fields, &file);
}

/// Returns all events, with the content in one piece.
fn read(boundary: &str, pieces: &[Bytes]) -> Result<Vec<FormEvent>, Code> {
    let mut reader = FormReader::new(boundary);
    let mut out: Vec<FormEvent> = Vec::new();
    let mut broken = None;
    for piece in pieces {
        let outcome = reader.push(piece.clone(), &mut out).map_err(|fault| fault.code);
        if let Some(first) = broken {
            assert_eq!(outcome, Err(first), "the first fault is final");
        }
        broken = outcome.err().or(broken);
    }
    let finished = reader.finish().map_err(|fault| fault.code);
    assert!(broken.is_none_or(|code| finished == Err(code)), "the first fault is final");
    finished?;
    let mut merged: Vec<FormEvent> = Vec::new();
    for event in out {
        match (merged.last_mut(), event) {
            (Some(FormEvent::Content(before)), FormEvent::Content(more)) => {
                assert!(!more.is_empty());
                *before = [&before[..], &more[..]].concat().into();
            }
            (_, event) => merged.push(event),
        }
    }
    Ok(merged)
}

type Fields = Vec<(String, String)>;

/// Checks the order: fields, a file, its content, its end, and nothing else.
fn taken_apart(events: Vec<FormEvent>) -> (Fields, FilePart, Bytes) {
    let (mut fields, mut file, mut content) = (Vec::new(), None, Bytes::new());
    let mut ended = false;
    for event in events {
        assert!(!ended, "the end is the last");
        match event {
            FormEvent::Field { name, value } => {
                assert!(file.is_none() && name == name.to_ascii_lowercase() && !name.is_empty());
                fields.push((name, value));
            }
            FormEvent::File(part) => assert!(file.replace(part).is_none(), "there is one file"),
            FormEvent::Content(bytes) => {
                assert!(file.is_some());
                content = bytes;
            }
            FormEvent::End => ended = true,
        }
    }
    assert!(ended && fields.len() <= FIELDS_MAX);
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(bytes <= PRE_FILE_BYTES_MAX);
    (fields, file.expect("a form that ends has a file"), content)
}

/// A second reader of the whole body: each part is between two delimiters, and its content begins
/// after its first empty line.
fn lies_between_delimiters(boundary: &str, body: &[u8], fields: &Fields, content: &[u8]) {
    let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
    let text = [b"\r\n", body].concat();
    let mut contents = Vec::new();
    let mut from = 0;
    assert!(text.starts_with(&delimiter), "nothing precedes the first delimiter");
    while contents.len() <= fields.len() {
        let mark = from + delimiter.len();
        assert_eq!(text.get(mark..mark + 2), Some(&b"\r\n"[..]), "a part follows");
        let head = mark + 2;
        let empty = position(&text[head - 2..], b"\r\n\r\n").expect("a head that ends");
        let start = head - 2 + empty + 4;
        let mut end = start;
        loop {
            end += position(&text[end..], &delimiter).expect("a part that ends");
            let mark = end + delimiter.len();
            if matches!(text.get(mark..mark + 2), Some(b"\r\n" | b"--")) {
                break;
            }
            end += 1;
        }
        contents.push(&text[start..end]);
        from = end;
    }
    let values = fields.iter().map(|(_, value)| value.as_bytes()).chain([content]);
    assert!(contents.into_iter().eq(values), "the bytes between the delimiters");
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Interprets the fields. No unsigned identity is accepted.
fn means_something(message: &Message<'_>, fields: Fields, file: &FilePart) {
    let sent = fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        + file.filename.as_ref().map_or(0, String::len);
    let told = |fault: Fault| faults::are_told(&fault, sent + message.target.as_str().len());
    let form = match Form::new(fields, file) {
        Ok(form) => form,
        Err(fault) => return told(fault),
    };
    let headers = HeaderMap::new();
    let head = RequestHead { headers: &headers, ..message.head() };
    let credentials = match FormCredentials::parse(&head, &form) {
        Ok(credentials) => credentials,
        Err(fault) => return told(fault),
    };
    let bucket = BucketName::parse("bucket").expect("a bucket of our own");
    let verified = match credentials.verify(Some(SECRET), &bucket, &terms(false)) {
        Ok(verified) => verified,
        Err(fault) => return told(fault),
    };
    assert_eq!(verified.verified().access_key(), None, "a signature was guessed");
    match PostObject::parse(&verified) {
        Ok(post) => {
            assert_eq!(Some(post.key.as_str()), form.get("key"));
            assert!(post.key.as_str().len() <= FIELD_BYTES_MAX);
            let redirect = post.success.redirect(&bucket, &post.key, "etag");
            assert_eq!(redirect.is_some(), post.success.status().as_u16() == 303);
        }
        Err(fault) => told(fault),
    }
}
