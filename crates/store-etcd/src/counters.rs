//! Counters as sums of cells.
//!
//! etcd has no addition: a transaction can only put a number that this process has computed. If a
//! counter had one key, two gateways that add to it would refuse each other. So each open store, an
//! *instance*, has a cell of its own for each counter to which it adds, and the counter is the sum
//! of its cells. A counter that is raised to maxima has cells with maxima. A counter has cells of
//! one of these kinds only; both kinds may have a *base* beside them, which no instance owns.
//!
//! This process remembers the cells that it has written, so it can put a new number under the
//! condition that the cell has not changed. It changes only when some process *folds* the counter:
//! adds all cells to the base and deletes them.
//!
//! For example, gateways A and B have added 3 and 4 to a counter whose base is 10. It is 17. After
//! a fold its base is 17 and it has no other cells.

use std::collections::BTreeMap;

use bytes::Bytes;
use quick_cache::sync::Cache;
use store::{CounterChange, CounterKey, StoreError};

use crate::error::garbled;
use crate::keys::{CellKind, Instance, Keys};
use crate::rpc::{Compare, KeyValue, Step};

/// A reader that finds more cells of one counter than this folds them.
pub(crate) const CELLS_MAX: usize = 8;

/// A cell that this process has written: its number, and the revision of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    kind: CellKind,
    number: i64,
    revision: i64,
}

/// A cell as a read found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    key: Bytes,
    kind: CellKind,
    number: i64,
    revision: i64,
}

/// The cells of one counter, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cells(Vec<Cell>);

impl Cells {
    /// Parses the cells of one counter.
    pub(crate) fn parse(keys: &Keys, found: Vec<KeyValue>) -> Result<Cells, StoreError> {
        let cell = |kv: KeyValue| {
            let (_, kind) = keys.to_cell(&kv.key).ok_or_else(|| garbled("reading a counter"))?;
            let number = number(&kv.value)?;
            Ok(Cell { key: kv.key, kind, number, revision: kv.mod_revision })
        };
        Ok(Cells(found.into_iter().map(cell).collect::<Result<_, StoreError>>()?))
    }

    /// Returns the value of the counter.
    pub(crate) fn total(&self) -> i64 {
        self.0.iter().fold(0, |total, cell| add(total, cell.kind, cell.number))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the counter has owned cells of another kind than the change needs.
    pub(crate) fn other_than(&self, change: CounterChange) -> bool {
        let other = match change {
            CounterChange::By { floor: None, .. } => CellKind::Max,
            CounterChange::By { floor: Some(_), .. } => CellKind::Sum,
            CounterChange::To(_) => return false,
        };
        self.0.iter().any(|cell| cell.kind == other)
    }
}

/// Adds a cell to the total of the cells before it, in the order of their kinds. A
/// counter without cells is 0.
pub(crate) fn add(total: i64, kind: CellKind, number: i64) -> i64 {
    match kind {
        CellKind::Base | CellKind::Sum => total.saturating_add(number),
        CellKind::Max => total.max(number),
    }
}

/// Parses the number of a cell.
pub(crate) fn number(value: &[u8]) -> Result<i64, StoreError> {
    let bytes = value.try_into().map_err(|_| garbled("reading a counter"))?;
    Ok(i64::from_be_bytes(bytes))
}

fn bytes(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The conditions and writes for the counters of one transaction, and the own cells after it.
#[derive(Debug, Default)]
pub(crate) struct CounterWrites {
    pub(crate) compare: Vec<Compare>,
    pub(crate) steps: Vec<Step>,
    /// The cell that this process has of each counter after the transaction, or none.
    after: BTreeMap<CounterKey, Option<(CellKind, i64)>>,
}

/// The cells of one instance, that is, of one open store.
#[derive(Debug)]
pub(crate) struct OwnCells {
    instance: Instance,
    remembered: Cache<CounterKey, Remembered>,
}

impl OwnCells {
    pub(crate) fn new(instance: Instance, remembered: usize) -> OwnCells {
        OwnCells { instance, remembered: Cache::new(remembered) }
    }

    /// Adds the writes that apply a change to a counter without reading it. Returns false if that
    /// needs the value of the counter.
    pub(crate) fn change(
        &self,
        keys: &Keys,
        counter: &CounterKey,
        change: CounterChange,
        writes: &mut CounterWrites,
    ) -> bool {
        let (kind, other, number) = match change {
            CounterChange::To(number) => {
                set(keys, counter, number, writes);
                return true;
            }
            CounterChange::By { add: 0, floor: None } => return true,
            CounterChange::By { add, floor: None } => (CellKind::Sum, CellKind::Max, add),
            CounterChange::By { add: 0, floor: Some(floor) } => {
                (CellKind::Max, CellKind::Sum, floor)
            }
            CounterChange::By { floor: Some(_), .. } => return false,
        };
        let cell = keys.cell(counter, kind, self.instance);
        let known = self.remembered.get(counter).filter(|known| known.kind == kind);
        // A cell that is not remembered was mostly never written.
        let known_revision = known.map_or(0, |known| known.revision);
        writes.compare.push(Compare::unchanged(cell.clone(), known_revision));
        writes.compare.push(Compare::empty(keys.cells_of_kind(counter, other)));
        let number = match known {
            Some(known) => add(known.number, kind, number),
            None => number,
        };
        writes.steps.push(Step::put(cell, bytes(number)));
        writes.after.insert(counter.clone(), Some((kind, number)));
        true
    }

    /// Remembers the own cells of a counter, as a read found them.
    pub(crate) fn learn(&self, keys: &Keys, counter: &CounterKey, cells: &Cells) {
        self.remembered.remove(counter);
        for kind in [CellKind::Sum, CellKind::Max] {
            let own = keys.cell(counter, kind, self.instance);
            if let Some(cell) = cells.0.iter().find(|cell| cell.key == own) {
                let (number, revision) = (cell.number, cell.revision);
                self.remembered.insert(counter.clone(), Remembered { kind, number, revision });
            }
        }
    }

    /// Remembers the cells after a transaction that was committed at this revision.
    pub(crate) fn committed(&self, writes: CounterWrites, revision: i64) {
        for (counter, cell) in writes.after {
            match cell {
                Some((kind, number)) => {
                    self.remembered.insert(counter, Remembered { kind, number, revision });
                }
                None => drop(self.remembered.remove(&counter)),
            }
        }
    }
}

/// Adds the writes that apply a change to a counter whose cells are known. The transaction fails if
/// a cell has changed since `revision`, at which the cells were read.
pub(crate) fn change_known(
    keys: &Keys,
    counter: &CounterKey,
    change: CounterChange,
    (cells, revision): (&Cells, i64),
    writes: &mut CounterWrites,
) {
    writes.compare.extend(unchanged(keys, counter, cells, revision));
    set(keys, counter, change.apply_to(cells.total()), writes);
}

/// Returns the conditions that a counter has the same cells as at a revision. Each cell is
/// compared, because a deleted cell leaves no trace in the range; a new cell does.
pub(crate) fn unchanged(
    keys: &Keys,
    counter: &CounterKey,
    cells: &Cells,
    revision: i64,
) -> Vec<Compare> {
    let each = cells.0.iter().map(|cell| Compare::unchanged(cell.key.clone(), cell.revision));
    each.chain([Compare::none_after(keys.cells(counter), revision)]).collect()
}

/// Adds the writes that give a counter a new value: a base without other cells, or no cell if the
/// value is 0.
fn set(keys: &Keys, counter: &CounterKey, number: i64, writes: &mut CounterWrites) {
    let (start, end) = if number == 0 {
        keys.cells(counter)
    } else {
        writes.steps.push(Step::put(keys.base(counter), bytes(number)));
        keys.owned_cells(counter)
    };
    writes.steps.push(Step::delete(start, end));
    writes.after.insert(counter.clone(), None);
}

#[cfg(test)]
mod tests;
