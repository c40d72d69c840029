//! An input, read as numbers. After its end it reads as zeroes.

pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub fn one_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    /// Any number of 64 bits.
    pub fn any(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A small number, one at the edge of a type, or any.
    pub fn number(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0x7f,
            0xff,
            0x3fff_ffff,
            0x4000_0000,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            1 << 32,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        match self.byte() {
            small @ 0..200 => u64::from(small % 20),
            200..240 => self.of(&EDGES),
            _ => self.any(),
        }
    }
}
