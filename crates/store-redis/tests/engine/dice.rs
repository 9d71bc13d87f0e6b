//! Random numbers for tests.

/// Numbers that look random and are the same in each run.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `many`.
    pub(crate) fn below(&mut self, many: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % many
    }

    /// Returns one item of a list.
    pub(crate) fn pick<T: Copy>(&mut self, some: &[T]) -> T {
        some[usize::try_from(self.below(some.len() as u64)).expect("few")]
    }
}
