//! The names of the designs' memory in the coherence model.

use crate::timer::Timer;
use std::mem::offset_of;
use ufutex_coherence::objects::{self, Field};

const fn field(offset: usize, bytes: usize, name: &'static str) -> Field {
    Field { offset, bytes, name }
}

const TIMER: &[Field] = &[
    field(offset_of!(Timer, next), 8, "next"),
    field(offset_of!(Timer, before), 8, "before"),
    field(offset_of!(Timer, owner), 8, "owner"),
    field(offset_of!(Timer, id), 4, "id"),
    field(Timer::LOCK, 4, "lock"),
    field(Timer::LIST, 16, "list"),
];

/// Names adjacent objects of one kind, without names for their parts.
pub fn name<T>(name: &'static str, objects: &[T]) {
    objects::name(objects.as_ptr().addr(), size_of::<T>(), objects.len(), name, &[]);
}

/// Names the timers of a slab.
pub fn timers(first: usize, count: usize) {
    objects::name(first, size_of::<Timer>(), count, "Timer", TIMER);
}
