//! A table in the ledger, with entries of fixed length. An entry is in a *slot*, a numbered place.
//! A slot whose first word is 0 is free.
//!
//! The lowest free slot is used first, so the table takes memory only for the largest number of
//! entries that it ever had. For example, a table with entries in slots 0 and 2 puts the next one
//! into slot 1.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The offset in the ledger of the lengths of all tables, one 64-bit word for each table, in the
/// order of their numbers.
const LENGTHS_AT: u64 = 1024;

/// The number of bytes that are read at a time when a table is opened.
const PIECE_BYTES: usize = 64 << 10;

const WORD_BYTES: usize = 8;

/// An entry of a table, as 64-bit words. The first word is never 0.
pub(crate) type Entry<const WORDS: usize> = [u64; WORDS];

/// A table in the ledger: its place there, and the slots of it that are free.
#[derive(Debug)]
pub(crate) struct Table<const WORDS: usize> {
    file: Arc<File>,
    number: u64,
    at: u64,
    slots_max: u32,
    slots: Mutex<Slots>,
}

/// The free slots of a table.
#[derive(Debug, Default)]
struct Slots {
    free: BinaryHeap<Reverse<u32>>,
    /// The number of slots that were ever used. The slots from this number on are free and were
    /// never written.
    high_water: u32,
}

impl<const WORDS: usize> Table<WORDS> {
    const ENTRY_BYTES: usize = WORDS * WORD_BYTES;

    /// Opens the table with this number, which begins at offset `at` of the ledger and has
    /// `slots_max` slots. Returns it, and the entries that earlier workers (processes of the mount)
    /// left, each with its slot.
    pub(crate) fn open(
        file: &Arc<File>,
        number: u64,
        at: u64,
        slots_max: u32,
    ) -> io::Result<(Table<WORDS>, Vec<(u32, Entry<WORDS>)>)> {
        // A write within one page is complete or did not happen when the worker is killed.
        const { assert!(WORDS.is_power_of_two(), "an entry must not cross a page boundary") };
        let length = read_word(file, LENGTHS_AT + number * WORD_BYTES as u64)?;
        // Slots from the high-water mark on were never written, so only the part before it is read.
        let high_water = u32::try_from(length).unwrap_or(slots_max).min(slots_max);
        let (mut slots, mut entries) = (Slots { high_water, ..Slots::default() }, Vec::new());
        let per_piece = PIECE_BYTES / Self::ENTRY_BYTES;
        let mut index = 0;
        while index < high_water {
            let count = per_piece.min((high_water - index) as usize);
            let mut piece = vec![0; count * Self::ENTRY_BYTES];
            let from = at + u64::from(index) * Self::ENTRY_BYTES as u64;
            read_or_zeros(file, &mut piece, from)?;
            for bytes in piece.chunks_exact(Self::ENTRY_BYTES) {
                let entry = words(bytes);
                if entry[0] == 0 {
                    slots.free.push(Reverse(index));
                } else {
                    entries.push((index, entry));
                }
                index += 1;
            }
        }
        let slots = Mutex::new(slots);
        Ok((Table { file: Arc::clone(file), number, at, slots_max, slots }, entries))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an entry into a free slot, and returns the slot. Fails with `StorageFull` if no slot
    /// is free.
    pub(crate) fn insert(&self, entry: Entry<WORDS>) -> io::Result<u32> {
        debug_assert!(entry[0] != 0, "an entry whose first word is 0 is none");
        let index = {
            let mut slots = self.slots();
            match slots.free.pop() {
                Some(Reverse(index)) => index,
                None if slots.high_water == self.slots_max => {
                    return Err(io::Error::from(io::ErrorKind::StorageFull));
                }
                None => {
                    let index = slots.high_water;
                    let high_water = u64::from(index) + 1;
                    let at = LENGTHS_AT + self.number * WORD_BYTES as u64;
                    // Raise the mark before the entry is written: the next worker reads only
                    // entries before the mark.
                    self.file.write_all_at(&high_water.to_le_bytes(), at)?;
                    slots.high_water += 1;
                    index
                }
            }
        };
        // Written without the lock: the slot belongs to this call alone.
        let put = self.put(index, entry);
        if put.is_err() {
            self.slots().free.push(Reverse(index));
        }
        put.map(|()| index)
    }

    /// Writes an entry into a slot that the caller has got from `insert` or `open`, over the
    /// present one.
    pub(crate) fn put(&self, index: u32, entry: Entry<WORDS>) -> io::Result<()> {
        let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, self.position(index))
    }

    /// Removes the entry in a slot, which is free then. If the write fails, the entry stays.
    pub(crate) fn clear(&self, index: u32) -> io::Result<()> {
        // One word of 0 frees the entry, so a crash leaves it complete or free.
        self.file.write_all_at(&[0; WORD_BYTES], self.position(index))?;
        self.slots().free.push(Reverse(index));
        Ok(())
    }

    /// Returns the offset of a slot in the ledger.
    fn position(&self, index: u32) -> u64 {
        self.at + u64::from(index) * Self::ENTRY_BYTES as u64
    }
}

fn words<const WORDS: usize>(bytes: &[u8]) -> Entry<WORDS> {
    let mut entry = [0; WORDS];
    for (word, bytes) in entry.iter_mut().zip(bytes.chunks_exact(WORD_BYTES)) {
        let mut array = [0; WORD_BYTES];
        array.copy_from_slice(bytes);
        *word = u64::from_le_bytes(array);
    }
    entry
}

/// Reads a 64-bit word of the ledger at offset `at`. Returns 0 if it is after the end of the file.
pub(crate) fn read_word(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; WORD_BYTES];
    read_or_zeros(file, &mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills `bytes` from the ledger at offset `at`. The part after the end of the file is filled with
/// zeros.
pub(crate) fn read_or_zeros(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes[done..].fill(0);
    Ok(())
}
