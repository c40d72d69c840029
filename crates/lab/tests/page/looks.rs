//! The tests of the page.

use crate::browser::Browser;
use serde_json::{Value, json};
use std::path::Path;

/// Elements that reach beyond the window or their own drawing. A table may be wider than the window inside its
/// scroller, but its title may not. One pixel is allowed for rounding.
pub const BEYOND: &str = r#"(() => {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}`);
  for (const one of document.querySelectorAll('body *:not(.scroll *):not(svg *)')) {
    const box = one.getBoundingClientRect();
    if (box.width > 0 && (box.right > root.clientWidth + 1 || box.left < -1)) found.push(`${one.tagName} ${one.className} to ${box.right}: ${(one.textContent || '').slice(0, 40)}`);
  }
  for (const one of document.querySelectorAll('.scroll caption *')) {
    const box = one.getBoundingClientRect();
    if (box.right > root.clientWidth + 1) found.push(`a table's title to ${box.right}: ${one.textContent}`);
  }
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    for (const one of svg.querySelectorAll('text, rect:not(pattern *), path, circle, polyline, polygon')) {
      const box = one.getBoundingClientRect();
      if (box.width === 0 && box.height === 0) continue;
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`${one.tagName} '${one.textContent}' beyond its drawing '${svg.querySelector('title').textContent}'`);
    }
  }
  return found;
})()"#;

/// Overlapping texts in a drawing.
const OVERLAPS: &str = r#"(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const texts = [...svg.querySelectorAll('text')].map(one => [one, one.getBoundingClientRect()]);
    texts.forEach(([a, p], number) => texts.slice(number + 1).forEach(([b, q]) => {
      const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (wide > 1 && high > 0.35 * Math.min(p.height, q.height)) found.push(`'${a.textContent}' on '${b.textContent}' in '${svg.querySelector('title').textContent}'`);
    }));
  }
  return found;
})()"#;

/// The smallest accepted text, in pixels.
const SMALLEST_PX: f64 = 9.0;

const SMALLEST: &str = r#"Math.min(...[...document.querySelectorAll('svg text')].map(one => {
  const svg = one.ownerSVGElement;
  return parseFloat(getComputedStyle(one).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}))"#;

/// At one width, in one theme: nothing is cut off, nothing overlaps, and the page reports no errors. It has at least `least`
/// drawings, and screenshots are named after `name`.
pub fn fits(file: &Path, name: &str, least: u64, width: u32, theme: &str) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, width, theme)?;
    keep_shot(&mut browser, &format!("{name}{width}-{theme}.png"))?;
    nothing("beyond its place", &browser.ask(BEYOND)?)?;
    nothing("on top of each other", &browser.ask(OVERLAPS)?)?;
    let drawings = browser.ask("document.querySelectorAll('svg[role=img] > title').length")?.as_u64();
    if drawings.is_none_or(|drawings| drawings < least) {
        return Err(format!("there are {drawings:?} drawings, where there are at least {least}"));
    }
    let smallest = browser.ask(SMALLEST)?.as_f64().unwrap_or(0.0);
    if smallest < SMALLEST_PX {
        return Err(format!("a drawing's text is {smallest:.1} pixels high; at least {SMALLEST_PX}"));
    }
    nothing("said on the console", &json!(browser.complaints))
}

/// The page follows the theme. In both themes the contrast of text is at least 4.5 to 1 ([wcag-21]).
pub fn themes(file: &Path) -> Result<(), String> {
    const CONTRASTS: &str = r#"(() => {
      const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      const light = text => { const [r, g, b] = text.match(/[\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
      const paper = light(getComputedStyle(document.body).backgroundColor);
      const found = [];
      for (const one of document.querySelectorAll('p, li, th, td, h1, h2, summary, figcaption, svg text')) {
        const style = getComputedStyle(one);
        const ink = light(one.ownerSVGElement ? style.fill : style.color);
        // A flame graph's text is on its frame.
        const frame = one.closest('.flame svg') && one.parentNode.querySelector('rect');
        const ground = frame ? light(getComputedStyle(frame).fill) : paper;
        const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        if (contrast < 4.5) found.push(`${contrast.toFixed(2)} for ${one.tagName} '${one.textContent.slice(0, 30)}'`);
      }
      return found;
    })()"#;
    let mut browser = Browser::start()?;
    let mut papers = Vec::new();
    for theme in ["light", "dark"] {
        browser.open(file, 1000, theme)?;
        papers.push(browser.ask("getComputedStyle(document.body).backgroundColor")?);
        nothing(&format!("too faint ({theme})"), &browser.ask(CONTRASTS)?)?;
    }
    if papers[0] == papers[1] { Err(format!("both themes have the paper {}", papers[0])) } else { Ok(()) }
}

/// Series differ in dashes and marks, and each has its name at its end.
pub fn without_colour(file: &Path) -> Result<(), String> {
    const ALIKE: &str = r#"(() => {
      const found = [];
      for (const svg of document.querySelectorAll('svg')) {
        const curves = [...svg.querySelectorAll('polyline.curve')];
        if (curves.length === 0) continue;
        const looks = new Set(curves.map(one => one.getAttribute('stroke-dasharray') || 'solid'));
        const names = [...svg.querySelectorAll('text.label')].map(one => one.textContent);
        if (looks.size !== curves.length) found.push(`${curves.length} curves with ${looks.size} dashes`);
        if (new Set(names).size !== curves.length) found.push(`${curves.length} curves, names ${names}`);
      }
      return found;
    })()"#;
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let curves = browser.ask("document.querySelectorAll('polyline.curve').length")?;
    if curves.as_u64().unwrap_or(0) < 7 {
        return Err(format!("there are {curves} curves"));
    }
    nothing("alike", &browser.ask(ALIKE)?)
}

/// Printing uses light colours in any theme and gives a PDF.
pub fn prints(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "dark")?;
    let media = json!({ "media": "print", "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    browser.call("Emulation.setEmulatedMedia", media)?;
    let paper = browser.ask("getComputedStyle(document.body).backgroundColor")?;
    if paper != "rgb(255, 255, 255)" {
        return Err(format!("the paper is {paper}"));
    }
    // The width of A4 without its margins, in CSS pixels.
    let screen = json!({ "width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", screen)?;
    let wide = browser.ask("[...document.querySelectorAll('table')].filter(one => one.getBoundingClientRect().width > 0 && one.getBoundingClientRect().right > 722).map(one => one.caption.textContent)")?;
    nothing("wider than the paper", &wide)?;
    let printed = browser
        .call("Page.printToPDF", json!({ "printBackground": true, "paperWidth": 8.27, "paperHeight": 11.69 }))?;
    let pdf = decoded(printed["data"].as_str().unwrap_or_default());
    keep("report.pdf", &pdf)?;
    if pdf.starts_with(b"%PDF-") && pdf.len() > 10_000 {
        Ok(())
    } else {
        Err(format!("{} bytes are no PDF", pdf.len()))
    }
}

/// The page is one file and loads nothing else.
pub fn alone(file: &Path) -> Result<(), String> {
    let mut browser = Browser::start()?;
    browser.open(file, 1000, "light")?;
    let others = browser.requests.iter().filter(|url| !url.starts_with("file:") && !url.starts_with("data:"));
    nothing("fetched", &json!(others.collect::<Vec<_>>()))?;
    let active = "[...document.querySelectorAll('script, link[rel=stylesheet], img[src], iframe, object, [onclick], [onload]')].map(one => one.outerHTML)";
    nothing("from elsewhere, or active", &browser.ask(active)?)?;
    const UNNAMED: &str = r##"[
      ...[...document.querySelectorAll('svg')].filter(one => one.getAttribute('role') !== 'img' || !one.querySelector('title').textContent || !one.querySelector('desc').textContent).map(one => 'a drawing without words'),
      ...[...document.querySelectorAll('table')].filter(one => !one.caption || !one.caption.textContent).map(one => 'a table without a caption'),
      ...[...document.querySelectorAll('[id]')].map(one => one.id).filter((id, number, all) => all.indexOf(id) !== number).map(id => `two are ${id}`),
      ...[...document.querySelectorAll('[aria-labelledby]')].flatMap(one => one.getAttribute('aria-labelledby').split(' ')).filter(id => !document.getElementById(id)).map(id => `nothing is ${id}`),
      ...[...document.querySelectorAll('a[href^="#"]')].filter(one => !document.querySelector(one.getAttribute('href'))).map(one => `a link to nothing: ${one.outerHTML}`),
      ...(document.documentElement.lang ? [] : ['no language']),
    ]"##;
    nothing("without a name", &browser.ask(UNNAMED)?)
}

pub fn nothing(what: &str, found: &Value) -> Result<(), String> {
    match found.as_array() {
        Some(found) if found.is_empty() => Ok(()),
        _ => Err(format!("{what}: {found:#}")),
    }
}

pub fn keep_shot(browser: &mut Browser, name: &str) -> Result<(), String> {
    if std::env::var_os("UFUTEX_PAGE_SHOTS").is_none() {
        return Ok(());
    }
    let shot = browser.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true, "format": "png" }))?;
    keep(name, &decoded(shot["data"].as_str().unwrap_or_default()))
}

fn keep(name: &str, bytes: &[u8]) -> Result<(), String> {
    let Some(directory) = std::env::var_os("UFUTEX_PAGE_SHOTS") else { return Ok(()) };
    std::fs::write(Path::new(&directory).join(name), bytes).map_err(|error| format!("{name}: {error}"))
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for digit in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
