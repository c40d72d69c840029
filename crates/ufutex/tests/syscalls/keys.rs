//! Futex keys: which addresses are the same futex, and which are invalid.

use crate::calls::{ALL, ANY};
use crate::common::arena::Rights;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL};
use crate::machine::Machine;
use crate::memory::Word;
use crate::on_every_machine;

/// Addresses outside of user space.
const KERNELS: [u64; 4] = [1 << 63, 0xffff_8000_0000_0000, !3, 1 << 60];

fn misaligned_address_is_einval(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for offset in 1..4 {
        for call in [m.wait(word.0 + offset, 0), m.wait(word.0 + offset, 1), m.wake(word.0 + offset, 1)] {
            assert_eq!(t.call(call.private()), EINVAL);
            assert_eq!(t.call(call.shared()), EINVAL);
        }
        // Alignment is checked before the address is accessed.
        assert_eq!(t.call(m.wake(offset, 1)), EINVAL);
        assert_eq!(t.call(m.wake((1 << 63) + offset, 1)), EINVAL);
    }
}

fn address_outside_user_space_is_efault(m: &Machine) {
    let t = m.thread();
    for address in KERNELS {
        for call in [m.wait(address, 0), m.wake(address, 1), m.wake_bitset(address, 1, 1)] {
            assert_eq!(t.call(call.private()), EFAULT, "{address:#x}");
            assert_eq!(t.call(call.shared()), EFAULT, "{address:#x}");
        }
    }
}

fn private_wake_never_touches_memory(m: &Machine) {
    let t = m.thread();
    for address in [0, 4, m.page(Rights::Nothing), m.page(Rights::Read)] {
        assert_eq!(t.call(m.wake(address, ALL).private()), 0, "{address:#x}");
        assert_eq!(t.call(m.requeue(address, address + 4, 1, 1).private()), 0, "{address:#x}");
    }
}

fn private_waiter_is_found_after_its_page_is_unmapped(m: &Machine) {
    let ([w, t], page) = (m.threads(), m.page(Rights::ReadWrite));
    let waiting = w.begin(m.wait(page, 0).private());
    m.protect(page, Rights::Nothing);
    assert_eq!(t.call(m.wake(page, 1).private()), 1);
    assert_eq!(waiting.finish(), 0);
}

fn wait_must_read_its_word(m: &Machine) {
    let t = m.thread();
    for address in [0, 4, m.page(Rights::Nothing)] {
        for call in [m.wait(address, 0), m.wait(address, 1), m.wait_bitset(address, 0, 1)] {
            assert_eq!(t.call(call.private()), EFAULT, "{address:#x}");
            assert_eq!(t.call(call.shared()), EFAULT, "{address:#x}");
        }
    }
}

fn private_word_may_be_read_only(m: &Machine) {
    let ([w, t], page) = (m.threads(), m.page(Rights::Read));
    assert_eq!(w.call(m.wait(page, 1).private()), EAGAIN);
    let waiting = w.begin(m.wait(page, 0).private());
    assert_eq!(t.call(m.wake(page, 1).private()), 1);
    assert_eq!(waiting.finish(), 0);
}

fn shared_word_must_be_mapped(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for address in [0, 4, m.page(Rights::Nothing)] {
        assert_eq!(t.call(m.wake(address, 1).shared()), EFAULT, "{address:#x}");
        assert_eq!(t.call(m.requeue(address, word, 1, 1).shared()), EFAULT, "{address:#x}");
        assert_eq!(t.call(m.requeue(word, address, 1, 1).shared()), EFAULT, "{address:#x}");
        assert_eq!(t.call(m.wake_bitset(address, 1, ANY).shared()), EFAULT, "{address:#x}");
    }
}

fn shared_word_in_private_memory_must_be_writable(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::Read));
    assert_eq!(t.call(m.wake(page, 1).shared()), EFAULT);
    assert_eq!(t.call(m.wait(page, 0).shared()), EFAULT);
    assert_eq!(t.call(m.wait(page, 1).shared()), EFAULT, "before the value is looked at");
    m.protect(page, Rights::ReadWrite);
    assert_eq!(t.call(m.wake(page, 1).shared()), 0);
}

fn shared_word_in_an_object_may_be_read_only(m: &Machine) {
    let ([w, t], page) = (m.threads(), m.object_page(Rights::Read));
    assert_eq!(w.call(m.wait(page, 1).shared()), EAGAIN);
    let waiting = w.begin(m.wait(page, 0).shared());
    assert_eq!(t.call(m.wake(page, 1).shared()), 1);
    assert_eq!(waiting.finish(), 0);
    // Operations that write to the word fail.
    assert_eq!(t.call(m.lock_pi(page).shared()), EFAULT);
    assert_eq!(t.call(m.trylock_pi(page).private()), EFAULT);
    let word = m.word(0);
    assert_eq!(t.call(m.wait_requeue_pi(word, 0, page).shared()), EFAULT);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, page, 0).shared()), EFAULT);
    assert_eq!(t.call(m.requeue(word, page, 1, 1).shared()), 0, "a requeue does not write");
}

fn private_and_shared_calls_use_different_keys(m: &Machine) {
    for word in [m.private_word(0), m.twin_words(0)[0]] {
        let [a, b, t] = m.threads();
        let private = a.begin(m.wait(word, 0).private());
        let shared = b.begin(m.wait(word, 0).shared());
        assert_eq!(t.call(m.wake(word, ALL).private()), 1);
        assert_eq!(private.finish(), 0);
        shared.stays_asleep();
        assert_eq!(t.call(m.wake(word, ALL).private()), 0);
        assert_eq!(t.call(m.wake(word, ALL).shared()), 1);
        assert_eq!(shared.finish(), 0);
    }
}

fn private_and_shared_lockers_use_different_keys(m: &Machine) {
    let ([owner, a, b], word) = (m.threads(), m.private_word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let private = a.begin(m.lock_pi(word).private());
    let shared = b.begin(m.lock_pi(word).shared());
    assert_eq!(owner.call(m.unlock_pi(word).shared()), 0);
    assert_eq!(shared.finish(), 0);
    private.stays_asleep();
    // The shared waiter has the lock. The private queue still has the first owner.
    assert_eq!(b.call(m.unlock_pi(word).private()), EINVAL);
    word.set(owner.tid());
    assert_eq!(owner.call(m.unlock_pi(word).private()), 0);
    assert_eq!(private.finish(), 0);
}

fn shared_object_is_one_at_both_of_its_addresses(m: &Machine) {
    let ([w, t], [here, there]) = (m.threads(), m.twin_words(0));
    assert_ne!(here, there);
    for (waits, wakes) in [(here, there), (there, here), (here, here)] {
        let waiting = w.begin(m.wait(waits, 0).shared());
        assert_eq!(t.call(m.wake(Word(wakes.0 + 4), ALL).shared()), 0, "another word of it");
        assert_eq!(t.call(m.wake(wakes, ALL).private()), 0);
        assert_eq!(t.call(m.wake(wakes, ALL).shared()), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

fn private_calls_do_not_follow_objects(m: &Machine) {
    let ([w, t], [here, there]) = (m.threads(), m.twin_words(0));
    let waiting = w.begin(m.wait(here, 0).private());
    assert_eq!(t.call(m.wake(there, ALL).private()), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(here, ALL).private()), 1);
    assert_eq!(waiting.finish(), 0);
}

fn shared_lock_is_one_at_both_of_its_addresses(m: &Machine) {
    let ([owner, w, t], [here, there]) = (m.threads(), m.twin_words(0));
    assert_eq!(owner.call(m.lock_pi(here).shared()), 0);
    assert_eq!(t.call(m.trylock_pi(there).shared()), EAGAIN);
    let waiting = w.begin(m.lock_pi(there).shared());
    assert_eq!(owner.call(m.unlock_pi(here).shared()), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(w.call(m.unlock_pi(here).shared()), 0);
    assert_eq!((here.get(), there.get()), (0, 0));
}

fn requeue_between_the_addresses_of_one_object(m: &Machine) {
    let ([w, t], [a, b], [c, d]) = (m.threads(), m.twin_words(0), m.twin_words(0));
    let waiting = w.begin(m.wait(a, 0).shared());
    assert_eq!(t.call(m.cmp_requeue(b, 0, d, 0, 1).shared()), 1);
    assert_eq!(t.call(m.wake(a, ALL).shared()), 0);
    assert_eq!(t.call(m.wake(c, ALL).shared()), 1);
    assert_eq!(waiting.finish(), 0);
    let waiting = w.begin(m.wait(a, 0).shared());
    assert_eq!(t.call(m.requeue(b, a, 0, 1).shared()), 1, "from a word to itself");
    assert_eq!(t.call(m.wake(b, ALL).shared()), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    misaligned_address_is_einval,
    address_outside_user_space_is_efault,
    private_wake_never_touches_memory,
    private_waiter_is_found_after_its_page_is_unmapped,
    wait_must_read_its_word,
    private_word_may_be_read_only,
    shared_word_must_be_mapped,
    shared_word_in_private_memory_must_be_writable,
    shared_word_in_an_object_may_be_read_only,
    private_and_shared_calls_use_different_keys,
    private_and_shared_lockers_use_different_keys,
    shared_object_is_one_at_both_of_its_addresses,
    private_calls_do_not_follow_objects,
    shared_lock_is_one_at_both_of_its_addresses,
    requeue_between_the_addresses_of_one_object,
];
