//! A set of cores.

/// The largest number of hardware threads that a machine can have.
pub const CORES: usize = 1024;

/// The cores that hold a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set([u64; CORES / 64]);

impl Set {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; CORES / 64])
    }

    /// Adds `core`.
    pub fn insert(&mut self, core: u16) {
        self.0[usize::from(core) / 64] |= 1 << (core % 64);
    }

    /// Whether `core` is in the set.
    #[must_use]
    pub fn contains(&self, core: u16) -> bool {
        self.0[usize::from(core) / 64] >> (core % 64) & 1 == 1
    }

    /// The cores in the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(number, &word)| {
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some((number * 64) as u16 + bit as u16)
            })
        })
    }
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<u16> for Set {
    fn from_iter<I: IntoIterator<Item = u16>>(cores: I) -> Self {
        let mut set = Self::new();
        cores.into_iter().for_each(|core| set.insert(core));
        set
    }
}
