//! A form parses equally in pieces of any size, and as a naive parser of the whole body parses it.

use bytes::Bytes;
use proptest::prelude::*;

use crate::post::{FIELDS_MAX, FilePart, FormEvent, FormReader, PRE_FILE_BYTES_MAX, boundary};
use crate::{Code, Fault};

/// Fields, the file's part and the file's bytes.
type Read = (Vec<(String, String)>, FilePart, Vec<u8>);

/// Parses a form in pieces of these sizes, repeated.
fn read(boundary: &str, body: &[u8], sizes: &[usize]) -> Result<Read, Fault> {
    let mut reader = FormReader::new(boundary);
    let (mut rest, mut events) = (Bytes::copy_from_slice(body), Vec::new());
    for size in sizes.iter().copied().cycle() {
        if rest.is_empty() {
            break;
        }
        reader.push(rest.split_to(size.min(rest.len())), &mut events)?;
    }
    reader.finish()?;
    let (mut fields, mut file, mut content, mut ended) = (Vec::new(), None, Vec::new(), false);
    for event in events {
        assert!(!ended, "an event after the end");
        match event {
            FormEvent::Field { name, value } => {
                assert_eq!(file, None, "a field after the file");
                fields.push((name, value));
            }
            FormEvent::File(part) => assert_eq!(file.replace(part), None, "two files"),
            FormEvent::Content(bytes) => {
                assert!(!bytes.is_empty());
                content.extend_from_slice(&bytes);
            }
            FormEvent::End => ended = true,
        }
    }
    assert!(ended);
    Ok((fields, file.expect("a file"), content))
}

fn whole(boundary: &str, body: &[u8]) -> Result<Read, Fault> {
    read(boundary, body, &[usize::MAX])
}

fn field(boundary: &str, name: &str, value: &str) -> String {
    format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn form(boundary: &str, fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let fields: String = fields.iter().map(|(name, text)| field(boundary, name, text)).collect();
    let head = format!(
        "{fields}--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
         filename=\"a.bin\"\r\nContent-Type: image/png\r\n\r\n"
    );
    [head.as_bytes(), file, format!("\r\n--{boundary}--\r\n").as_bytes()].concat()
}

#[track_caller]
fn refused(body: &[u8], code: Code) {
    for sizes in [&[usize::MAX][..], &[1]] {
        assert_eq!(read("b", body, sizes).expect_err("must be refused").code, code);
    }
}

#[test]
fn s3_a9_a_form_parses_equally_in_pieces_of_any_size() {
    // Content that looks like delimiters, or ends with the beginning of a delimiter.
    let file = b"\r\n--\r\n--b\r\n--bx\r\r\n--boundar\r\n--boundary\r\r\n--boundaryx\r\n-\r\n\r";
    let fields = [("key", "a\r\nb\r\n--boundar"), ("Empty", ""), ("acl", "private")];
    let body = form("boundary", &fields, file);
    let expected = whole("boundary", &body).unwrap();
    assert_eq!(expected.2, file);
    assert_eq!(expected.0[0].1, "a\r\nb\r\n--boundar");
    assert_eq!(expected.0[1], ("empty".to_owned(), String::new()));
    assert_eq!(expected.1.filename.as_deref(), Some("a.bin"));
    assert_eq!(expected.1.content_type.as_deref(), Some("image/png"));
    for size in 1..body.len() {
        assert_eq!(read("boundary", &body, &[size]).unwrap(), expected, "pieces of {size}");
        assert_eq!(read("boundary", &body, &[size, usize::MAX]).unwrap(), expected, "at {size}");
    }
}

#[test]
fn a_file_may_have_only_an_extended_name() {
    let name = |parameters: &str| {
        let body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; {parameters}\r\n\r\nv\r\n--b--\r\n"
        );
        whole("b", body.as_bytes()).map(|read| read.1.filename)
    };
    for (parameters, expected) in [
        ("filename*=UTF-8''na%C3%AFve%20a.txt", "na\u{ef}ve a.txt"),
        ("filename*=utf-8'en'a.txt", "a.txt"),
        ("filename=\"plain\"; filename*=UTF-8''other", "plain"),
    ] {
        assert_eq!(name(parameters).unwrap().as_deref(), Some(expected), "{parameters}");
    }
    for parameters in ["filename*=a.txt", "filename*=latin1''a", "filename*=UTF-8''%FF"] {
        let refused = name(parameters).expect_err("it cannot be read");
        assert_eq!(refused.code, Code::MalformedPOSTRequest, "{parameters}");
    }
}

#[test]
fn s3_s13_file_content_is_passed_on_without_copying() {
    let body = Bytes::from(form("b", &[("key", "k")], &vec![7; 100_000]));
    let mut events = Vec::new();
    FormReader::new("b").push(body.clone(), &mut events).unwrap();
    let content = events.iter().find_map(|event| match event {
        FormEvent::Content(content) => Some(content),
        _ => None,
    });
    let content = content.unwrap();
    assert_eq!(content.len(), 100_000);
    assert!(body.as_ptr_range().contains(&content.as_ptr()), "it was copied");
}

#[test]
fn s3_a9_bytes_after_the_file_are_ignored() {
    let mut body = form("b", &[("key", "k")], b"content");
    body.extend_from_slice(b"tail data that should be ignored");
    assert_eq!(whole("b", &body).unwrap().2, b"content");
    let mut body = form("b", &[("key", "k")], b"content");
    body.truncate(body.len() - 4);
    body.extend_from_slice(b"\r\n");
    body.extend_from_slice(&form("b", &[("key", "other"), ("acl", "x")], b"second"));
    let read = whole("b", &body).unwrap();
    assert_eq!((read.0.len(), read.2), (1, b"content".to_vec()));
}

#[test]
fn s3_a9_part_headers_of_real_clients_are_parsed() {
    let read_one = |head: &str| {
        let body = format!("--b\r\n{head}\r\n\r\nv\r\n");
        let body = [body.as_bytes(), &form("b", &[], b"")].concat();
        whole("b", &body).map(|read| read.0[0].clone())
    };
    for head in [
        "Content-Disposition: form-data; name=key",
        "content-disposition:form-data;name=\"key\"",
        "Content-Type: text/plain\r\nContent-Disposition: FORM-DATA ; Name = \"kEy\" ; x=y",
        // Python's requests gives every field a file name.
        "Content-Disposition: form-data; name=\"key\"; filename=\"key\"",
    ] {
        assert_eq!(read_one(head).unwrap(), ("key".to_owned(), "v".to_owned()), "{head}");
    }
    let named = r#"Content-Disposition: form-data; name="a\"b\\c\d;""#;
    assert_eq!(read_one(named).unwrap().0, r#"a"b\c\d;"#);
    for head in [
        "X: y",
        "no colon",
        "Content-Disposition: form-data",
        "Content-Disposition: form-data; name=\"\"",
        "Content-Disposition: attachment; name=\"key\"",
        "Content-Disposition: form-data; name=\"key\"; name=\"acl\"",
        "Content-Disposition: form-data; name=\"key",
        "Content-Disposition: form-data; name=\"key\" x",
        "Content-Disposition: form-data; name=\"key\"\r\nContent-Disposition: form-data; name=b",
    ] {
        assert_eq!(read_one(head).unwrap_err().code, Code::MalformedPOSTRequest, "{head}");
    }
}

#[test]
fn s3_a9_a_malformed_form_is_refused() {
    for body in [
        &b"x--b\r\n"[..],
        b"\r\n--b\r\n",
        b"--c\r\n",
        b"--bx\r\n",
        b"--b",
        b"--b\r\nContent-Disposition: form-data; name=key\r\n",
        b"--b\r\nContent-Disposition: form-data; name=file\r\n\r\ncontent",
        b"--b\r\nContent-Disposition: form-data; name=file\r\n\r\ncontent\r\n--b",
    ] {
        refused(body, Code::MalformedPOSTRequest);
    }
    assert_eq!(FormReader::new("b").finish().unwrap_err().code, Code::MalformedPOSTRequest);
    let no_file = field("b", "key", "k") + "--b--\r\n";
    let fault = whole("b", no_file.as_bytes()).unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
    assert_eq!(fault.message, "POST requires exactly one file upload per request.");
    refused(b"--b--\r\n", Code::InvalidArgument);
    let not_text =
        [b"--b\r\nContent-Disposition: form-data; name=key\r\n\r\n\xc0\xaf", &b"\r\n--b"[..]];
    refused(&[&not_text.concat()[..], b"\r\n"].concat(), Code::InvalidArgument);
}

#[test]
fn s3_s13_bytes_and_fields_before_the_file_are_limited() {
    let too_much = Code::MaxPostPreDataLengthExceededError;
    let mut body = form("b", &[("key", "k")], b"content");
    let before = body.len() - b"content\r\n--b--\r\n".len();
    body = form("b", &[("key", &"k".repeat(1 + PRE_FILE_BYTES_MAX - before))], b"content");
    for sizes in [&[usize::MAX][..], &[1]] {
        assert_eq!(read("b", &body, sizes).unwrap().2, b"content");
    }
    refused(&form("b", &[("key", &"k".repeat(2 + PRE_FILE_BYTES_MAX - before))], b""), too_much);
    refused(&[b"--b\r\nX: ", &vec![b'y'; 30_000][..]].concat(), too_much);
    refused(&[b"--b\r\n", &b"X: y\r\n".repeat(5_000)[..]].concat(), too_much);
    refused(&form("b", &[("key", &"\r\n--".repeat(6_000))], b""), too_much);
    assert!(whole("b", &form("b", &[("a", "b"); FIELDS_MAX], b"")).is_ok());
    refused(&form("b", &[("a", "b"); FIELDS_MAX + 1], b""), Code::MalformedPOSTRequest);
}

#[test]
fn s3_a9_the_first_fault_is_final() {
    let mut reader = FormReader::new("b");
    assert!(reader.push(Bytes::from_static(b"x"), &mut Vec::new()).is_err());
    let rest = Bytes::from(form("b", &[("key", "k")], b""));
    assert!(reader.push(rest, &mut Vec::new()).is_err());
    assert!(reader.finish().is_err());
}

#[test]
fn s3_a9_the_boundary_comes_from_the_content_type() {
    let read = |text: &str| boundary(Some(text.as_bytes()));
    assert_eq!(read("multipart/form-data; boundary=----Web").unwrap(), "----Web");
    assert_eq!(read("Multipart/Form-Data;charset=utf-8;BOUNDARY=\"a b\"").unwrap(), "a b");
    for text in ["application/json", "", "multipart/mixed; boundary=a"] {
        assert_eq!(read(text).unwrap_err().code, Code::PreconditionFailed);
    }
    assert_eq!(boundary(None).unwrap_err().code, Code::PreconditionFailed);
    let long = format!("multipart/form-data; boundary={}", "a".repeat(71));
    for text in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"a\tb\"",
        "multipart/form-data; boundary=\"a ",
        "multipart/form-data; boundary=a; boundary=b",
        &long,
    ] {
        assert_eq!(read(text).unwrap_err().code, Code::MalformedPOSTRequest, "{text}");
    }
}

/// Parses the whole body at once, in the simplest way.
fn oracle(boundary: &str, body: &[u8]) -> Option<Read> {
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = delimiter.as_bytes();
    let body = [b"\r\n", body].concat();
    let mut fields = Vec::new();
    let mut rest = body.strip_prefix(delimiter)?;
    loop {
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = rest.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&rest[..head_end]).unwrap();
        let lines: Vec<&str> = head.split("\r\n").collect();
        let count = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        if lines.iter().any(|line| !line.contains(':'))
            || count("Content-Disposition:") != 1
            || count("Content-Type:") > 1
        {
            return None;
        }
        let name = head.split("name=\"").nth(1)?.split('"').next()?.to_ascii_lowercase();
        let content = &rest[head_end + 4..];
        let end = (0..content.len()).find(|at| {
            let after = content[*at..].strip_prefix(delimiter);
            after.is_some_and(|after| after.starts_with(b"\r\n") || after.starts_with(b"--"))
        })?;
        rest = &content[end + delimiter.len()..];
        let content = content[..end].to_vec();
        if name == "file" {
            let part = FilePart {
                filename: Some("a.bin".to_owned()),
                content_type: Some("image/png".to_owned()),
            };
            return Some((fields, part, content));
        }
        fields.push((name, String::from_utf8(content).unwrap()));
    }
}

/// Text with many delimiters and near-delimiters.
fn tricky() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\r"),
        Just("\n"),
        Just("\r\n"),
        Just("-"),
        Just("\r\n--"),
        Just("\r\n--a"),
        Just("\r\n--ab"),
        Just("\r\n--ab\r"),
        Just("\r\n--ab-"),
        Just("a"),
        Just("b"),
        Just("\r\n--ab\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n"),
        Just(
            "\r\n--ab\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\
              Content-Type: image/png\r\n\r\n"
        ),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 2_000, ..Default::default()
    })]

    #[test]
    fn s3_a9_the_reader_agrees_with_a_naive_reader(
        values in proptest::collection::vec(tricky(), 0..3),
        file in tricky(),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        sizes in proptest::collection::vec(1..12_usize, 1..8),
    ) {
        let fields: Vec<(&str, &str)> = values.iter().map(|value| ("v", value.as_str())).collect();
        let mut body = form("ab", &fields, file.as_bytes());
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        let got = read("ab", &body, &sizes);
        prop_assert_eq!(whole("ab", &body).ok(), got.clone().ok());
        prop_assert_eq!(got.ok(), oracle("ab", &body));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_s16_no_form_panics(
        body in proptest::collection::vec(
            prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                tricky().prop_map(String::into_bytes),
                "Content-Disposition:? form-data; (name|filename)=\"?\\PC{0,5}\"?\r\n"
                    .prop_map(String::into_bytes),
            ],
            0..40,
        ),
        sizes in proptest::collection::vec(1..9_usize, 1..5),
        content_type in "multipart/form-data(; ?(boundary=)?\"?\\PC{0,6}\"?){0,3}",
    ) {
        let body = [b"--ab\r\n", &body.concat()[..]].concat();
        prop_assert_eq!(read("ab", &body, &sizes).ok(), whole("ab", &body).ok());
        let _ = boundary(Some(content_type.as_bytes()));
    }
}
