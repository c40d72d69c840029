//! What the lab's HTML pages have in common: the frame of a page, and colours and fonts that follow the reader's preference.
//!
//! Pages are written with `maud`, which escapes text and checks the markup when it is compiled. A page is one file, which fetches
//! nothing.

use maud::{DOCTYPE, Markup, html};

/// The colours of pages and of pictures, light and dark.
pub const COLOURS: &str = include_str!("colours.css");

/// The style sheet of every page, behind [`COLOURS`]. A page may have rules of its own behind it.
pub const STYLE: &str = include_str!("style.css");

/// A whole page. `head` has the style sheets.
pub fn page(title: &str, head: &Markup, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Without this link, browsers would request a favicon.
                link rel="icon" href="data:,";
                title { (title) }
                (head)
            }
            body { (body) }
        }
    };
    markup.into_string()
}

/// A coordinate, rounded to a tenth of a pixel.
pub fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_escaped_and_the_page_fetches_nothing() {
        let page = page("a < b", &html! { style { (STYLE) } }, &html! { p { "c" } });
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("<p>c</p>"), "{page}");
        assert!(!page.contains("http") && !page.contains("url("), "{page}");
    }

    #[test]
    fn coordinates_have_a_tenth_or_none() {
        assert_eq!([1.0, 1.24, 0.04].map(px), ["1", "1.2", "0"]);
    }
}
