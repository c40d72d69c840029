//! The page that `ufutex locks` writes, of a program in which a culprit was planted.

use crate::browser::Browser;
use crate::looks::{self, BEYOND, keep_shot, nothing};
use crate::{Page, trial};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The widths of a phone and of a large screen, in CSS pixels.
const WIDTHS: [u32; 2] = [400, 1600];

pub fn trials() -> Vec<Trial> {
    let page = Page::new(made);
    let mut trials = Vec::new();
    for width in WIDTHS {
        for theme in ["light", "dark"] {
            trials.push(trial(format!("locks_fit_at_{width}_{theme}"), &page, move |file| fits(file, width, theme)));
        }
    }
    trials.push(trial("locks_dark_and_light_differ_and_can_be_read".into(), &page, looks::themes));
    trials.push(trial("locks_begin_with_the_culprit_whose_row_opens_to_its_stack".into(), &page, culprit));
    trials.push(trial("locks_have_a_flame_graph".into(), &page, flame));
    trials.push(trial("locks_have_bars_for_each_thread_that_waited".into(), &page, timeline));
    trials.push(trial("locks_can_be_read_by_keyboard".into(), &page, keyboard));
    trials.push(trial("locks_fetch_nothing_and_run_no_other_script".into(), &page, alone));
    trials
}

fn made() -> Result<PathBuf, String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, file) = (directory.join("page-planted"), directory.join("locks.html"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/locks/planted.c");
    let mut compile = Command::new("cc");
    compile.args(["-g", "-std=gnu11", "-O2", "-fno-optimize-sibling-calls", "-pthread", source, "-o"]).arg(&program);
    let mut run = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    run.args(["locks", "-o"]).arg(&file).arg("--").arg(&program).arg("heap").stdin(Stdio::null());
    run.env_remove("LD_PRELOAD").env_remove("UFUTEX_PRELOAD").env_remove("UFUTEX_RUN");
    for (mut command, expected) in [(compile, 0), (run, 7)] {
        let status = command.stdout(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
        if status.code() != Some(expected) {
            return Err(format!("{command:?} ends with {status}"));
        }
    }
    Ok(file)
}

const OPEN_ALL: &str = "document.querySelectorAll('details').forEach(one => one.open = true)";

/// With all rows closed and with all open: nothing is wider than the window, and the page reports no errors.
fn fits(file: &Path, width: u32, theme: &str) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, width, theme)?;
    keep_shot(&mut browser, &format!("locks-{width}-{theme}.png"))?;
    nothing("beyond its place", &browser.ask(BEYOND)?)?;
    browser.ask(OPEN_ALL)?;
    nothing("beyond its place with open rows", &browser.ask(BEYOND)?)?;
    nothing("said on the console", &json!(browser.complaints))
}

fn culprit(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let name = browser.ask("document.querySelector('table tbody tr summary').textContent")?;
    holds(name.as_str().is_some_and(|name| name.starts_with("mutex in take at planted.c:")), &name)?;
    const SEEN: &str = "document.querySelector('table tbody tr pre').checkVisibility() && document.querySelector('table tbody tr pre').innerText";
    let closed = browser.ask(SEEN)?;
    holds(closed == false, &closed)?;
    browser.ask("document.querySelector('table tbody tr summary').click()")?;
    let stack = browser.ask(SEEN)?;
    let text = stack.as_str().unwrap_or_default();
    holds(text.contains("take at planted.c:") && text.contains("\nworker at planted.c:"), &stack)?;
    let row = browser.ask("document.querySelector('table tbody tr').textContent")?;
    let text = row.as_str().unwrap_or_default();
    holds(["ended by ", "held by ", "while others waited"].iter().all(|part| text.contains(part)), &row)
}

fn flame(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let frames = browser.ask("[...document.querySelectorAll('.flame g')].filter(one => one.querySelector('rect').getBoundingClientRect().width > 100).map(one => one.querySelector('title').textContent).join('\\n')")?;
    let text = frames.as_str().unwrap_or_default();
    holds(
        ["take at planted.c:", "worker at planted.c:", "mutex in take at"].iter().all(|part| text.contains(part)),
        &frames,
    )
}

/// Each thread of the program has a row with bars that are in the window, and no row is of a thread that did not wait.
fn timeline(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let names = browser
        .ask("[...document.querySelectorAll('.rows .thread')].map(one => one.textContent.split(' (')[0]).sort().filter((name, number, all) => name !== all[number - 1])")?;
    // One of the two clerks may have waited for nothing.
    let expected = ["<script>clerk", "black", "blue", "cyan", "green", "page-planted", "red", "white"];
    holds(names == json!(expected), &names)?;
    const EMPTY: &str = r#"[...document.querySelectorAll('.rows li:has(.thread)')].filter(row => {
      const frame = row.querySelector('svg').getBoundingClientRect();
      const bars = [...row.querySelectorAll('rect')].map(bar => bar.getBoundingClientRect());
      return bars.length === 0 || bars.some(bar => bar.width <= 0 || bar.height < 10 || bar.left < frame.left - 1 || bar.right > frame.right + 1);
    }).map(row => row.textContent)"#;
    nothing("rows without bars in their place", &browser.ask(EMPTY)?)?;
    const OTHERS: &str = r#"[...document.querySelectorAll('.rows rect')].filter(bar =>
      getComputedStyle(bar).fill !== getComputedStyle(document.querySelector(`details[data-word="${bar.dataset.word}"] .swatch`)).backgroundColor
    ).map(bar => bar.outerHTML)"#;
    nothing("of another colour than the table's", &browser.ask(OTHERS)?)?;
    let titles = browser.ask("[...document.querySelectorAll('.rows title')].map(one => one.textContent)")?;
    let titles: Vec<&str> = titles.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // Threads that wait for the culprit wait for tens of milliseconds, so most have a bar of their own.
    let woken = titles.iter().filter(|title| title.starts_with("mutex in take at") && title.contains(" ms, woken by "));
    holds(woken.count() > 50, &json!(titles))
}

/// An arrow key says what a bar is, and a row of the table that is opened by a key dims the bars of other words.
fn keyboard(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    browser.ask("document.querySelector('.rows svg').focus()")?;
    press(&mut browser, json!({ "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39 }))?;
    let said = browser
        .ask("[document.querySelector('#said').textContent, document.querySelector('.rows rect').textContent]")?;
    holds(said[0] == said[1] && said[0] != "", &said)?;
    const DIMMED: &str = "[...document.querySelectorAll('.rows rect')].map(bar => [bar.dataset.word, getComputedStyle(bar).opacity]).filter(([word, opacity]) => (word === '0') !== (opacity === '1')).length";
    let before = browser.ask(DIMMED)?;
    holds(before.as_u64().is_some_and(|bars| bars > 0), &before)?;
    browser.ask("document.querySelector('table tbody tr summary').focus()")?;
    press(&mut browser, json!({ "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" }))?;
    // The event comes in a task of its own.
    browser.call(
        "Runtime.evaluate",
        json!({ "expression": "new Promise(done => setTimeout(done))", "awaitPromise": true }),
    )?;
    let after = browser.ask(DIMMED)?;
    holds(after == 0, &after)?;
    nothing("said on the console", &json!(browser.complaints))
}

fn press(browser: &mut Browser, key: Value) -> Result<(), String> {
    for kind in ["keyDown", "keyUp"] {
        let mut event = key.clone();
        event["type"] = json!(kind);
        browser.call("Input.dispatchKeyEvent", event)?;
    }
    Ok(())
}

fn alone(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let others = browser.requests.iter().filter(|url| !url.starts_with("file:") && !url.starts_with("data:"));
    nothing("fetched", &json!(others.collect::<Vec<_>>()))?;
    const UNNAMED: &str = r#"[
      ...[...document.querySelectorAll('[id]')].map(one => one.id).filter((id, number, all) => all.indexOf(id) !== number).map(id => `two are ${id}`),
      ...[...document.querySelectorAll('[aria-labelledby]')].map(one => one.getAttribute('aria-labelledby')).filter(id => !document.getElementById(id)).map(id => `nothing is ${id}`),
      ...[...document.querySelectorAll('svg[role=img]')].filter(one => !one.getAttribute('aria-label')).map(() => 'a drawing without words'),
    ]"#;
    nothing("without a name", &browser.ask(UNNAMED)?)?;
    let scripts = browser.ask("document.scripts.length")?;
    holds(scripts == 1, &scripts)?;
    // What a name could do if it were not escaped.
    let ran = browser.ask(
        "(() => { const one = document.createElement('script'); one.textContent = 'window.ran = true'; document.body.append(one); return window.ran === true; })()",
    )?;
    holds(ran == false, &ran)
}

/// The error is what was found instead.
fn holds(is_so: bool, found: &Value) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("found: {found:#}")) }
}
