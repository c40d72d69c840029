//! Pairs of the crates around the engine: those that rest on SeqCst, on membarrier(2), or on a release sequence.

use super::Pair;

pub(super) const PAIRS: &[Pair] = &[
    // `capi/src/bell.rs` `ring`, `take_ring`. The late waker is one of an earlier wait.
    Pair {
        name: "[Ca]: a wake, and the poll after it",
        code: &[
            (
                "capi/src/bell.rs",
                "ring",
                &[
                    "self.rung.swap(1, AcqRel) == 1",
                    "self.calls.run(",
                    "self.disarmed.load(SeqCst) == 0",
                    "self.sound()",
                ],
            ),
            ("capi/src/bell.rs", "take_ring", &["self.rung.swap(0, Acquire) != 0 // [Ca]"]),
        ],
        init: "woken = 0, rung = 0",
        program: "
        waker                     | late waker                    | waiter
        woken = 1 rel [J]         | late = rung <- 1 acqrel [Ca late] | ring = rung <- 0 acq [Ca take]
        rang = rung <- 1 acqrel [Ca ring] |                       | polled = woken acq [J load]",
        forbidden: "ring == 1 && rung == 0 && polled == 0",
        needed: &["Ca take"],
        kept: &[
            ("J", "rlx", "The stronger one is for the entry's memory, [J]"),
            ("Ca ring", "rel", "The Acquire is not needed, as ORDERING.md says"),
            ("Ca late", "rlx", "Any ring may be the one that the waiter needs"),
            ("J load", "rlx", "The stronger one is for the entry's memory, [J]"),
        ],
    },
    // `capi/src/bell.rs` `Calls`, `ring`, `disarm`.
    Pair {
        name: "[Cb] and [Cc]: no callback after the end",
        code: &[
            (
                "capi/src/bell.rs",
                "run_with",
                &["self.0.fetch_add(1, SeqCst);", "look() {", "f(found);", "self.0.fetch_sub(1, Release); // [Cc]"],
            ),
            (
                "capi/src/bell.rs",
                "ring",
                &[
                    "self.rung.swap(1, AcqRel) == 1",
                    "self.calls.run(",
                    "self.disarmed.load(SeqCst) == 0",
                    "self.sound()",
                ],
            ),
            (
                "capi/src/bell.rs",
                "disarm",
                &["self.disarmed.store(1, SeqCst); // [Cb]", "self.calls.wait_for_others();"],
            ),
            ("capi/src/bell.rs", "wait_for_others", &["while self.0.load(SeqCst) > own"]),
        ],
        init: "calls = 0, disarmed = 0, context = 1",
        program: "
        ring                                | the thread that ends the wait
        calls += 1 sc          [Cb count]   | disarmed = 1 sc        [Cb disarm]
        d = disarmed sc        [Cb look]    | await calls == 0 sc    [Cb wait]
        if d == 0: c = context na           | context = 2 na
        calls += -1 rel        [Cc]         |",
        forbidden: "c == 2",
        needed: &["Cb count", "Cb look", "Cc", "Cb disarm", "Cb wait"],
        kept: &[],
    },
    // `capi/src/bell.rs` `OneByOne`; `objects.rs` `interrupt`, `drop`. `ringing`: 0 nobody, 2 the thread.
    Pair {
        name: "[Cb] and [Cc]: an interrupt that rings, and the end of the wait",
        code: &[
            (
                "capi/src/bell.rs",
                "call",
                &[
                    "self.0.fetch_update(SeqCst, SeqCst, enter) != Ok(0)",
                    "f();",
                    "self.0.compare_exchange(own, 0, Release, Relaxed).is_ok()",
                ],
            ),
            ("capi/src/objects.rs", "interrupt", &["self.bell.load(SeqCst)"]),
            (
                "capi/src/objects.rs",
                "drop",
                &["self.task.bell.store(core::ptr::null_mut(), SeqCst); // [Cb]", "wait_for_others();"],
            ),
            ("capi/src/bell.rs", "wait_for_others", &["matches!(self.0.load(SeqCst) & !AGAIN,"]),
        ],
        init: "ringing = 0, bell = 1, memory = 1",
        program: "
        interrupt                           | the thread that ends the wait
        ringing: 0 -> 2 sc     [Cb enter]   | bell = 0 sc            [Cb remove]
        found = bell sc        [Cb look]    | await ringing == 0 sc  [Cb wait]
        if found == 1: used = memory na     | memory = 2 na
        ringing: 2 -> 0 rel    [Cc]         |",
        forbidden: "used == 2",
        needed: &["Cb enter", "Cb look", "Cc", "Cb remove", "Cb wait"],
        kept: &[],
    },
    // `OneByOne` again. `ringing`: 2 is the thread that rings, 3 is that thread with `AGAIN` set.
    Pair {
        name: "[Ce]: an interrupt that is left to a thread that rings",
        code: &[
            (
                "capi/src/objects.rs",
                "interrupt",
                &["interrupt().raise();", "fence(SeqCst);", "self.bell.load(SeqCst)", "self.ringing.call("],
            ),
            (
                "capi/src/bell.rs",
                "call",
                &[
                    "self.0.fetch_update(SeqCst, SeqCst, enter) != Ok(0)",
                    "f();",
                    "self.0.fetch_and(!AGAIN, Acquire); // [Ce]",
                ],
            ),
            (
                "capi/src/objects.rs",
                "new",
                &["compare_exchange(core::ptr::null_mut(), bell, SeqCst, SeqCst)", "fence(SeqCst); // [Ce]: between"],
            ),
        ],
        init: "raised = 0, ringing = 2, bell = 0, memory = 9",
        program: "
        interrupt                       | thread that rings             | wait
        raised <- 1 acqrel [N raise]    | ringing: 3 -> 2 acq [Ce again] | memory = 0 na
        fence sc           [Ce fence]   | found = bell sc    [Ce look]  | bell: 0 -> 1 sc [Ce bell]
        ringing: 2 -> 3 sc [Ce leave]   | if found == 1: made = memory na | fence sc      [Ce fence of wait]
                                        |                               | seen = raised acq [N look]",
        forbidden: "found == 0 && seen == 0 || found == 1 && made == 9",
        needed: &["Ce fence", "Ce again", "Ce fence of wait"],
        kept: &[
            ("N raise", "rlx", "The stronger one is for [N]"),
            ("Ce leave", "rlx", "The fence before it publishes. The stronger one is for [Cb]"),
            ("Ce look", "acq", "The stronger one is for [Cb], of which this load is one side"),
            ("Ce bell", "rel", "Acquire is not needed, and SeqCst only by the store of \"no bell\", [Cb]"),
            ("N look", "rlx", "The stronger one is for [N]"),
        ],
    },
    // `capi/src/objects.rs` `interrupt`, `Interruptible::new`.
    Pair {
        name: "[Ce]: an interrupt, and the task's bell",
        code: &[
            (
                "capi/src/objects.rs",
                "interrupt",
                &[
                    "interrupt().raise();",
                    "        fence(SeqCst);\n        // [Cb]",
                    "self.bell.load(SeqCst)",
                    "self.ringing.call(",
                ],
            ),
            (
                "capi/src/objects.rs",
                "new",
                &["compare_exchange(core::ptr::null_mut(), bell, SeqCst, SeqCst)", "fence(SeqCst); // [Ce]: between"],
            ),
        ],
        init: "raised = 0, bell = 0, memory = 9",
        program: "
        interrupt                           | wait
        raised <- 1 acqrel     [N raise]    | memory = 0 na
        fence sc               [Ce fence]   | bell: 0 -> 1 sc        [Ce bell]
        found = bell sc        [Ce look]    | fence sc               [Ce fence of wait]
        if found == 1: made = memory na     | seen = raised acq      [N look]",
        forbidden: "found == 0 && seen == 0 || found == 1 && made == 9",
        needed: &["Ce fence", "Ce fence of wait"],
        kept: &[
            ("N raise", "rlx", "The stronger one is for [N]"),
            ("Ce look", "acq", "The stronger one is for [Cb], of which this load is one side"),
            ("Ce bell", "rel", "Acquire is not needed, and SeqCst only by the store of \"no bell\", [Cb]"),
            ("N look", "rlx", "The stronger one is for [N]"),
        ],
    },
    // `capi/src/objects.rs` `interrupt`, `Interruptible::new`, `is_interrupted`.
    Pair {
        name: "[Ce]: an interrupt that is counted before the wait begins",
        code: &[
            (
                "capi/src/objects.rs",
                "interrupt",
                &["interrupt().raise();", "self.interrupts.fetch_add(1, Release); // [Ce]"],
            ),
            (
                "capi/src/objects.rs",
                "new",
                &["fence(SeqCst); // [Ce]: between", "task.interrupts.load(Acquire); // [Ce]"],
            ),
            (
                "capi/src/objects.rs",
                "is_interrupted",
                &["self.task.interrupts.load(Acquire) != self.interrupts || self.task.task.interrupt().is_raised()"],
            ),
        ],
        init: "raised = 0, interrupts = 0",
        program: "
        interrupt                           | wait
        raised <- 1 acqrel     [N raise]    | begun = interrupts acq [Ce begun]
        interrupts += 1 rel    [Ce count]   | seen = raised acq      [N look]",
        forbidden: "begun == 1 && seen == 0",
        needed: &["Ce count", "Ce begun"],
        kept: &[("N raise", "rlx", "The stronger one is for [N]"), ("N look", "rlx", "The stronger one is for [N]")],
    },
    // `capi/src/registry.rs` `of_slot`, `close`, `remove`. The handle is 1; 2: closing.
    Pair {
        name: "[Ch]: a user's count, and the mark",
        code: &[
            ("capi/src/registry.rs", "new", &["slot.users.fetch_add(1, SeqCst);"]),
            (
                "capi/src/registry.rs",
                "of_slot",
                &["Count::new(slot)", "|| slot.state.load(SeqCst) == handle {", "object(slot)"],
            ),
            ("capi/src/registry.rs", "close", &["compare_exchange(handle, handle | CLOSING, SeqCst, SeqCst)"]),
            (
                "capi/src/registry.rs",
                "remove",
                &[
                    "slot.close(handle)",
                    "holds::is_held(handle)",
                    "if is_held || !has_looked && slot.users.load(SeqCst) != 0",
                    "retire(",
                ],
            ),
            ("capi/src/registry.rs", "drop", &["self.0.users.fetch_sub(1, SeqCst);"]),
        ],
        init: "users = 0, state = 1, object = 1",
        program: "
        user                                | thread that frees
        users += 1 sc          [Ch count]   | state: 1 -> 2 sc       [Ch mark]
        seen = state sc        [Ch look]    | await users == 0 sc    [Ch look for users]
        if seen == 1: used = object na      | object = 2 na
        users += -1 sc         [Cj]         |",
        forbidden: "used == 2",
        needed: &["Ch count", "Ch look", "Ch mark", "Ch look for users"],
        kept: &[("Cj", "rel", "Not needed, as ORDERING.md says of [Ch]")],
    },
    // `capi/src/holds.rs` `enter`, `leave`, `is_held`; `registry.rs` `close`. A record: 0 empty, 1 the handle.
    Pair {
        name: "[Ci] and [Cj]: a holder's record, and the mark, with membarrier(2)",
        code: &[
            ("capi/src/holds.rs", "enter", &["free.store(handle, Release);\n    light_barrier();"]),
            (
                "capi/src/registry.rs",
                "new",
                &["|| slot.state.load(Acquire) == handle {\n                // [Cg], and [Ci]"],
            ),
            ("capi/src/holds.rs", "leave", &["self.handles[index].store(0, Release);"]),
            (
                "capi/src/holds.rs",
                "is_held",
                &["fence(SeqCst); // [Ci]", "MEMBARRIER_CMD_PRIVATE_EXPEDITED", "held.load(Acquire) == handle)"],
            ),
        ],
        init: "record = 0, state = 1, object = 1",
        program: "
        user                                | thread that frees
        record = 1 rel         [Cj enter]   | state: 1 -> 2 sc       [Ch mark]
        compiler fence         [Ci light]   | fence sc               [Ci fence]
        seen = state acq                    | membarrier             [Ci]
        if seen == 1: used = object na      | await record == 0 acq  [Cj look]
        record = 0 rel         [Cj leave]   | object = 2 na",
        forbidden: "used == 2",
        needed: &["Ci light", "Cj leave", "Ci", "Cj look"],
        kept: &[
            ("Cj enter", "rlx", "The stronger one is for the object that was in the record before, below"),
            ("Ch mark", "rlx", "The stronger one is for [Ch]"),
            (
                "Ci fence",
                "none",
                "The call orders its own thread too. Where there is no such call, it is needed, below",
            ),
        ],
    },
    Pair {
        name: "[Ci] and [Cj]: a holder's record, and the mark, with fences",
        code: &[(
            "capi/src/holds.rs",
            "light_barrier",
            &["compiler_fence(SeqCst);\n    } else {\n        fence(SeqCst);"],
        )],
        init: "record = 0, state = 1, object = 1",
        program: "
        user                                | thread that frees
        record = 1 rel         [Cj enter]   | state: 1 -> 2 sc       [Ch mark]
        fence sc               [Ci light]   | fence sc               [Ci fence]
        seen = state acq                    | await record == 0 acq  [Cj look]
        if seen == 1: used = object na      | object = 2 na
        record = 0 rel         [Cj leave]   |",
        forbidden: "used == 2",
        needed: &["Ci light", "Cj leave", "Ci fence", "Cj look"],
        kept: &[
            ("Cj enter", "rlx", "The stronger one is for the object that was in the record before, below"),
            ("Ch mark", "rlx", "The stronger one is for [Ch]"),
        ],
    },
    Pair {
        name: "[Cj]: a record that another object is entered in",
        code: &[
            ("capi/src/holds.rs", "enter", &["free.store(handle, Release);"]),
            ("capi/src/holds.rs", "leave", &["self.handles[index].store(0, Release);"]),
            (
                "capi/src/holds.rs",
                "is_held",
                &["fence(SeqCst); // [Ci]", "MEMBARRIER_CMD_PRIVATE_EXPEDITED", "held.load(Acquire) == handle)"],
            ),
        ],
        init: "record = 1, object = 1",
        program: "
        user                                | thread that frees
        used = object na                    | seen = record acq      [Cj look]
        record = 0 rel         [Cj leave]   | if seen != 1: object = 2 na
        record = 3 rel         [Cj enter]   |",
        forbidden: "used == 2",
        needed: &["Cj leave", "Cj enter", "Cj look"],
        kept: &[],
    },
    // `capi/src/registry.rs` `Held::count`, `remove`: the records are read before the count.
    Pair {
        name: "[Cj]: a holder that begins to count",
        code: &[
            ("capi/src/registry.rs", "new", &["slot.users.fetch_add(1, SeqCst);"]),
            ("capi/src/holds.rs", "leave", &["self.handles[index].store(0, Release);"]),
            (
                "capi/src/holds.rs",
                "is_held",
                &["fence(SeqCst); // [Ci]", "MEMBARRIER_CMD_PRIVATE_EXPEDITED", "held.load(Acquire) == handle)"],
            ),
            (
                "capi/src/registry.rs",
                "remove",
                &[
                    "slot.close(handle)",
                    "holds::is_held(handle)",
                    "if is_held || !has_looked && slot.users.load(SeqCst) != 0",
                    "retire(",
                ],
            ),
            ("capi/src/registry.rs", "drop", &["self.0.users.fetch_sub(1, SeqCst);"]),
        ],
        init: "record = 1, users = 0, object = 1",
        program: "
        user                                | thread that frees
        users += 1 sc          [Ch count]   | await record == 0 acq  [Cj look]
        record = 0 rel         [Cj leave]   | await users == 0 sc    [Ch look for users]
        used = object na                    | object = 2 na
        users += -1 sc         [Cj]         |",
        forbidden: "used == 2",
        needed: &["Cj leave", "Cj look"],
        kept: &[
            ("Ch count", "rlx", "The store to the record publishes it. The stronger one is for [Ch]"),
            ("Cj", "rel", "Not needed, as ORDERING.md says of [Ch]"),
            ("Ch look for users", "acq", "The stronger one is for [Ch]"),
        ],
    },
    // `lab/targets/src/schbench`: 0 is BLOCKED, 1 RUNNING.
    Pair {
        name: "[Lj]: the end of the run, and a desk's thread that may sleep",
        code: &[
            (
                "lab/targets/src/schbench/shared.rs",
                "stop",
                &["self.stopping.0.store(true, Ordering::SeqCst); // [Lj]", "message_thread.post(subject)"],
            ),
            (
                "lab/targets/src/schbench/shared.rs",
                "post",
                &["compare_exchange(BLOCKED, RUNNING, Ordering::SeqCst, Ordering::SeqCst)", "subject.wake(futex)"],
            ),
            (
                "lab/targets/src/schbench/message.rs",
                "answer",
                &["futex().store(BLOCKED, Ordering::SeqCst);", "shared.stopped()", "subject.wait("],
            ),
            ("lab/targets/src/schbench/shared.rs", "stopped", &["self.stopping.0.load(Ordering::SeqCst) // [Lj]"]),
        ],
        init: "stopping = 0, futex = 1",
        program: "
        the thread that ends the run        | the desk's thread
        stopping = 1 sc        [Lj stop]    | futex = 0 sc           [Lj block]
        was = try futex: 0 -> 1 sc else sc [Lj post] | seen = stopping sc     [Lj look]",
        forbidden: "was == 1 && seen == 0",
        needed: &["Lj stop", "Lj block", "Lj look"],
        kept: &[("Lj post", "rlx", "Here it fails. If it succeeds, the desk's thread must see what precedes the post")],
    },
];
