//! Reads: converts questions into the arguments of one script, and its answer into results.
//!
//! For example, a directory entry with a follow (a rule that finds the record to which the entry
//! points) is one instruction, which also reads the inode.

use std::sync::Arc;

use redis::Value as Reply;
use store::{Entry, Follow, Key, Read, ReadResult, StoreError, Target};

use crate::connect::{Call, Links};
use crate::program::{Keys, Program};
use crate::{error, member, reply};

const DOING: &str = "reading";

/// The opcodes of `read.lua`.
mod opcode {
    pub(super) const FETCHED: u8 = 1;
    pub(super) const RANGE: u8 = 3;
}

/// Answers all questions from one snapshot.
pub(crate) async fn read(
    links: &Arc<Links>,
    reads: &[Read],
) -> Result<Vec<ReadResult>, StoreError> {
    let call = Call::script(links, &links.scripts.read, program(reads).arguments(), DOING);
    let answer = links.call(call).await?;
    let garbled = || error::garbled(DOING);
    let mut answers = reply::list(answer).ok_or_else(garbled)?.into_iter();
    reads.iter().map(|read| found(read, &mut answers).ok_or_else(garbled)).collect()
}

fn program(reads: &[Read]) -> Program<'_> {
    let mut keys = Keys::default();
    for read in reads {
        match read {
            Read::Record { key, .. } => keys.record(key),
            Read::Counter(counter) => keys.counter(&counter.0),
            Read::Range { .. } => {}
        }
    }
    let mut program = Program::new(keys);
    for read in reads {
        match read {
            Read::Record { key, follow } => {
                let key = program.record(key);
                instruction(&mut program, opcode::FETCHED, key, follow.as_ref());
            }
            Read::Counter(counter) => {
                let counter = program.counter(&counter.0);
                instruction(&mut program, opcode::FETCHED, counter, None);
            }
            Read::Range { start, end, limit, follow } => {
                let range = program.range(start, end);
                program.argument(limit.to_string().into_bytes());
                instruction(&mut program, opcode::RANGE, range, follow.as_ref());
            }
        }
    }
    program
}

fn instruction<'a>(program: &mut Program<'a>, opcode: u8, index: u16, follow: Option<&'a Follow>) {
    let prefix = follow.map_or(0, |follow| program.argument(&follow.prefix[..]));
    program.instruction(opcode, index, prefix);
    program.extend_instruction(&follow.map_or([0, 0], |follow| [follow.offset, follow.length]));
    let fetched = follow.and_then(Follow::fetch_bytes).unwrap_or(0);
    program.extend_instruction(&fetched.to_be_bytes());
}

/// Takes the answer to one question from the answers.
fn found(read: &Read, answers: &mut impl Iterator<Item = Reply>) -> Option<ReadResult> {
    match read {
        Read::Record { key, follow } => {
            let value = reply::record(answers.next()?)?;
            let target = match follow {
                Some(follow) => follow.to_target(reply::record(answers.next()?)?),
                None => Target::Absent,
            };
            Some(ReadResult::Record(value.map(|value| Entry { key: key.clone(), value, target })))
        }
        Read::Counter(_) => reply::counter(answers.next()?).map(ReadResult::Counter),
        Read::Range { start, follow, .. } => {
            let members = reply::list(answers.next()?)?;
            let mut targets = reply::list(answers.next()?)?.into_iter();
            let entry = |answer| {
                let target = match follow {
                    Some(follow) => follow.to_target(reply::record(targets.next()?)?),
                    None => Target::Absent,
                };
                let bytes = reply::record(answer)??;
                let (suffix, value) = member::read(&bytes)?;
                let key = Key::new(start.space(), start.partition(), &suffix);
                Some(Entry { key, value: bytes.slice_ref(value), target })
            };
            let entries: Option<Vec<Entry>> = members.into_iter().map(entry).collect();
            entries.map(ReadResult::Range)
        }
    }
}
