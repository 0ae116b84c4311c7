//! Choices from bytes: fewer and smaller bytes make a simpler document, so that a failing case becomes small.

/// Bytes that decide; behind their end everything is the simplest.
pub(crate) struct Choices<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Choices<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns a number below `count`.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        usize::from(byte) % count.max(1)
    }

    /// Returns true for one of `count` numbers, which is not 0.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.pick(count) + 1 == count
    }

    pub(crate) fn of<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.pick(list.len())]
    }
}
