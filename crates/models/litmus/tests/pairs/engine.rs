//! The engine's own pairs. Paths are below `crates/ufutex/src`.

use super::Pair;

const QUEUE: &str = "The stronger one is for the queue that the lock guards";
const CALLER: &str = "The stronger one is for the caller's own data, [M]";

pub(super) const PAIRS: &[Pair] = &[
    // `futex/waiter.rs` `lock_and_compare` with `lock/state.rs`, and `futex/wake.rs` `nobody_waits`. State: 0 unlocked,
    // 1 locked, 2 unlocked with a waiter.
    Pair {
        name: "[A] and [B]: a waiter and a waker",
        code: &[
            (
                "ufutex/src/lock/state.rs",
                "lock_if_idle",
                &["compare_exchange(LIVE, LIVE | LOCKED, Ordering::Acquire, Ordering::Relaxed)"],
            ),
            (
                "ufutex/src/futex/waiter.rs",
                "lock_and_compare",
                &["self.lock_or_make(&place)", "wait_barrier(); // [A]", "target.load()", "drop(locked);"],
            ),
            ("ufutex/src/sync/barriers.rs", "wake_barrier", &["    fence(Ordering::SeqCst);\n}"]),
            ("ufutex/src/futex/key.rs", "load", &["Ok((**self).load(Ordering::Acquire)) // [M]"]),
            ("ufutex/src/lock/state.rs", "unlock", &["self.state.store(next, Ordering::Release); // [E]"]),
            (
                "ufutex/src/futex/wake.rs",
                "nobody_waits",
                &["wake_barrier(); // [B]", "proves_empty(&self.tables", "Bucket::proves_empty"],
            ),
            ("ufutex/src/table/bucket.rs", "proves_empty", &["self.lock.peek(Ordering::Acquire) == LIVE // [E]"]),
        ],
        init: "word = 0, state = 0",
        program: "
        waiter                              | waker
        state: 0 -> 1 acq      [E lock]     | word = 1
        fence sc               [A]          | fence sc               [B]
        seen = word acq        [M]          | found = state acq      [E look]
        if seen == 0: state = 2 rel [E unlock] |",
        forbidden: "seen == 0 && found == 0",
        needed: &["A", "B"],
        kept: &[
            ("E lock", "rlx", QUEUE),
            ("M", "rlx", CALLER),
            ("E unlock", "rlx", QUEUE),
            ("E look", "rlx", "The stronger one keeps the second load of the number of moves, [G], behind this one"),
        ],
    },
    // `table/tables.rs` `publish` and `current`. State: 9 as the memory was before the table was made.
    Pair {
        name: "[A], [B] and [F]: the first table",
        code: &[
            (
                "ufutex/src/table/tables.rs",
                "publish",
                &["Ordering::Release); // [F]", "self.next.store(null_mut(), Ordering::Release); // [F]"],
            ),
            ("ufutex/src/table/tables.rs", "current", &["Current::from_raw(self.current.load(Ordering::Acquire))"]),
        ],
        init: "word = 0, current = 0, state = 9",
        program: "
        waiter                              | waker
        state = 0 na                        | word = 1
        current = 1 rel        [F publish]  | fence sc               [B]
        state: 0 -> 1 acq      [E lock]     | table = current acq    [F look]
        fence sc               [A]          | if table == 1: found = state acq [E look]
        seen = word acq        [M]          |",
        forbidden: "seen == 0 && table == 0 || seen == 0 && table == 1 && found == 0 || table == 1 && found == 9",
        needed: &["F publish", "F look", "A", "B"],
        kept: &[("E lock", "rlx", QUEUE), ("M", "rlx", CALLER), ("E look", "rlx", "As above")],
    },
    // `table/mover.rs`, a step of `live`. A bucket: 0 not live, 2 live, 3 live and locked, 6 live with a waiter.
    Pair {
        name: "[A], [B] and [E]: the empty check with a stale table",
        code: &[
            (
                "ufutex/src/lock/state.rs",
                "make_live",
                &["self.state.store(self.held_state() | LIVE, Ordering::Release);"],
            ),
            (
                "ufutex/src/table/mover.rs",
                "private_to_private",
                &["lock_all(from, sources", "source.pass(", "make_live()", "retire()"],
            ),
        ],
        init: "word = 0, old = 2, new = 0",
        program: "
        mover                     | waiter                        | waker
        old: 2 -> 3 acq  [E lock] | new: 2 -> 3 acq [E lock new]  | word = 1
        new = 2 rel      [E live] | fence sc        [A]           | fence sc        [B]
        old = 0 rel    [E retire] | seen = word acq [M]           | found = old acq [E look]",
        forbidden: "seen == 0 && found == 2",
        needed: &["E live", "A", "B"],
        kept: &[
            (
                "E lock new",
                "rlx",
                "The stronger one is for the queue. For this outcome [A], behind it, acquires as well",
            ),
            ("E lock", "rlx", QUEUE),
            ("E retire", "rlx", "The stronger one is for a thread that locks the bucket when it is live again"),
            ("M", "rlx", CALLER),
            ("E look", "rlx", "As above"),
        ],
    },
    // `lock/state.rs` `unlock` and `lock_after`.
    Pair {
        name: "[C] and [D]: the contended lock, as the models have it",
        code: &[
            (
                "ufutex/src/lock/state.rs",
                "unlock",
                &[
                    "self.state.store(next, Ordering::Release); // [E]",
                    "light_barrier(); // [D]",
                    "let slept = self.contended.load(Ordering::Relaxed) != 0",
                ],
            ),
            ("ufutex/src/sys/park.rs", "raise_to", &["self.word.fetch_or(bits, order)"]),
            (
                "ufutex/src/lock/state.rs",
                "lock_after",
                &[
                    "self.contended.raise_to(mark, Ordering::Relaxed)",
                    "heavy_barrier(); // [C]",
                    "self.attempt(on, mark)",
                    "self.contended.park(",
                ],
            ),
            ("ufutex/src/lock/state.rs", "heavy_barrier", &["    fence(Ordering::SeqCst); // [C]\n"]),
            (
                "ufutex/src/lock/state.rs",
                "light_barrier",
                // In a model it is a fence.
                &["    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);\n"],
            ),
        ],
        init: "state = 1, contended = 0",
        program: "
        holder                              | contender
        state = 0 rel          [E unlock]   | contended <- 1
        fence sc               [D]          | fence sc               [C]
        seen = contended                    | found = state",
        forbidden: "seen == 0 && found == 1",
        needed: &["D", "C"],
        kept: &[("E unlock", "rlx", QUEUE)],
    },
    // `schemes/count.rs`. The bias is 4, FROZEN 16.
    Pair {
        name: "[H]: the work under a reference, and the pivot after it",
        code: &[
            (
                "models/seam/files/schemes/schemes/count.rs",
                "get",
                &["self.count.fetch_add(1, Ordering::Acquire) & FROZEN"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "put",
                &["self.count.fetch_sub(1, Ordering::Release) == 1", "self.freeze()"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "remove_bias",
                &["self.count.fetch_sub(BIAS, Ordering::Release) == BIAS", "self.freeze()"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "freeze",
                &["compare_exchange(0, FROZEN, Ordering::Acquire, Ordering::Relaxed)"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "is_frozen",
                &["self.count.load(Ordering::Acquire) & FROZEN != 0"],
            ),
        ],
        init: "count = 4, queue = 0",
        program: "
        user                                | mover
        got = count += 1 acq   [H get]      | old = count += -4 rel  [H remove_bias]
        if got == 4: queue = 1 na           | if old == 4: try count: 0 -> 16 acq [H freeze]
        last = count += -1 rel [H put]      | await count == 16 acq  [H is_frozen]
        if last == 1: try count: 0 -> 16 acq [H freeze by user] | seen = queue na",
        forbidden: "got == 4 && seen == 0",
        needed: &["H put", "H is_frozen"],
        kept: &[
            ("H get", "rlx", "The stronger one is for the table that was published before a thaw, below"),
            ("H remove_bias", "rlx", "Not needed: an operation that counts itself after it finds the same table"),
            ("H freeze", "rlx", "Not needed: the mover loads the frozen count with Acquire in any case"),
            ("H freeze by user", "rlx", "Not needed: the exchange continues the release sequence of each `put`"),
        ],
    },
    Pair {
        name: "[H]: two users, of which the second freezes the count",
        code: &[
            (
                "models/seam/files/schemes/schemes/count.rs",
                "put",
                &["self.count.fetch_sub(1, Ordering::Release) == 1", "self.freeze()"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "freeze",
                &["compare_exchange(0, FROZEN, Ordering::Acquire, Ordering::Relaxed)"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "is_frozen",
                &["self.count.load(Ordering::Acquire) & FROZEN != 0"],
            ),
        ],
        init: "count = 2, queue = 0",
        program: "
        first user                  | second user                 | mover
        queue = 1 na                |                             |
        a = count += -1 rel [H put] | b = count += -1 rel [H put second] | await count == 16 acq [H is_frozen]
                                    | if b == 1: try count: 0 -> 16 acq [H freeze] | seen = queue na",
        forbidden: "b == 1 && seen == 0",
        needed: &["H put", "H is_frozen"],
        kept: &[
            ("H put second", "rlx", "The stronger one is for this user's work, as the first user's is"),
            ("H freeze", "rlx", "As above"),
        ],
    },
    Pair {
        name: "[H]: the pivot, and references after it",
        code: &[
            (
                "models/seam/files/schemes/schemes/count.rs",
                "get",
                &["self.count.fetch_add(1, Ordering::Acquire) & FROZEN", "self.count.fetch_sub(1, Ordering::Relaxed);"],
            ),
            (
                "models/seam/files/schemes/schemes/count.rs",
                "thaw",
                &["self.count.fetch_sub(FROZEN - BIAS, Ordering::Release)"],
            ),
        ],
        init: "count = 17, current = 1",
        program: "
        mover                     | late user                     | user
        current = 2 rel [F]       | count += -1                   | got = count += 1 acq [H get]
        count += -12 rel [H thaw] |                               | table = current acq [F look]",
        forbidden: "got == 4 && table == 1",
        needed: &["H thaw", "H get"],
        kept: &[
            ("F", "rlx", "The stronger one is for the table's memory, in the schemes that count nothing"),
            ("F look", "rlx", "As the store"),
        ],
    },
    // `schemes/percpu.rs` `resize`: the sum of the CPUs' counters is added while the bias is on.
    Pair {
        name: "[H]: a reference that a CPU's counter counted, given back to the count",
        code: &[
            (
                "models/seam/files/schemes/schemes/count.rs",
                "add",
                &["self.count.fetch_add(references, Ordering::AcqRel)"],
            ),
            (
                "models/seam/files/schemes/schemes/percpu.rs",
                "resize",
                &[
                    "self.count.add(self.cpus.close() as u64);\n        self.count.remove_bias();",
                    "wait_until_frozen(",
                    "move_all(",
                    "tables.end(plan)",
                    "self.count.thaw()",
                ],
            ),
        ],
        init: "count = 4, queue = 0",
        program: "
        user                                | mover
        queue = 1 na                        | count += 1 acqrel      [H add]
        last = count += -1 rel [H put]      | old = count += -4 rel  [H remove_bias]
        if last == 1: try count: 0 -> 16 acq [H freeze by user] | if old == 4: try count: 0 -> 16 acq [H freeze]
                                            | await count == 16 acq  [H is_frozen]
                                            | seen = queue na",
        forbidden: "seen == 0",
        needed: &["H put", "H is_frozen"],
        kept: &[
            ("H add", "rlx", "Not needed: it continues the release sequence of each `put`"),
            ("H remove_bias", "rlx", "As above"),
            ("H freeze", "rlx", "As above"),
            ("H freeze by user", "rlx", "As above"),
        ],
    },
    // `schemes/cpu_counter.rs` and `rseq.rs`.
    Pair {
        name: "[I]: \"closed\", and the sum over the CPUs' counters",
        code: &[
            (
                "models/seam/files/schemes/schemes/cpu_counter.rs",
                "close",
                &[
                    "counters.state.store(CLOSED, Ordering::SeqCst); // [I]",
                    "rseq::restart_sequences()",
                    "slot.taken.swap(0, Ordering::AcqRel)",
                    "slot.returned.swap(0, Ordering::AcqRel)",
                ],
            ),
            (
                "models/seam/files/schemes/schemes/rseq.rs",
                "$name",
                &["str {v}, [{rs}, #8]", "ldar {v:w}, [{this}]", "[{this}, #16]", "str {v}, [{slot}, #"],
            ),
        ],
        init: "closed = 0, taken = 0, returned = 0, queue = 0",
        program: "
        user                                | mover
        open = closed acq      [I look]     | closed = 1 sc          [I close]
        .. if open == 0: taken = 1          | membarrier             [I]
        if open == 0: queue = 1             | t = taken <- 0 acqrel  [I sum taken]
        back = closed acq      [I look back] | r = returned <- 0 acqrel [I sum returned]
        .. if back == 0: returned = 1       | seen = queue",
        forbidden: "open == 0 && t == 0 || open == 0 && r == 1 && seen == 0",
        needed: &["I"],
        kept: &[
            ("I look", "rlx", "The stronger one is for the table that was published before \"open\", below"),
            ("I look back", "rlx", "The instructions are those of the first sequence"),
            ("I close", "rlx", "Not needed: the call is a barrier for the caller too"),
            ("I sum taken", "rlx", "Not needed: the call orders what came before it in other threads"),
            ("I sum returned", "rlx", "As that one"),
        ],
    },
    Pair {
        name: "[I]: \"open\", and the table that was published before it",
        code: &[(
            "models/seam/files/schemes/schemes/cpu_counter.rs",
            "open",
            &["counters.state.store(OPEN, Ordering::Release);"],
        )],
        init: "closed = 1, current = 1",
        program: "
        mover                               | user
        current = 2 rel        [F]          | open = closed acq      [I look]
        closed = 0 rel         [I open]     | table = current acq    [F look]",
        forbidden: "open == 0 && table == 1",
        needed: &["I open", "I look"],
        kept: &[("F", "rlx", "The stronger one is for the table's memory"), ("F look", "rlx", "As the store")],
    },
    // `signal/mod.rs` `wake`, `is_woken`; `sys/park.rs` `swap_and_wake`.
    Pair {
        name: "[J]: the wake, and whose memory it is",
        code: &[
            (
                "ufutex/src/signal/mod.rs",
                "wake",
                &["Parker::store(&*state, WOKEN, Ordering::Release) }; // [J]\n        pending"],
            ),
            (
                "ufutex/src/sys/park.rs",
                "swap_and_wake",
                &["(*word).swap(value, Ordering::Release) }; // [J]", "on.unpark(word"],
            ),
            ("ufutex/src/signal/mod.rs", "is_woken", &["self.state.load(Ordering::Acquire) == WOKEN // [J]"]),
        ],
        init: "entry = 1, data = 0, woken = 0",
        program: "
        waker                               | waiter
        data = 1 na                         | await woken == 1 acq   [J load]
        last = entry na                     | seen = data na
        woken = 1 rel          [J store]    | entry = 2 na",
        forbidden: "last == 2 || seen == 0",
        needed: &["J store", "J load"],
        kept: &[],
    },
    // `signal/mod.rs` `call_lent`; `futex/waiter.rs` `cancel`. 1: CALLING, 2: WOKEN.
    Pair {
        name: "[J]: a waker that was lent",
        code: &[
            ("ufutex/src/signal/mod.rs", "wake", &["Parker::store(&*state, CALLING, Ordering::Release); // [J]"]),
            (
                "ufutex/src/signal/mod.rs",
                "call_lent",
                &[
                    "Receiver::TAKEN",
                    "Otherwise::new(",
                    "Parker::store(&*state, WOKEN, Ordering::Release)",
                    "waker.wake();",
                ],
            ),
            ("ufutex/src/signal/mod.rs", "is_notified", &["self.state.load(Ordering::Acquire) != WAITING // [J]"]),
        ],
        init: "rest = 1, frame = 1, woken = 0",
        program: "
        waker                               | waiter
        read = rest na                      | early = woken acq      [J is_notified]
        woken = 1 rel          [J calling]  | if early == 1: rest = 2 na
        call = frame na                     | await woken == 2 acq   [J is_woken]
        woken = 2 rel          [J woken]    | frame = 2 na",
        forbidden: "read == 2 || call == 2",
        needed: &["J calling", "J woken", "J is_notified", "J is_woken"],
        kept: &[],
    },
    // `table/node.rs` `bucket`, `set_bucket`: the bucket is in a table that the waiter may never have seen.
    Pair {
        name: "[K]: which bucket am I in",
        code: &[
            ("ufutex/src/table/node.rs", "bucket", &["self.bucket.load(Ordering::Acquire)"]),
            ("ufutex/src/table/node.rs", "set_bucket", &["self.bucket.store(bucket, Ordering::Release); // [K]"]),
        ],
        init: "memory = 9, bucket = 1",
        program: "
        mover                               | waiter
        memory = 0 na                       | place = bucket acq     [K load]
        bucket = 2 rel         [K store]    | if place == 2: found = memory na",
        forbidden: "place == 2 && found == 9",
        needed: &["K store", "K load"],
        kept: &[],
    },
    // `sys/counted.rs` `drop`.
    Pair {
        name: "[L]: every use before the memory goes",
        code: &[
            ("ufutex/src/sys/counted.rs", "drop", &["handles.fetch_sub(1, Ordering::Release) == 1", "self.free()"]),
            (
                "ufutex/src/sys/counted.rs",
                "free",
                &["handles.load(Ordering::Acquire); // [L]", "drop_in_place()", "dealloc("],
            ),
        ],
        init: "handles = 2, value = 1",
        program: "
        one owner                           | the other
        a = value na                        | b = value na
        c = handles += -1 rel  [L sub]      | d = handles += -1 rel  [L sub other]
        if c == 1: handles_c = handles acq [L load] | if d == 1: handles_d = handles acq [L load other]
        if c == 1: value = 2 na             | if d == 1: value = 2 na",
        forbidden: "a == 2 || b == 2",
        needed: &["L sub", "L load", "L sub other", "L load other"],
        kept: &[],
    },
    // `futex/key.rs` `load`, `compare_exchange`.
    Pair {
        name: "[M]: the caller's data behind a word that has changed",
        code: &[("ufutex/src/futex/key.rs", "load", &["Ok((**self).load(Ordering::Acquire)) // [M]"])],
        init: "data = 0, word = 0",
        program: "
        caller of a wake                    | caller of a wait
        data = 1 na                         | seen = word acq        [M]
        word = 1 rel                        | if seen == 1: read = data na",
        forbidden: "seen == 1 && read == 0",
        needed: &["M"],
        kept: &[],
    },
    Pair {
        name: "[P]: the work of a lock's last owner",
        code: &[(
            "ufutex/src/futex/key.rs",
            "compare_exchange",
            &["compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)) // [M], [P]"],
        )],
        init: "data = 0, word = 5",
        program: "
        owner 5                             | owner 6
        data = 1 na                         | word: 0 -> 6 acqrel    [P lock]
        word: 5 -> 0 acqrel    [P unlock]   | read = data na",
        forbidden: "read == 0",
        needed: &[],
        kept: &[("P lock", "acq", "One function locks, unlocks and hands over"), ("P unlock", "rel", "As that one")],
    },
    // `sys/park.rs` `raise`, `take_down`; `signal/sleeper.rs`. 1: NOTIFIED.
    Pair {
        name: "[N]: a sleeper that clears NOTIFIED finds its entry taken",
        code: &[
            ("ufutex/src/sys/park.rs", "raise", &["self.word.fetch_or(bits, Ordering::AcqRel); // [N]"]),
            ("ufutex/src/sys/park.rs", "take_down", &["self.word.fetch_and(!bits, Ordering::AcqRel) // [N]"]),
        ],
        init: "bucket = 1, other = 1, word = 0",
        program: "
        one waker                 | another                       | sleeper
        bucket = 0                | other = 0                     | before = word <- 0 acqrel [N take_down]
        word <- 1 acqrel [N raise] | word <- 1 acqrel [N raise other] | a = bucket
                                  |                               | b = other",
        forbidden: "before == 1 && word == 0 && a == 1 || before == 1 && word == 0 && b == 1",
        needed: &[],
        kept: &[
            ("N raise", "rel", "The other half is for the platform that an interrupt reads, below"),
            ("N raise other", "rel", "As that one"),
            ("N take_down", "acq", "The other half is for the platform that an interrupt reads, below"),
        ],
    },
    // `signal/sleeper.rs` `occupy`, `interrupt`. 2: INTERRUPTED.
    Pair {
        name: "[N]: an interrupt reads the sleeper's platform",
        code: &[
            (
                "ufutex/src/signal/sleeper.rs",
                "occupy",
                &["self.word.raise_to(IN_USE, Ordering::Acquire)", "self.on.store(on.into_raw(), Ordering::Relaxed);"],
            ),
            ("ufutex/src/signal/sleeper.rs", "raise", &["self.word.raise(bits, SPINNING, || self.platform())"]),
            ("ufutex/src/sys/park.rs", "raise", &["self.word.fetch_or(bits, Ordering::AcqRel); // [N]", "on: on()"]),
        ],
        init: "platform = 0, word = 1",
        program: "
        sleeper                             | interrupt
        platform = 1                        | word <- 2 acqrel       [N raise]
        before = word <- 0 acqrel [N take_down] | found = platform",
        forbidden: "before == 1 && found == 0 && word == 2",
        needed: &[],
        kept: &[
            ("N take_down", "rel", "The other half is for the entry that a waker has taken, above"),
            ("N raise", "acq", "The other half is for the entry that a waker has taken, above"),
        ],
    },
    // `signal/sleeper.rs` `occupy`, `platform`.
    Pair {
        name: "[N]: the next user of a sleeper",
        code: &[
            ("ufutex/src/signal/sleeper.rs", "occupy", &["self.word.take_down(IN_USE | CLEARED))) // [N]"]),
            (
                "ufutex/src/signal/sleeper.rs",
                "occupy",
                &["self.word.raise_to(IN_USE, Ordering::Acquire)", "self.on.store(on.into_raw(), Ordering::Relaxed);"],
            ),
            ("ufutex/src/signal/sleeper.rs", "platform", &["self.on.load(Ordering::Relaxed)"]),
        ],
        init: "platform = 0, in_use = 1",
        program: "
        first user                          | next user
        platform = 1                        | in_use: 0 -> 1 acq     [N occupy]
        in_use <- 0 acqrel     [N end]      | platform = 2
                                            | found = platform",
        forbidden: "found == 1",
        needed: &["N end", "N occupy"],
        kept: &[("N end", "rel", "The other half is for the entry that a waker has taken, above")],
    },
    // `timer/ids.rs` `remove`: a link over a timer that is taken out. The group's lock: 0 to 1 held, 2 free, 3 held.
    Pair {
        name: "[R]: a link over a timer that is taken out",
        code: &[(
            "ufutex/src/timer/ids.rs",
            "remove",
            &[
                "link.store(timer.next.load(Ordering::Relaxed), Ordering::Release); // [R]",
                "timer.next.store(ptr::null_mut()",
            ],
        )],
        init: "timer = 9, lock = 0, next_of_removed = 0, next = 1",
        program: "
        maker of the next timer   | remover                       | look-up
        timer = 0 na              | lock: 2 -> 3 acq     [E lock] | found = next acq [R load]
        next_of_removed = 2 rel [R put] | link = next_of_removed  | if found == 2: state = timer na
        lock = 2 rel   [E unlock] | next = link rel    [R remove] |",
        forbidden: "found == 2 && state == 9",
        needed: &["E unlock", "E lock", "R remove", "R load"],
        kept: &[("R put", "rlx", "The stronger one is for a look-up that stands on the timer which is taken out")],
    },
    // `timer/ids.rs` `put`: A is taken out and made again while a look-up stands on it. Its successor is now B, in
    // memory that the look-up has not seen. The group's lock: 0 to 1 held, 2 free, 3 held.
    Pair {
        name: "[R]: a timer that is put before another, and a look-up that stands on it",
        code: &[(
            "ufutex/src/timer/ids.rs",
            "put",
            &["timer.next.store(first, Ordering::Release); // [R]", "slot.store("],
        )],
        init: "b = 9, lock = 0, slot = 0, next_of_a = 0",
        program: "
        maker of B               | makes A again                        | look-up on A
        b = 0 na                 | lock: 2 -> 3 acq            [E lock] | found = next_of_a acq [R load]
        slot = 2 rel    [R put]  | first = slot                         | if found == 2: state = b na
        lock = 2 rel  [E unlock] | next_of_a = first rel [R successor]  |",
        forbidden: "found == 2 && state == 9",
        needed: &["E unlock", "E lock", "R successor", "R load"],
        kept: &[("R put", "rlx", "The stronger one is for a look-up that loads the slot")],
    },
    // `timer/ids.rs` `move_group`: a timer that is made after the larger table was announced, and moved there with its
    // block. The look-up looks into the larger table before its group is live. The lock of the group in the smaller
    // table: 0 to 1 held, 2 free, 3 held.
    Pair {
        name: "[R]: a block that is moved to a larger table",
        code: &[(
            "ufutex/src/timer/ids.rs",
            "move_group",
            &["to.store(slot.load(Ordering::Relaxed), Ordering::Release); // [R]", "slot.store(ptr::null_mut()"],
        )],
        init: "timer = 9, lock = 0, old_slot = 0, new_slot = 0",
        program: "
        maker of the timer         | mover                          | look-up
        timer = 0 na               | lock: 2 -> 3 acq      [E lock] | found = new_slot acq [R load]
        old_slot = 1 rel [R put]   | head = old_slot                | if found == 1: state = timer na
        lock = 2 rel    [E unlock] | new_slot = head rel   [R move] |",
        forbidden: "found == 1 && state == 9",
        needed: &["E unlock", "E lock", "R move", "R load"],
        kept: &[("R put", "rlx", "The stronger one is for a look-up in the smaller table")],
    },
    // `timer/ids.rs` `note_timers`: one thread makes the larger table and announces it, and another, which holds the lock
    // `growth` later, publishes it. The lock: 0 to 1 held, 2 free, 3 held.
    Pair {
        name: "[S]: a larger table of IDs, announced by one thread and published by another",
        code: &[(
            "ufutex/src/timer/ids.rs",
            "note_timers",
            &[
                "self.growth.try_lock()",
                "growth.make(",
                "self.next.store(next.into_word(), Ordering::Release); // [S]",
                "self.move_group(",
                "self.current.store(next.into_word(), Ordering::Release); // [S]",
            ],
        )],
        init: "table = 9, lock = 0, next = 0, current = 0",
        program: "
        makes the table           | moves the last group           | look-up
        table = 0 na              | lock: 2 -> 3 acq      [E lock] | first = current acq        [S first look]
        next = 1 rel [S announce] | seen = next                    | if first == 1: there = table na
        lock = 2 rel   [E unlock] | current = seen rel [S publish] | second = next acq          [S second look]
                                  |                                | if second == 1: here = table na",
        forbidden: "first == 1 && there == 9 || second == 1 && here == 9",
        needed: &["S announce", "E unlock", "E lock", "S publish", "S first look", "S second look"],
        kept: &[],
    },
    // `table/tables.rs` `settle_on`: a domain without a table of its own takes the global table of the node that
    // its first waiter runs on. Of two waiters on two nodes the second one's exchange fails, which makes it a load.
    Pair {
        name: "[F]: two nodes' global tables, of which a domain takes one",
        code: &[(
            "ufutex/src/table/tables.rs",
            "settle_on",
            &[
                "let settled = self.table.compare_exchange(null_mut(), table.into_raw(), Ordering::Release, Ordering::Acquire); // [F]",
            ],
        )],
        init: "bucket = 9, table = 0",
        program: "
        first waiter                            | waiter on another node
        bucket = 0 na                           | found = table acq      [F settle fails]
        first = try table: 0 -> 1 rel [F settle] | if found == 1: state = bucket na",
        forbidden: "found == 1 && state == 9",
        needed: &["F settle", "F settle fails"],
        kept: &[],
    },
    // `futex/objects.rs` `make_table`, `table`: an object takes the place of another one, whose table its thread has not
    // seen. State: 1 taken, 2 free, 3 taken again.
    Pair {
        name: "[F]: the table of an object's place, and the next object there",
        code: &[
            (
                "ufutex/src/futex/objects.rs",
                "make_table",
                &[
                    "make(SMALLEST_LOG2",
                    "make_all_live(table);",
                    "compare_exchange(null_mut(), table.into_raw(), Ordering::Release, Ordering::Relaxed)",
                ],
            ),
            (
                "ufutex/src/futex/objects.rs",
                "try_take",
                &["compare_exchange(state, state | TAKEN, Ordering::Relaxed, Ordering::Relaxed)"],
            ),
            ("ufutex/src/futex/objects.rs", "table", &["table.load(Ordering::Acquire); // [F]"]),
        ],
        init: "bucket = 9, table = 0, state = 1",
        program: "
        makes an object, and drops it       | makes another, and waits there
        bucket = 0 na                       | state: 2 -> 3
        table: 0 -> 1 rel      [F make]     | found = table acq      [F look]
        state: 1 -> 2                       | if found == 1: there = bucket na",
        forbidden: "found == 1 && there == 9",
        needed: &["F make", "F look"],
        kept: &[],
    },
    // `futex/seat.rs` `give_back_behind_lock`, `take`. Seats have the numbers 1 and 2.
    Pair {
        name: "[X]: two seats that are given back, and the thread that takes both",
        code: &[
            (
                "ufutex/src/futex/seat.rs",
                "give_back_behind_lock",
                &[
                    "seat.write(Seat { next, member })",
                    "self.returned.compare_exchange(next, seat.as_ptr(), Ordering::Release, Ordering::Relaxed)",
                ],
            ),
            (
                "ufutex/src/futex/seat.rs",
                "take",
                &["returned.swap(ptr::null_mut(), Ordering::Acquire); // [X]", "seat.read()"],
            ),
        ],
        init: "behind_1 = 9, behind_2 = 9, returned = 0",
        program: "
        gives back seat 1             | gives back seat 2             | takes both
        behind_1 = 0 na               | behind_2 = 1 na               | first = returned <- 0 acq [X take]
        returned: 0 -> 1 rel [X give] | returned: 1 -> 2 rel [X give before] | if first == 2: next = behind_2 na
                                      |                               | if first == 2: last = behind_1 na",
        forbidden: "first == 2 && next == 9 || first == 2 && last == 9",
        needed: &["X give", "X give before", "X take"],
        kept: &[],
    },
    // `signal/group.rs` `sleep_in_group`; `sys/park.rs` `count_and_wake`. The kernel's own look at the count comes later.
    Pair {
        name: "[Y]: the count of a group's wakes, and a member's signal",
        code: &[
            (
                "ufutex/src/signal/mod.rs",
                "wake",
                &["Receiver::Member(members) =>", "Parker::swap(&*state, WOKEN) };", "Action::WakeMembers(members)"],
            ),
            (
                "ufutex/src/sys/park.rs",
                "count_and_wake",
                &["self.word.fetch_add(1, Ordering::Release); // [Y]", "host::unpark("],
            ),
            (
                "ufutex/src/signal/group.rs",
                "sleep_in_group",
                &["wakes.load(Ordering::Acquire); // [Y]", "if self.is_woken() {", "wakes.park_with(before"],
            ),
        ],
        init: "woken = 0, count = 0",
        program: "
        waker                     | waker of another member       | member
        woken = 1 rel [J store]   | count += 1 rel [Y other]      | before = count acq   [Y load]
        count += 1 rel [Y count]  |                               | seen = woken acq     [J look]",
        forbidden: "before == 2 && seen == 0",
        needed: &["Y count", "Y load"],
        kept: &[
            ("J store", "rlx", "The stronger one is for the entry's memory, [J]"),
            ("Y other", "rlx", "The stronger one is for the members that this waker wakes"),
            ("J look", "rlx", "As the store"),
        ],
    },
];
