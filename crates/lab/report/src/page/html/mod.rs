//! Writes the document as one HTML file without scripts and network access. Colours follow the reader's preference.
//!
//! `lab_page` has the frame of the page. The drawings are our own. The plotting crates `plotters` and `charming` write
//! SVG with fixed colours and without roles and classes, so a page could follow neither a dark theme nor the needs of a
//! reader without colour. `poloto` has classes, but neither bands nor the other kinds of pictures.

mod bars;
mod cache_line;
mod course;
mod curves;
mod factors;
pub mod marks;
pub mod scale;

use super::document::{Block, Document, Drawing, Picture, Section, Table};
use lab_page::px;
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
/// The rules of the drawings, which pictures outside a page need too.
pub const DRAWINGS: &str = include_str!("drawings.css");

/// The whole file.
pub fn page(document: &Document) -> String {
    let style = html! {
        style { (PreEscaped(lab_page::COLOURS)) (PreEscaped(lab_page::STYLE)) (PreEscaped(STYLE)) (PreEscaped(DRAWINGS)) }
    };
    let body = html! {
        header {
            h1 { (document.title) }
            p.subtitle { (document.subtitle) }
            @for warning in &document.warnings { p.warning role="note" { strong { "Careful: " } (warning) } }
            @if !document.summary.is_empty() {
                h2.quiet { "In short" }
                ul.summary { @for line in &document.summary { li { (line) } } }
            }
            nav aria-label="Sections" {
                ul { @for section in &document.sections { li { a href={ "#" (section.id) } { (section.name) } } } }
            }
        }
        main { @for (number, one) in document.sections.iter().enumerate() { (section(number + 1, one)) } }
    };
    lab_page::page(&document.title, &style, &body)
}

fn section(number: usize, section: &Section) -> Markup {
    html! {
        section id=(section.id) aria-labelledby={ (section.id) "-title" } {
            p.kicker { (number) ". " (section.name) }
            h2 id={ (section.id) "-title" } { (section.title) }
            @for (number, one) in section.blocks.iter().enumerate() { (block(section.id, number, one)) }
        }
    }
}

fn block(id: &str, number: usize, block: &Block) -> Markup {
    match block {
        Block::Words(text) => html! { p { (text) } },
        Block::Means(text) => html! { p.means { strong { "What it means. " } (text) } },
        Block::Note(text) => html! { p.note { (text) } },
        Block::Table(rows) => table(&format!("{id}-table-{number}"), rows),
        Block::Pictures(pictures) => html! {
            div.pictures.wide[is_wide(pictures)] {
                @for (place, one) in pictures.iter().enumerate() { (picture(&format!("{id}-{number}-{place}"), one)) }
            }
        },
    }
}

/// Two pictures in a row if three would leave one alone, or if labels need the space.
fn is_wide(pictures: &[Picture]) -> bool {
    let is_small = |picture: &Picture| matches!(picture.drawing, Drawing::Course(_) | Drawing::CacheLine(_));
    matches!(pictures.len(), 2 | 4) || !pictures.iter().all(is_small)
}

fn picture(id: &str, picture: &Picture) -> Markup {
    html! {
        figure {
            figcaption id={ (id) "-caption" } { (picture.title) }
            (drawing(id, &picture.title, &picture.description, &picture.drawing))
            @if let Some(rows) = &picture.table {
                details { summary { "The figures" } (table(&format!("{id}-figures"), rows)) }
            }
        }
    }
}

fn drawing(id: &str, title: &str, description: &str, drawing: &Drawing) -> Markup {
    let ((width, height), inside) = match drawing {
        Drawing::Curves(curves) => curves::draw(curves),
        Drawing::Course(course) => course::draw(course),
        Drawing::Factors(factors) => factors::draw(factors),
        Drawing::Bars(bars) => bars::draw(bars),
        Drawing::CacheLine(line) => cache_line::draw(id, line),
    };
    html! {
        svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
            title id={ (id) "-t" } { (title) }
            desc id={ (id) "-d" } { (description) }
            (inside)
        }
    }
}

fn table(id: &str, table: &Table) -> Markup {
    let place = |column: usize| (column >= table.words).then_some("n");
    html! {
        // A table that is wider than the page scrolls, by keyboard too.
        div.scroll tabindex="0" role="region" aria-labelledby={ (id) "-caption" } {
            table {
                caption id={ (id) "-caption" } { span { (table.caption) } }
                thead {
                    @if !table.groups.is_empty() {
                        tr.groups { @for (title, columns) in &table.groups { th scope="colgroup" colspan=(columns) { (title) } } }
                    }
                    tr { @for (column, title) in table.header.iter().enumerate() { th scope="col" class=[place(column)] { (title) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" class=[place(0)] { (cell) } }
                                @else { td class=[place(column)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_text_is_escaped_and_the_page_fetches_nothing() {
        let mut table = Table::new("<b>caption</b>", 1, &["a", "b"]);
        table.rows.push(vec!["<script>alert(1)</script>".into(), "1".into()]);
        let section = Section { id: "s", name: "S", title: "A & B".into(), blocks: vec![Block::Table(table)] };
        let document = Document {
            title: "t".into(),
            subtitle: String::new(),
            warnings: vec!["</style>".into()],
            summary: vec![],
            sections: vec![section],
        };
        let page = page(&document);
        assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("A &amp; B"), "{page}");
        assert!(!page.contains("<script"));
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url(http"));
    }
}
