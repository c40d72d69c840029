//! Derives the advice from the figures. Each sentence names the figures that it follows from.

mod locks;

use super::figures::{Figures, KERNEL_MIN};
use serde::Serialize;
use std::ffi::OsString;

/// If futex calls take less than this share of one CPU, no setting is worth while, unless the waiters are [`CROWDED`].
const LIGHT: f64 = 0.01;
/// From this many waiters per slot on, a wake walks past other waiters whatever the call rate. The engine's
/// `LONG_CHAIN` is the same.
const CROWDED: u64 = 4;
/// From this share of operations on, contention is explained. A smaller share is only stated.
const CONTENDED: f64 = 0.01;
/// If private calls are a smaller share of all calls, they do not matter.
const HARDLY_PRIVATE: f64 = 0.01;
/// A smaller share of other calls is not mentioned. Every program makes some, for example to join threads.
const OTHERS: f64 = 0.001;
/// If one word has more than this share of the calls, the calls contend for that word.
const HOT: f64 = 0.5;

/// The recommended settings.
#[derive(Serialize, Debug, PartialEq)]
pub struct Advice {
    /// The engine's size policy.
    pub policy: String,
    /// The engine's slots. `None` leaves the number to the policy.
    pub slots: Option<u64>,
    /// The kernel's setting, by PR_FUTEX_HASH.
    pub kernel: Kernel,
    /// The reasons.
    pub sentences: Vec<Sentence>,
}

/// The recommended setting of the kernel.
#[derive(Serialize, Debug, PartialEq)]
pub struct Kernel {
    /// `none`: nothing would change. `default`: keep the kernel's own choice. `set-slots`: set `slots`.
    pub setting: &'static str,
    /// The slots to set, or the kernel's own choice.
    pub slots: Option<u64>,
    /// Whether to set the table's immutable flag too, which only Linux 6.16 has.
    pub immutable: bool,
    /// The shell command that runs the program with these slots.
    pub command: Option<String>,
}

/// One sentence of the advice.
#[derive(Serialize, Debug, PartialEq)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// The names of the figures that it follows from.
    pub figures: Vec<&'static str>,
}

fn say(text: String, figures: &[&'static str]) -> Sentence {
    Sentence { text, figures: figures.to_vec() }
}

/// The advice for `program`, a name and its arguments. `trap`: calls inside glibc were counted too.
pub fn judge(figures: &Figures, trap: bool, program: &[OsString]) -> Advice {
    let hardly_private = HARDLY_PRIVATE * (figures.calls + figures.others()) as f64;
    let mut advice = if (figures.calls as f64) < hardly_private || figures.calls == 0 {
        without_private_calls(figures, trap)
    } else {
        with_private_calls(figures, trap, program)
    };
    advice.sentences.extend(locks::sentences(figures));
    advice
}

fn without_private_calls(figures: &Figures, trap: bool) -> Advice {
    let others = figures.others();
    let sentence = if others == 0 {
        let hint = if trap { "" } else { " Without --no-trap, calls inside glibc would be seen too." };
        let text = format!(
            "No setting matters: in {:.1} s it made no futex call (calls 0, shared_calls 0). An uncontended lock makes \
            none.{hint}",
            figures.seconds
        );
        say(text, &["calls", "shared_calls"])
    } else {
        let text = format!(
            "No setting matters: of its {} futex calls {} are on private words (calls), the others on shared words ({} \
            shared_calls) or for locks that only the kernel supports ({} other_kernel_calls). Shared words are in the \
            kernel's global table, whose size is fixed at boot. If only threads of one process use them, make them \
            private (PTHREAD_PROCESS_PRIVATE, FUTEX_PRIVATE_FLAG).",
            counted(figures.calls + others),
            counted(figures.calls),
            counted(figures.shared_calls),
            counted(figures.other_kernel_calls)
        );
        say(text, &["calls", "shared_calls", "other_kernel_calls"])
    };
    let kernel = Kernel { setting: "none", slots: None, immutable: false, command: None };
    Advice { policy: "load".to_string(), slots: None, kernel, sentences: vec![sentence] }
}

fn with_private_calls(figures: &Figures, trap: bool, program: &[OsString]) -> Advice {
    let is_light = figures.share_of_a_cpu < LIGHT;
    let mut sentences = vec![rate(figures, is_light, trap)];
    sentences.extend(private_share(figures));
    sentences.push(slots(figures));
    if is_light && !is_crowded(figures) {
        return as_it_is(figures, sentences);
    }
    sentences.extend(busy_buckets(figures));
    let grown = figures.wanted_slots > KERNEL_MIN;
    let policy = policy(figures, is_light, grown, &mut sentences);
    let kernel = kernel(figures, is_light, program, &mut sentences);
    Advice { policy, slots: grown.then_some(figures.wanted_slots), kernel, sentences }
}

/// The advice to a program that makes few calls and has few waiters.
fn as_it_is(figures: &Figures, mut sentences: Vec<Sentence>) -> Advice {
    let own = figures.kernel_slots;
    let text = format!(
        "Leave everything as it is: policy `load`, and in the kernel the {} (kernel_slots) that it makes for \
         {} (threads) on {} (cpus). With so few calls and waiters the number of slots does not matter.",
        plural(own, "slot"),
        plural(figures.threads, "thread"),
        plural(figures.cpus, "CPU")
    );
    sentences.push(say(text, &["kernel_slots", "threads", "cpus"]));
    let kernel = Kernel { setting: "default", slots: Some(own), immutable: false, command: None };
    Advice { policy: "load".to_string(), slots: None, kernel, sentences }
}

/// Whether many waiters would share the kernel's slots.
fn is_crowded(figures: &Figures) -> bool {
    figures.waiters.min(figures.words) >= CROWDED * figures.kernel_slots
}

fn rate(figures: &Figures, is_light: bool, trap: bool) -> Sentence {
    let weight = if is_light { "little, so settings hardly matter" } else { "enough for settings to matter" };
    let slower = if trap { "; it may make fewer than usual while it is watched" } else { "" };
    let text = format!(
        "It makes {} private futex calls a second (calls_per_second), which in the kernel take {} of one CPU \
         (share_of_a_cpu): {weight}{slower}.",
        counted(figures.calls_per_second.round() as u64),
        percent(figures.share_of_a_cpu)
    );
    say(text, &["calls_per_second", "share_of_a_cpu"])
}

fn private_share(figures: &Figures) -> Option<Sentence> {
    let share = figures.others() as f64 / (figures.others() + figures.calls) as f64;
    (share >= OTHERS).then(|| {
        let text = format!(
            "{} of all futex calls are not on private words ({} shared_calls, {} other_kernel_calls): no setting applies \
            to them.",
            percent(share),
            counted(figures.shared_calls),
            counted(figures.other_kernel_calls)
        );
        say(text, &["shared_calls", "other_kernel_calls"])
    })
}

fn slots(figures: &Figures) -> Sentence {
    let least = if figures.words_exact { "" } else { "at least " };
    let load = match figures.slots {
        0 => "gave way to the global table".to_string(),
        slots => format!("settled at {} slots", counted(slots)),
    };
    let text = format!(
        "At most {} waited at a time (waiters), calls named {least}{} (words), and the policy `load` {load} (slots): {} are \
         enough (wanted_slots).",
        plural(figures.waiters, "thread"),
        plural(figures.words, "word"),
        plural(figures.wanted_slots, "slot")
    );
    say(text, &["waiters", "words", "slots", "wanted_slots"])
}

fn busy_buckets(figures: &Figures) -> Option<Sentence> {
    let share = percent(figures.contended_share);
    if figures.contended_share < CONTENDED {
        return (figures.contended > 0).then(|| {
            // "less than" says it already.
            let some =
                if share.starts_with("less") { share.replacen("less", "Less", 1) } else { format!("Only {share}") };
            say(
                format!("{some} of the operations found their bucket contended (contended_share)."),
                &["contended_share"],
            )
        });
    }
    if figures.hottest_share >= HOT {
        let text = format!(
            "{share} of the operations found their bucket contended (contended_share), but {} of all calls name one word \
            (hottest_share). It is in one bucket whatever the number of slots: only fewer calls on it help.",
            percent(figures.hottest_share)
        );
        return Some(say(text, &["contended_share", "hottest_share"]));
    }
    let text = format!(
        "{share} of the operations found their bucket contended (contended_share), and up to {} words were in one bucket \
        (longest_chain): more slots separate words that share a bucket by chance.",
        counted(figures.longest_chain)
    );
    Some(say(text, &["contended_share", "longest_chain"]))
}

/// A fixed size if the table never changed and speed matters.
fn policy(figures: &Figures, is_light: bool, grown: bool, sentences: &mut Vec<Sentence>) -> String {
    let (wanted, number) = (counted(figures.wanted_slots), figures.wanted_slots);
    let (policy, text) = if figures.resizes == 0 && !is_light {
        let text = format!(
            "The table was not resized (resizes 0): `--policy {number}` fits: {wanted} slots from the first wait on \
            (wanted_slots)."
        );
        (number.to_string(), text)
    } else if grown {
        let text = format!(
            "Policy `load` finds {wanted} slots by itself (wanted_slots), by {} that held up no operation (resizes); \
            `--policy {number}` has them from the first wait on.",
            plural(figures.resizes, "resize")
        );
        ("load".to_string(), text)
    } else {
        let text = format!(
            "Policy `load`, without a number of slots: the {KERNEL_MIN} that it begins with are enough (wanted_slots), \
            after {} (resizes).",
            plural(figures.resizes, "resize")
        );
        ("load".to_string(), text)
    };
    sentences.push(say(text, &["resizes", "wanted_slots"]));
    policy
}

fn kernel(figures: &Figures, is_light: bool, program: &[OsString], sentences: &mut Vec<Sentence>) -> Kernel {
    let (own, wanted) = (figures.kernel_slots, figures.wanted_slots);
    let rule = format!(
        "for {} (threads) on {} (cpus) the plain kernel makes {} by itself (kernel_slots)",
        plural(figures.threads, "thread"),
        plural(figures.cpus, "CPU"),
        plural(own, "slot")
    );
    let names = &["threads", "cpus", "kernel_slots", "wanted_slots"];
    if wanted <= own {
        let text =
            format!("PR_FUTEX_HASH: the default is fine: {rule}, and {} are wanted (wanted_slots).", counted(wanted));
        sentences.push(say(text, names));
        return Kernel { setting: "default", slots: Some(own), immutable: false, command: None };
    }
    let text = format!(
        "PR_FUTEX_HASH: `ufutex run --kernel --slots {wanted}`, or in the program, before it makes threads, \
         prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, {wanted}, 0): {rule}, and {} are wanted (wanted_slots). No resize \
         happens under load then.",
        counted(wanted)
    );
    sentences.push(say(text, names));
    let immutable = figures.threads > 1 && !is_light;
    if immutable {
        let text = format!(
            "On Linux 6.16, which alone has the flag, --immutable (1 instead of the last 0) saves the counter that all {} \
            threads (threads) would write in each of {} calls a second (calls_per_second).",
            counted(figures.threads),
            counted(figures.calls_per_second.round() as u64)
        );
        sentences.push(say(text, &["threads", "calls_per_second"]));
    }
    let command = Some(format!("ufutex run --kernel --slots {wanted} -- {}", quoted(program)));
    Kernel { setting: "set-slots", slots: Some(wanted), immutable, command }
}

/// Quotes a command for a shell.
fn quoted(command: &[OsString]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=+,:@%".contains(&byte);
    let words = command.iter().map(|word| {
        let word = word.to_string_lossy();
        let plain = !word.is_empty() && word.bytes().all(is_plain);
        if plain { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Prints a share in percent. Small shares get two decimals.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if share > 0.0 && percent < 0.01 {
        return "less than 0.01 %".to_string();
    }
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

/// Prints `1 slot`, `2 slots`.
fn plural(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", counted(number), if number == 1 { "" } else { "s" })
}

/// Prints 1234567 as 1,234,567.
fn counted(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
