//! Programs of known behaviour, given as figures.

use super::super::figures::Figures;
use super::super::figures::tests::report;
use super::*;
use lab_waits::Lock;
use serde_json::json;

fn advice(change: serde_json::Value, cpus: u64) -> (Advice, Figures) {
    let figures = Figures::new(&report(change), None, cpus);
    (judge(&figures, true, &["./server".into(), "two words".into()]), figures)
}

fn sentence_of<'a>(advice: &'a Advice, name: &str) -> &'a str {
    let sentence = advice.sentences.iter().find(|sentence| sentence.figures.contains(&name));
    &sentence.unwrap_or_else(|| panic!("nothing rests on {name}")).text
}

/// Each figure that a sentence lists exists, and the sentence's text names it.
fn assert_every_sentence_names_its_figures(advice: &Advice, figures: &Figures) {
    let all = serde_json::to_value(figures).expect("plain data");
    for sentence in &advice.sentences {
        assert!(!sentence.figures.is_empty(), "{sentence:?}");
        for name in &sentence.figures {
            assert!(all.get(name).is_some() && sentence.text.contains(name), "{name}: {sentence:?}");
        }
    }
}

#[test]
fn few_threads_and_few_words_may_leave_everything_as_it_is() {
    let (advice, figures) = advice(json!({}), 8);
    assert_eq!((advice.policy.as_str(), advice.slots), ("load", None));
    assert_eq!(advice.kernel, Kernel { setting: "default", slots: Some(16), immutable: false, command: None });
    assert!(sentence_of(&advice, "share_of_a_cpu").contains("500 private futex calls a second"));
    assert_eq!(advice.sentences.len(), 3, "{advice:?}");
    assert!(sentence_of(&advice, "kernel_slots").starts_with("Leave everything as it is"));
    assert_every_sentence_names_its_figures(&advice, &figures);
}

/// At 160 ns a call, 1 % of a CPU is 62,500 calls a second.
#[test]
fn from_one_percent_of_a_cpu_on_settings_matter() {
    for (calls, policy) in [(124_900, "load"), (125_100, "16")] {
        let (advice, _) = advice(json!({"calls": {"FUTEX_WAIT": calls}}), 8);
        assert_eq!(advice.policy, policy, "{calls} in two seconds");
    }
    let (busy, figures) = advice(json!({"calls": {"FUTEX_WAIT": 9_000_000}}), 8);
    assert_eq!(busy.policy, "16");
    assert_every_sentence_names_its_figures(&busy, &figures);
}

#[test]
fn many_waiters_on_words_of_their_own_want_a_slot_each() {
    let crowd = json!({"calls": {"FUTEX_WAKE": 900_000}, "threads_most": 301, "waiting_most": 300, "words": 300,
        "slots": 256, "counters": {"contended_locks": 9, "longest_chain": 4, "resizes": 4}});
    let (busy, figures) = advice(crowd.clone(), 8);
    assert_eq!((busy.policy.as_str(), busy.slots), ("load", Some(512)));
    let command = Some("ufutex run --kernel --slots 512 -- ./server 'two words'".to_string());
    assert_eq!(busy.kernel, Kernel { setting: "set-slots", slots: Some(512), immutable: true, command });
    assert!(sentence_of(&busy, "kernel_slots").contains("`ufutex run --kernel --slots 512`"), "{busy:?}");
    assert!(sentence_of(&busy, "kernel_slots").contains("SET_SLOTS, 512, 0)"), "{busy:?}");
    assert!(sentence_of(&busy, "kernel_slots").contains("301 threads (threads) on 8 CPUs (cpus)"));
    assert!(sentence_of(&busy, "contended_share").starts_with("Less than 0.01 % of the operations"));
    assert_every_sentence_names_its_figures(&busy, &figures);
    // If the kernel's own rule chooses as many slots, there is nothing to set.
    assert_eq!(advice(crowd, 128).0.kernel.setting, "default");
}

#[test]
fn a_crowd_that_rarely_calls_needs_slots_only_if_it_is_very_crowded() {
    let crowd =
        |waiting: u64| advice(json!({"threads_most": waiting, "waiting_most": waiting, "words": waiting}), 4).0.kernel;
    assert_eq!(crowd(63), Kernel { setting: "default", slots: Some(16), immutable: false, command: None });
    let enough = crowd(64);
    assert_eq!((enough.setting, enough.slots, enough.immutable), ("set-slots", Some(64), false));
}

/// Only one number of slots is called enough: `wanted_slots`.
#[test]
fn a_table_that_grew_for_few_calls_is_left_as_it_is() {
    let grown = json!({"slots": 64, "counters": {"contended_locks": 0, "longest_chain": 1, "resizes": 1}});
    let (advice, figures) = advice(grown, 8);
    assert_eq!((figures.wanted_slots, advice.slots), (64, None));
    let enough: Vec<_> = advice.sentences.iter().filter(|sentence| sentence.text.contains("enough (")).collect();
    assert_eq!(enough.len(), 1, "{enough:?}");
    assert!(enough[0].text.contains("64 slots are enough (wanted_slots)"), "{enough:?}");
    assert!(sentence_of(&advice, "kernel_slots").contains("the number of slots does not matter"), "{advice:?}");
    assert_every_sentence_names_its_figures(&advice, &figures);
}

#[test]
fn waiters_for_one_word_want_no_slots() {
    let (one, figures) = advice(
        json!({"calls": {"FUTEX_WAIT": 4_000_000}, "threads_most": 64, "waiting_most": 60, "words": 2,
            "counters": {"contended_locks": 400_000, "longest_chain": 1, "resizes": 0},
            "most_calls": 3_900_000}),
        4,
    );
    assert_eq!(one.kernel.setting, "default");
    let text = sentence_of(&one, "hottest_share");
    assert!(text.starts_with("10 % of the operations found their bucket contended") && text.contains("98 %"), "{text}");
    assert_every_sentence_names_its_figures(&one, &figures);
}

#[test]
fn words_that_share_a_bucket_by_chance_are_reported_with_the_longest_chain() {
    let (chance, figures) = advice(
        json!({"calls": {"FUTEX_WAIT": 4_000_000}, "slots": 4096, "words": 9000, "words_exact": false,
            "counters": {"contended_locks": 40_000, "longest_chain": 7, "resizes": 1},
            "most_calls": 1000}),
        4,
    );
    assert!(sentence_of(&chance, "longest_chain").contains("up to 7 words"), "{chance:?}");
    assert!(sentence_of(&chance, "words").contains("at least 9,000 words"), "{chance:?}");
    assert!(sentence_of(&chance, "resizes").contains("by 1 resize that held up no operation"), "{chance:?}");
    assert_eq!((chance.slots, chance.kernel.slots), (Some(4096), Some(4096)));
    assert_every_sentence_names_its_figures(&chance, &figures);
}

#[test]
fn where_there_are_no_private_calls_no_setting_matters() {
    let nothing = Kernel { setting: "none", slots: None, immutable: false, command: None };
    let (none, figures) = advice(json!({"calls": {}, "words": 0}), 8);
    assert_eq!((&none.kernel, none.sentences.len()), (&nothing, 1));
    assert_every_sentence_names_its_figures(&none, &figures);
    let unseen = judge(&figures, false, &["true".into()]);
    assert!(unseen.sentences[0].text.ends_with("Without --no-trap, calls inside glibc would be seen too."));
    for (private, setting) in [(9, "none"), (11, "default")] {
        let shared = json!({"calls": {"FUTEX_WAKE": private}, "kernel_calls": 1000, "shared_calls": 900});
        let (shared, figures) = advice(shared, 8);
        assert_eq!(shared.kernel.setting, setting, "{private} of a thousand are private");
        assert!(sentence_of(&shared, "shared_calls").contains("900 shared_calls"), "{shared:?}");
        assert!(sentence_of(&shared, "other_kernel_calls").contains("100 other_kernel_calls"), "{shared:?}");
        assert_every_sentence_names_its_figures(&shared, &figures);
    }
}

/// A lock for which threads waited 1 of 2 seconds, in two places.
fn lock() -> Lock {
    Lock {
        name: "orders (mutex) at shop.c:7".to_string(),
        waits: 1000,
        waited_seconds: 1.0,
        mean_seconds: 0.001,
        share_of_waited: 0.9,
        wakes: 800,
        wakes_across_cpus: 700,
        owners: 1,
        owner: Some(("clerk (12)".to_string(), 0.25)),
        places: vec![("take at shop.c:9".to_string(), 0.7), ("give at shop.c:19".to_string(), 0.3)],
    }
}

fn about_lock(lock: Lock) -> Vec<String> {
    let figures = Figures::new(&report(json!({})), Some(lock), 8);
    let advice = judge(&figures, true, &["x".into()]);
    assert_every_sentence_names_its_figures(&advice, &figures);
    let about = advice.sentences.into_iter().filter(|sentence| sentence.figures == ["lock"]);
    about.map(|sentence| sentence.text).collect()
}

#[test]
fn the_costliest_lock_is_named_with_its_places_and_its_owner() {
    let sentences = about_lock(lock());
    assert_eq!(
        sentences,
        [
            "The lock that cost most is orders (mutex) at shop.c:7: threads waited 1.00 s for it in 2.00 s, in 1,000 waits of 1.00 ms \
             each, 90 % of the time that they waited for locks.",
            "70 % of the time for this lock was waited in take at shop.c:9, 30 % in give at shop.c:19: if they protect different \
             data, give each a lock of its own. clerk (12) held it for 250 ms while others waited.",
        ]
    );
    let one_place = about_lock(Lock { places: vec![("take".to_string(), 0.9), ("give".to_string(), 0.1)], ..lock() });
    assert!(
        one_place[1].contains("90 % of the time for this lock was waited in take: hold it for less"),
        "{one_place:?}"
    );
    let by_turns = about_lock(Lock { owners: 3, ..lock() });
    assert!(
        by_turns[1]
            .ends_with("3 threads or more held it by turns; clerk (12) longest, for 250 ms while others waited."),
        "{by_turns:?}"
    );
    let cheap = about_lock(Lock { waited_seconds: 0.019, ..lock() });
    assert!(cheap.len() == 1 && cheap[0].ends_with(": too little to matter."), "{cheap:?}");
}

#[test]
fn a_lock_that_goes_from_cpu_to_cpu_in_short_waits_is_said_to() {
    let brief = Lock { mean_seconds: 50e-6, ..lock() };
    let sentences = about_lock(brief.clone());
    assert!(sentences[2].contains("400 times a second, 88 % of these to a thread on another CPU"), "{sentences:?}");
    assert_eq!(about_lock(Lock { mean_seconds: 201e-6, ..brief.clone() }).len(), 2, "its owner holds it long");
    assert_eq!(about_lock(Lock { wakes_across_cpus: 399, ..brief.clone() }).len(), 2, "it mostly stays on a CPU");
    assert_eq!(about_lock(Lock { wakes: 0, wakes_across_cpus: 0, ..brief }).len(), 2);
}
