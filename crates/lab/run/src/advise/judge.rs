//! From figures to advice. Every sentence names the figures that it rests on.

use super::figures::{Figures, KERNEL_MIN};
use serde::Serialize;
use std::ffi::OsString;

/// Below this share of one CPU nothing that futexes cost is worth a setting.
const LIGHT: f64 = 0.01;
/// So many waiters for each slot make wakes pass others, at any rate: the engine's own long chain.
const CROWDED: u64 = 4;
/// From this share of operations on, busy buckets are worth a word.
const CONTENDED: f64 = 0.01;
/// A program with a smaller share of private calls has none that matter.
const HARDLY_PRIVATE: f64 = 0.01;
/// Fewer of other kinds are those of every program, as when it waits for a thread's end.
const OTHERS: f64 = 0.001;
/// One word with more of the calls is what they meet at.
const HOT: f64 = 0.5;

/// What to set.
#[derive(Serialize, Debug, PartialEq)]
pub struct Advice {
    /// Of the engine.
    pub scheme: &'static str,
    /// Of the engine.
    pub policy: String,
    /// Of the engine: none leaves it to the policy.
    pub slots: Option<u64>,
    /// By PR_FUTEX_HASH.
    pub kernel: Kernel,
    /// Why.
    pub sentences: Vec<Sentence>,
}

/// What to set on the plain kernel.
#[derive(Serialize, Debug, PartialEq)]
pub struct Kernel {
    /// `none`: it would change nothing; `default`: leave it; `set-slots`.
    pub setting: &'static str,
    /// What to set, or what the kernel sets by itself.
    pub slots: Option<u64>,
    /// With the slots, where the kernel has it: Linux 6.16 alone.
    pub immutable: bool,
    /// What sets the slots for this program, as one would give it to a shell.
    pub command: Option<String>,
}

/// One line of the advice.
#[derive(Serialize, Debug, PartialEq)]
pub struct Sentence {
    /// For people.
    pub text: String,
    /// The names of the figures.
    pub figures: Vec<&'static str>,
}

fn say(text: String, figures: &[&'static str]) -> Sentence {
    Sentence { text, figures: figures.to_vec() }
}

/// The advice for a program, its name and arguments. `trap`: whether calls inside glibc were seen.
pub fn judge(figures: &Figures, trap: bool, program: &[OsString]) -> Advice {
    if (figures.calls as f64) < HARDLY_PRIVATE * (figures.calls + figures.others()) as f64 || figures.calls == 0 {
        without_private_calls(figures, trap)
    } else {
        with_private_calls(figures, trap, program)
    }
}

fn without_private_calls(figures: &Figures, trap: bool) -> Advice {
    let others = figures.others();
    let sentence = if others == 0 {
        let hint = if trap { "" } else { " Without --no-trap, calls inside glibc would be seen too." };
        let text = format!(
            "No setting matters: in {:.1} s it made no futex call (calls 0, shared_calls 0). A lock that nobody waits \
             for makes none.{hint}",
            figures.seconds
        );
        say(text, &["calls", "shared_calls"])
    } else {
        let text = format!(
            "No setting matters: of its {} futex calls {} are of private words (calls), the others of shared ones ({} \
             shared_calls) or of such locks as the kernel alone can serve ({} other_kernel_calls). Shared words stand in \
             the kernel's global table, whose size is fixed at boot; if threads of one process alone use them, make them \
             private (PTHREAD_PROCESS_PRIVATE, FUTEX_PRIVATE_FLAG).",
            counted(figures.calls + others),
            counted(figures.calls),
            counted(figures.shared_calls),
            counted(figures.other_kernel_calls)
        );
        say(text, &["calls", "shared_calls", "other_kernel_calls"])
    };
    let kernel = Kernel { setting: "none", slots: None, immutable: false, command: None };
    Advice { scheme: "live", policy: "load".to_string(), slots: None, kernel, sentences: vec![sentence] }
}

fn with_private_calls(figures: &Figures, trap: bool, program: &[OsString]) -> Advice {
    let is_light = figures.share_of_a_cpu < LIGHT;
    let mut sentences = vec![rate(figures, is_light, trap)];
    sentences.extend(private_share(figures));
    sentences.push(slots(figures));
    sentences.extend(busy_buckets(figures));
    let scheme = scheme(figures, is_light, &mut sentences);
    let grown = figures.wanted_slots > KERNEL_MIN && (!is_light || is_crowded(figures));
    let policy = policy(figures, scheme, grown, &mut sentences);
    let kernel = kernel(figures, is_light, program, &mut sentences);
    Advice { scheme, policy, slots: grown.then_some(figures.wanted_slots), kernel, sentences }
}

/// Whether many waiters share the slots that the kernel gives.
fn is_crowded(figures: &Figures) -> bool {
    figures.waiters.min(figures.words) >= CROWDED * figures.kernel_slots
}

fn rate(figures: &Figures, is_light: bool, trap: bool) -> Sentence {
    let weight = if is_light { "little: hardly anything is to be gained" } else { "enough for settings to matter" };
    let slower = if trap { "; watched, it may make fewer than usual" } else { "" };
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
            "{} of all futex calls are not of private words ({} shared_calls, {} other_kernel_calls): no setting \
             applies to those.",
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
        0 => "has given way to the global table".to_string(),
        slots => format!("settled at {} slots", counted(slots)),
    };
    let text = format!(
        "At most {} threads waited at a time (waiters), calls named {least}{} words (words), and the policy `load` {load} \
         (slots): {} slots are enough (wanted_slots).",
        counted(figures.waiters),
        counted(figures.words),
        counted(figures.wanted_slots)
    );
    say(text, &["waiters", "words", "slots", "wanted_slots"])
}

fn busy_buckets(figures: &Figures) -> Option<Sentence> {
    let share = percent(figures.contended_share);
    if figures.contended_share < CONTENDED {
        return (figures.contended > 0).then(|| {
            let text = format!("Only {share} of the operations met a busy bucket (contended_share).");
            say(text, &["contended_share"])
        });
    }
    if figures.hottest_share >= HOT {
        let text = format!(
            "{share} of the operations met a busy bucket (contended_share), but {} of all calls name one word \
             (hottest_share), which stands in one bucket whatever the number of slots: only fewer calls on it help.",
            percent(figures.hottest_share)
        );
        return Some(say(text, &["contended_share", "hottest_share"]));
    }
    let text = format!(
        "{share} of the operations met a busy bucket (contended_share), and up to {} words stood in one \
         (longest_chain): slots part those that stand together by chance.",
        counted(figures.longest_chain)
    );
    Some(say(text, &["contended_share", "longest_chain"]))
}

/// `fixed` where nothing would be lost by it and there is something to gain.
fn scheme(figures: &Figures, is_light: bool, sentences: &mut Vec<Sentence>) -> &'static str {
    let (scheme, text) = match figures.resizes {
        0 if is_light => ("live", "The table never changed (resizes 0); scheme `live` costs nothing then.".to_string()),
        0 => (
            "fixed",
            "The table never changed (resizes 0): scheme `fixed` does, and saves a look at a bit; with `live` it could \
             still change."
                .to_string(),
        ),
        resizes => (
            "live",
            format!(
                "The table changed its size {} under load (resizes): scheme `live`, which alone does that without \
                 making anybody wait.",
                if resizes == 1 { "once".to_string() } else { format!("{} times", counted(resizes)) }
            ),
        ),
    };
    sentences.push(say(text, &["resizes"]));
    scheme
}

fn policy(figures: &Figures, scheme: &str, grown: bool, sentences: &mut Vec<Sentence>) -> String {
    let (wanted, number) = (counted(figures.wanted_slots), figures.wanted_slots);
    let (policy, text) = if scheme == "fixed" {
        (
            number.to_string(),
            format!("`--policy {number}` goes with it: {wanted} slots from the first wait on (wanted_slots)."),
        )
    } else if grown {
        let text = format!(
            "Policy `load` finds {wanted} slots by itself (wanted_slots); `--policy {number}` has them from the first wait on."
        );
        ("load".to_string(), text)
    } else {
        let text = format!(
            "Policy `load`, and no number of slots: the {KERNEL_MIN} that it begins with will do (wanted_slots {wanted})."
        );
        ("load".to_string(), text)
    };
    sentences.push(say(text, &["wanted_slots"]));
    policy
}

fn kernel(figures: &Figures, is_light: bool, program: &[OsString], sentences: &mut Vec<Sentence>) -> Kernel {
    let (own, wanted) = (figures.kernel_slots, figures.wanted_slots);
    let rule = format!(
        "for {} threads (threads) on {} CPUs (cpus) the plain kernel makes {} slots by itself (kernel_slots)",
        counted(figures.threads),
        counted(figures.cpus),
        counted(own)
    );
    let names = &["threads", "cpus", "kernel_slots", "wanted_slots"];
    if wanted <= own || (is_light && !is_crowded(figures)) {
        let compared = if wanted <= own { "enough" } else { "too few, but at this rate that costs nothing," };
        let reason = format!("{compared} for the {} wanted (wanted_slots)", counted(wanted));
        sentences.push(say(format!("PR_FUTEX_HASH: the default is fine: {rule}, {reason}."), names));
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
            "On Linux 6.16, which alone has the flag, --immutable (1 in place of that 0) saves the counter that all {} \
             threads (threads) would write with each of {} calls a second (calls_per_second).",
            counted(figures.threads),
            counted(figures.calls_per_second.round() as u64)
        );
        sentences.push(say(text, &["threads", "calls_per_second"]));
    }
    let command = Some(format!("ufutex run --kernel --slots {wanted} -- {}", quoted(program)));
    Kernel { setting: "set-slots", slots: Some(wanted), immutable, command }
}

/// A command as one would give it to a shell.
fn quoted(command: &[OsString]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=+,:@%".contains(&byte);
    let words = command.iter().map(|word| {
        let word = word.to_string_lossy();
        let plain = !word.is_empty() && word.bytes().all(is_plain);
        if plain { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Small shares keep a digit that says something.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if share > 0.0 && percent < 0.01 {
        return "less than 0.01 %".to_string();
    }
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

/// 1234567 as 1,234,567.
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
