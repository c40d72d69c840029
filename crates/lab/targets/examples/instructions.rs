//! Makes calls for `.ci/instructions`, which counts their instructions under callgrind:
//! `instructions TARGET wait|wake|early TIMES`. Each time makes two batches of 1024 calls.

use anyhow::{Context, Result, bail};
use lab_measure::pool::Gate;
use lab_targets::{Layout, Name, Operation, Policy, Shape, Words};
use strum::VariantArray;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, call, times] = &arguments[..] else { bail!("three arguments: TARGET wait|wake|early TIMES") };
    let Ok(name) = target.parse::<Name>() else {
        bail!(
            "no target '{target}'; accepted: {}",
            Name::VARIANTS.iter().map(|name| name.text()).collect::<Vec<_>>().join(", ")
        )
    };
    let (operation, early_return) = match call.as_str() {
        "wait" => (Operation::WaitDiffers, false),
        "early" => (Operation::WaitDiffers, true),
        "wake" => (Operation::WakeNoWaiter, false),
        other => bail!("no call '{other}'; accepted: wait, wake, early"),
    };
    let shape = Shape { early_return, ..Shape::new(Layout::Lean, Policy::Fixed(16)) };
    let subject = lab_targets::build(name, &shape)?;
    let words = Words::new(1024, size_of::<u32>());
    subject.wait(words.word(0), 1); // makes the table, if the target makes it when it is first needed
    for _ in 0..times.parse::<usize>().with_context(|| format!("'{times}' is no number"))? {
        let gate = Gate::new(1);
        gate.stop();
        let tally = subject.hammer(operation, &words, &gate);
        assert_eq!(tally.failed, 0, "each call ended as expected");
    }
    Ok(())
}
