//! The requests of the load, and the meaning of their responses.

use super::*;
use crate::client::part_list;
use crate::content::etag_of_digests;

/// Adds the header of a condition.
fn on_write(request: Request, when: Condition, etag: Option<&str>) -> Request {
    match (when, etag) {
        (Condition::Absent, _) => request.header("if-none-match", "*"),
        (Condition::Is(_), Some(etag)) => request.header("if-match", etag),
        _ => request,
    }
}

/// Returns tags as the header `x-amz-tagging` spells them.
fn tagging(value: Value) -> String {
    format!("one={value}&two={value}")
}

/// Returns the status. A response with status 200 may end in an error; then this is the status of
/// that error.
fn status(answer: &Answer) -> u16 {
    match (answer.status, &*answer.code()) {
        (200, "PreconditionFailed") => 412,
        (200, "NoSuchKey") => 404,
        (200, "ConditionalRequestConflict") => 409,
        (200, "ServiceUnavailable" | "SlowDown") => 503,
        (200, code) if !code.is_empty() => 500,
        (status, _) => status,
    }
}

impl Turn<'_> {
    /// Sends a request and records its outcome. `good` returns the outcome of a successful
    /// response. Returns the response if it was successful.
    fn invocation(
        &mut self,
        at: usize,
        invocation: Invocation,
        request: &Request,
        good: impl FnOnce(&Answer) -> Response,
    ) -> Option<Answer> {
        let began = self.now();
        let answer = self.line.send(request);
        let ended = self.now();
        let (response, answer) = match answer {
            Ok(answer) => (self.response(invocation, &answer, good)?, Some(answer)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return None,
            Err(_) => {
                self.count("cut");
                (Response::Unknown, None)
            }
        };
        if response == Response::Unknown {
            std::thread::sleep(PAUSE);
        }
        self.worker
            .calls
            .push((at, Call { operation: Operation { invocation, response }, began, ended }));
        answer.filter(|answer| status(answer) < 300)
    }

    /// Returns the outcome; `None` if the request certainly had no effect.
    fn response(
        &mut self,
        invocation: Invocation,
        answer: &Answer,
        good: impl FnOnce(&Answer) -> Response,
    ) -> Option<Response> {
        let response = match (invocation, status(answer)) {
            (_, 200 | 204) => good(answer),
            (Invocation::Get(_), 404) if answer.code() == "NoSuchKey" => Response::Found(None),
            (Invocation::GetTags(_), 404) if answer.code() == "NoSuchKey" => Response::Tags(None),
            (
                Invocation::Put(_, _, Condition::Is(_))
                | Invocation::Delete(_, Condition::Is(_))
                | Invocation::PutTags(..)
                | Invocation::Copy(_)
                | Invocation::CopyPart(..),
                404,
            ) if answer.code() == "NoSuchKey" => Response::Missing,
            (
                Invocation::Put(..)
                | Invocation::Delete(..)
                | Invocation::Copy(_)
                | Invocation::CopyPart(..),
                412,
            ) => Response::Refused,
            (_, 409) if answer.code() == "ConditionalRequestConflict" => {
                self.count("conflict");
                return None;
            }
            (Invocation::Copy(_) | Invocation::CopyPart(..), 503)
                if answer.code() == "SlowDown" =>
            {
                // The source changed during each try of the gateway.
                self.count("contended");
                return None;
            }
            (_, 503) if !answer.text().contains("outcome of the request is unknown") => {
                self.count("later");
                std::thread::sleep(PAUSE);
                return None;
            }
            (_, 500..) => Response::Unknown,
            (_, status) => panic!("{invocation:?}: {status} {}", answer.text()),
        };
        self.count(match (response, invocation) {
            (Response::Unknown, _) => "unknown",
            (Response::Refused | Response::Missing, _) => "refused",
            (Response::Found(_) | Response::Tags(_), _) => "read",
            (_, Invocation::Copy(copy)) if copy.from == copy.to => "copied onto itself",
            (_, Invocation::Copy(_)) => "copied",
            (_, Invocation::CopyPart(..)) => "copied a part",
            (_, Invocation::PutTags(..)) => "tagged",
            (_, Invocation::Delete(..)) => "deleted",
            _ => "put",
        });
        Some(response)
    }

    pub(super) fn get(&mut self, at: usize, key: usize) {
        let request = Request::new("GET", &self.path(at, key));
        let mut known = None;
        self.invocation(at, Invocation::Get(key), &request, |answer| {
            let etag = answer.header("etag").to_owned();
            let content = Content { value: value_of(&answer.body), tag: tag(&etag) };
            let note = answer.header("x-amz-meta-note").parse().expect("a note of a client");
            known = Some(Known { content, etag });
            Response::Found(Some((content, note, answer.header("x-amz-tagging-count") == "2")))
        });
        self.worker.known[at][key] = known;
    }

    pub(super) fn get_tags(&mut self, at: usize, key: usize) {
        let request = Request::new("GET", &format!("{}?tagging", self.path(at, key)));
        self.invocation(at, Invocation::GetTags(key), &request, |answer| {
            let values = answer.elements("Value");
            assert!(values.is_empty() || values.len() == 2, "torn tags: {}", answer.text());
            assert!(values.first() == values.last(), "torn tags: {}", answer.text());
            let value = values.first().map(|value| value.parse().expect("a tag of a client"));
            Response::Tags(Some(value))
        });
    }

    /// Chooses the condition of a write; mostly none.
    fn when(&mut self, at: usize, key: usize) -> (Condition, Option<String>) {
        let known = self.worker.known[at][key].clone();
        match (self.below(5), known) {
            (0, _) => (Condition::Absent, None),
            (1, Some(known)) => (Condition::Is(known.content.tag), Some(known.etag)),
            _ => (Condition::Always, None),
        }
    }

    pub(super) fn put(&mut self, at: usize, key: usize) {
        let value = self.value();
        let tags = (self.below(2) == 0).then_some(value);
        let (when, etag) = self.when(at, key);
        let known = whole(value);
        let object = Object { content: known.content, note: value, tags };
        let path = self.path(at, key);
        let put = Request::new("PUT", &path).header("x-amz-meta-note", &value.to_string());
        let late = self.planted == Planted::TornTags;
        let sent = tags.filter(|_| !late).map(tagging);
        let put = sent.iter().fold(put, |put, tags| put.header("x-amz-tagging", tags));
        let put = on_write(put, when, etag.as_deref()).body(body(value));
        let answer = self.invocation(at, Invocation::Put(key, object, when), &put, |answer| {
            assert_eq!(tag(answer.header("etag")), known.content.tag, "another tag");
            Response::Done
        });
        if answer.is_some() {
            if let Some(tags) = tags.filter(|_| late) {
                self.tag_late(&path, tags);
            }
            self.worker.known[at][key] = Some(known);
        }
    }

    pub(super) fn put_tags(&mut self, at: usize, key: usize) {
        let value = self.value();
        let request = tag_request(&self.path(at, key), value);
        self.invocation(at, Invocation::PutTags(key, value), &request, |_| Response::Done);
    }

    pub(super) fn delete(&mut self, at: usize, key: usize) {
        let (when, etag) = match self.when(at, key) {
            (Condition::Absent, _) => (Condition::Always, None),
            other => other,
        };
        let path = self.path(at, key);
        let comes_back = self.planted == Planted::Resurrections && self.below(3) == 0;
        let before = comes_back.then(|| self.take(&path)).flatten();
        let request = on_write(Request::new("DELETE", &path), when, etag.as_deref());
        let done = self.invocation(at, Invocation::Delete(key, when), &request, |_| Response::Done);
        if done.is_some() {
            self.worker.known[at][key] = None;
            if let Some(before) = before {
                self.put_back(&path, &before, None);
            }
        }
    }

    /// Replaces metadata by a copy of a key onto itself, as programs do that set a modification
    /// time.
    pub(super) fn copy_onto_itself(&mut self, at: usize, key: usize) {
        let note = Some(self.value());
        let when = self.source_condition(at, key);
        let tags = (self.below(4) == 0).then(|| self.value());
        let copying = Copying {
            from: key,
            to: key,
            when: when.as_ref().map(|is| is.content.tag),
            note,
            tags,
        };
        if self.planted == Planted::LostWrites && when.is_none() && tags.is_none() {
            return self.copy_by_hand(at, copying);
        }
        self.ask_copy(at, copying, when.as_ref());
    }

    pub(super) fn copy(&mut self, at: usize, from: usize) {
        let to = (from + 1 + usize::try_from(self.below(KEYS as u64 - 1)).expect("few")) % KEYS;
        let when = self.source_condition(at, from);
        let note = (self.below(2) == 0).then(|| self.value());
        let tags = (self.below(4) == 0).then(|| self.value());
        let copying =
            Copying { from, to, when: when.as_ref().map(|is| is.content.tag), note, tags };
        self.ask_copy(at, copying, when.as_ref());
    }

    fn source_condition(&mut self, at: usize, key: usize) -> Option<Known> {
        let asks = self.below(3) == 0;
        self.worker.known[at][key].clone().filter(|_| asks)
    }

    fn ask_copy(&mut self, at: usize, copying: Copying, when: Option<&Known>) {
        let Copying { from, to, note, tags, .. } = copying;
        let mut request = Request::new("PUT", &self.path(at, to))
            .header("x-amz-copy-source", &self.path(at, from));
        if let Some(known) = when {
            request = request.header("x-amz-copy-source-if-match", &known.etag);
        }
        if let Some(note) = note {
            request = request.header("x-amz-metadata-directive", "REPLACE");
            request = request.header("x-amz-meta-note", &note.to_string());
        }
        if let Some(tags) = tags {
            request = request.header("x-amz-tagging-directive", "REPLACE");
            request = request.header("x-amz-tagging", &tagging(tags));
        }
        self.worker.known[at][to] = None;
        let response = |answer: &Answer| Response::Copied(tag(&answer.element("ETag")));
        self.invocation(at, Invocation::Copy(copying), &request, response);
    }

    /// An upload of one part, which is either sent or copied from another key.
    pub(super) fn upload(&mut self, at: usize, key: usize) {
        let path = self.path(at, key);
        let note = self.value();
        let tags = (self.below(2) == 0).then_some(note);
        let upload = Request::new("POST", &format!("{path}?uploads"));
        let upload = upload.header("x-amz-meta-note", &note.to_string());
        let sent = tags.map(tagging);
        let upload = sent.iter().fold(upload, |upload, tags| upload.header("x-amz-tagging", tags));
        let Some(begun) = self.line.send(&upload).ok().filter(|begun| begun.status == 200) else {
            return;
        };
        let id = begun.element("UploadId");
        let target = format!("{path}?partNumber=1&uploadId={id}");
        let from = self.key();
        let copies = self.below(2) == 0;
        if copies {
            self.get(at, from);
        }
        let part = match self.worker.known[at][from].clone().filter(|_| copies) {
            Some(source) => self.copy_part(at, from, &source, &target),
            None => self.send_part(&target),
        };
        let target = format!("{path}?uploadId={id}");
        let Some((value, part)) = part else {
            // Abort the upload; it will not be completed.
            let _ = self.line.send(&Request::new("DELETE", &target));
            return;
        };
        let content = Content { value, tag: tag(&etag_of_digests(&[&part])) };
        let (when, etag) = self.when(at, key);
        let list = part_list(&[(1, &part)]);
        let request = on_write(Request::new("POST", &target).body(list), when, etag.as_deref());
        let object = Object { content, note, tags };
        let completed =
            self.invocation(at, Invocation::Put(key, object, when), &request, |answer| {
                assert_eq!(
                    tag(&answer.element("ETag")),
                    content.tag,
                    "another tag than the part's"
                );
                Response::Done
            });
        if completed.is_some() {
            self.count("completed");
        }
    }

    /// Sends a new body as a part. Returns its value and `ETag`.
    fn send_part(&mut self, target: &str) -> Option<(Value, String)> {
        let value = self.value();
        let request = Request::new("PUT", target).body(body(value));
        let sent = self.line.send(&request).ok().filter(|sent| sent.status == 200)?;
        Some((value, sent.header("etag").to_owned()))
    }

    /// Copies a whole other key as a part. Returns its value and `ETag`.
    fn copy_part(
        &mut self,
        at: usize,
        from: usize,
        source: &Known,
        target: &str,
    ) -> Option<(Value, String)> {
        let request = Request::new("PUT", target)
            .header("x-amz-copy-source", &self.path(at, from))
            .header("x-amz-copy-source-if-match", &source.etag);
        let invocation = Invocation::CopyPart(from, source.content.tag);
        let copied = self.invocation(at, invocation, &request, |_| Response::Done)?;
        Some((source.content.value, copied.element("ETag").replace("&quot;", "\"")))
    }
}

/// A request that replaces the tags of an object.
pub(super) fn tag_request(path: &str, value: Value) -> Request {
    let tag = |key| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
    let document = format!("<Tagging><TagSet>{}{}</TagSet></Tagging>", tag("one"), tag("two"));
    Request::new("PUT", &format!("{path}?tagging")).body(document)
}
