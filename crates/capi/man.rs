//! Manual pages of section 3, made of `ufutex.h`: one for each function and each type, and `ufutex(3)` for the rest.

use std::collections::BTreeSet;

/// Columns of code. A page has 80, and indents its text.
const COLUMNS: usize = 72;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Macro,
    Type,
    Function,
}

/// A declaration of the header.
pub struct Item {
    pub kind: Kind,
    pub name: String,
    /// The paragraphs of its comment, each on one line. Code keeps its lines.
    pub comment: Vec<String>,
    /// Its statements, each with the comment before it.
    lines: Vec<(String, String)>,
}

/// The declarations of the header, which are separated by empty lines.
pub fn items(header: &str) -> Vec<Item> {
    let item = |block| {
        let lines = lines(block);
        let (comment, code) = lines.first()?;
        let kind = match code.split(' ').next()? {
            "#define" => Kind::Macro,
            "typedef" => Kind::Type,
            word if word.starts_with('#') => return None,
            _ => Kind::Function,
        };
        let (name, comment) = (names(code).next()?.to_string(), paragraphs(comment));
        Some(Item { kind, name, comment, lines })
    };
    header.split("\n\n").filter_map(item).collect()
}

fn lines(block: &str) -> Vec<(String, String)> {
    let mut lines = vec![<(String, String)>::default()];
    for line in block.lines().map(str::trim) {
        let (comment, code) = lines.last_mut().expect("one is there from the beginning");
        if let Some(text) = line.strip_prefix("//") {
            *comment += &format!("{}\n", text.strip_prefix(' ').unwrap_or(text));
        } else {
            *code += &format!("{}{line}", if code.is_empty() { "" } else { " " });
            if line.starts_with('#') || line.ends_with([';', '{']) {
                lines.push(Default::default());
            }
        }
    }
    lines.retain(|line| *line != Default::default());
    lines
}

fn paragraphs(comment: &str) -> Vec<String> {
    let paragraph = |text: &str| match text.strip_prefix("```c\n") {
        Some(code) => code.trim_end_matches(['`', '\n']).into(),
        None => text.trim_end().replace('\n', " "),
    };
    comment.split("\n\n").map(paragraph).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_ours(word: &str) -> bool {
    word.starts_with("ufutex_") || word.starts_with("UFUTEX_")
}

/// The interface's names in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_of_name(c)).filter(|word| is_ours(word))
}

/// The pages, with the names of their files.
pub fn pages(header: &str, version: &str) -> Vec<(String, String)> {
    let items = items(header);
    let of_kind = |kind| items.iter().filter(move |item| item.kind == kind);
    let page = |name: &str, summary: &str, declarations: String, sections: Vec<(&str, String)>| {
        let mut page = format!(
            ".TH {name} 3 \"\" \"ufutex {version}\" ufutex\n.nh\n.ad l\n.SH NAME\n{name} \\- {}\n\
             .SH LIBRARY\nufutex (libufutex, \\-lufutex)\n.SH SYNOPSIS\n.nf\n#include <ufutex.h>\n{declarations}.fi\n",
            escaped(summary)
        );
        for (title, body) in sections.into_iter().filter(|(_, body)| !body.is_empty()) {
            page += &format!(".SH {title}\n{body}");
        }
        (format!("{name}.3"), page)
    };

    let intro = paragraphs(&lines(header.split("\n\n").next().unwrap_or_default())[0].0);
    let list = |kind| of_kind(kind).map(|item| tagged(&format!("{}(3)", item.name), &item.summary())).collect();
    // Macros that have one comment.
    let tags = |item: &Item| {
        let names = item.lines.iter().filter_map(|(_, code)| code.split("#define ").nth(1)?.split(' ').next());
        names.collect::<Vec<_>>().join("\n.TQ\n.B ")
    };
    let summary = intro[0].trim_start_matches("ufutex: ").trim_end_matches('.');
    let sections = vec![
        // The second paragraph says how the header is made.
        ("DESCRIPTION", prose(&intro[2..])),
        ("FUNCTIONS", list(Kind::Function)),
        ("TYPES", list(Kind::Type)),
        ("MACROS", of_kind(Kind::Macro).map(|item| tagged(&tags(item), &item.comment.join(" "))).collect()),
        ("SEE ALSO", ".BR futex (2)\n".into()),
    ];
    let mut pages = vec![page("ufutex", summary, String::new(), sections)];

    for item in of_kind(Kind::Function).chain(of_kind(Kind::Type)) {
        let is_taken = |other: &&Item| other.lines.len() > 1 && names(&item.lines[0].1).any(|name| name == other.name);
        let taken = of_kind(Kind::Type).filter(|other| item.kind == Kind::Function && is_taken(other));
        let declarations = [item].into_iter().chain(taken).map(Item::declaration).collect();
        let mut sections = if item.kind == Kind::Function { function(item) } else { fields(item) };
        sections.push(("SEE ALSO", see_also(item, &items)));
        pages.push(page(&item.name, &item.summary(), declarations, sections));
    }
    pages
}

impl Item {
    /// The first sentence of its comment.
    fn summary(&self) -> String {
        let sentence = self.comment[0].split(". ").next().unwrap_or_default().trim_end_matches('.');
        sentence[..1].to_lowercase() + &sentence[1..]
    }

    fn mentions(&self, other: &Item) -> bool {
        self.lines.iter().any(|(comment, code)| names(comment).chain(names(code)).any(|name| name == other.name))
    }

    /// The declaration without its comments.
    fn declaration(&self) -> String {
        let indent = |i, code: &str| if i == 0 || code.starts_with('}') { "" } else { "    " };
        let lines = self.lines.iter().enumerate();
        lines.fold("\n".into(), |all, (i, (_, code))| all + &wrapped(format!("{}{code}", indent(i, code))))
    }
}

/// A line of code, broken between parameters if it is too long.
fn wrapped(mut code: String) -> String {
    let longest = code.split(", ").skip(1).map(str::len).max().unwrap_or_default() + 1;
    let (indent, mut begin) = (code.rfind('(').map_or(0, |at| at + 1).min(COLUMNS - longest), 0);
    while code.len() - begin > COLUMNS {
        let comma = begin + code[begin..=begin + COLUMNS].rfind(", ").expect("a parameter is shorter");
        code.replace_range(comma..comma + 2, &format!(",\n{:indent$}", ""));
        begin = comma + 2;
    }
    text(&code) + "\n"
}

fn prose(paragraphs: &[String]) -> String {
    let paragraph = |paragraph: &String| match text(paragraph) {
        code if code.contains('\n') => format!(".in +4n\n.EX\n{code}\n.EE\n.in\n"),
        text => text + "\n",
    };
    paragraphs.iter().map(paragraph).collect::<Vec<_>>().join(".PP\n")
}

fn tagged(tag: &str, body: &str) -> String {
    format!(".TP\n.B {}\n{}\n", escaped(tag), if body.is_empty() { "\\&".into() } else { text(body) })
}

/// Text, with the interface's names in bold.
fn text(plain: &str) -> String {
    let word = |word: &str| match word.trim_end_matches(|c| !is_of_name(c)) {
        name if is_ours(name) => format!("\\fB{name}\\fR{}", escaped(&word[name.len()..])),
        _ => escaped(word),
    };
    plain.split_inclusive(|c| !is_of_name(c)).map(word).collect()
}

/// Escapes roff's special characters. (`.` and `'` are special only where a line begins, which no text of ours does with them.)
fn escaped(plain: &str) -> String {
    plain.replace('\\', "\\e").replace('-', "\\-").replace('^', "\\(ha").replace('~', "\\(ti").replace('`', "\\(ga")
}

/// A function's sections. What a paragraph begins with says which one it belongs to.
fn function(item: &Item) -> Vec<(&'static str, String)> {
    let (mut description, mut returns, mut threads, mut errors) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    for paragraph in &item.comment {
        let begins = |at: &usize| *at == 0 || paragraph[..*at].ends_with(". ");
        let find = |text| paragraph.match_indices(text).map(|(at, _)| at).find(begins);
        let (before, list) = paragraph.split_at(find("Errors as for").or(find("-E")).unwrap_or(paragraph.len()));
        errors += &list_of_errors(list);
        let section = match before {
            "" => continue,
            _ if before.starts_with("Async-signal-safe") => &mut threads,
            _ if before.starts_with("Returns ") || !list.is_empty() => &mut returns,
            _ => &mut description,
        };
        section.push(before.trim_end().to_string());
    }
    if returns.is_empty() {
        returns.push(
            if item.lines[0].1.starts_with("void ") { "None." } else { "See DESCRIPTION. 0 if it names no number." }
                .into(),
        );
    }
    if threads.is_empty() {
        threads.push("Not async-signal-safe.".into());
    }
    let [description, returns, threads] = [description, returns, threads].map(|paragraphs| prose(&paragraphs));
    vec![("DESCRIPTION", description), ("RETURN VALUE", returns), ("ERRORS", errors), ("ATTRIBUTES", threads)]
}

/// Of `Errors as for another(). -EAGAIN: why; -EINVAL: why.`
fn list_of_errors(list: &str) -> String {
    let (before, list) = list.split_at(list.find("-E").unwrap_or(list.len()));
    let error = |error: &str| {
        let is_code = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || ", -".contains(c);
        let (codes, why) = error.split_at(error.find(|c| !is_code(c)).unwrap_or(error.len()));
        let why = Some(why.trim_matches([':', ' ', '.'])).filter(|why| !why.is_empty());
        tagged(codes.trim_end_matches([',', ' ']), &why.map_or(String::new(), |why| format!("{why}.")))
    };
    let errors = list.replace("; -", "\n-").lines().map(error).collect::<String>();
    if before.is_empty() { errors } else { text(before.trim_end()) + "\n" + &errors }
}

/// A type's sections.
fn fields(item: &Item) -> Vec<(&'static str, String)> {
    let field = |(comment, code): &(String, String)| {
        let end = code.find(")(").or(code.find(['[', ';'])).unwrap_or(code.len());
        let name = code[..end].rsplit([' ', '*']).next().unwrap_or_default();
        tagged(name, &paragraphs(comment).join(" "))
    };
    let fields = item.lines.iter().filter(|(comment, _)| !comment.is_empty()).skip(1).map(field).collect();
    vec![("DESCRIPTION", prose(&item.comment)), ("FIELDS", fields)]
}

/// The pages that an item mentions, those that mention it, and `ufutex(3)`.
fn see_also(item: &Item, items: &[Item]) -> String {
    let others = items.iter().filter(|other| other.kind != Kind::Macro && other.name != item.name);
    let linked = others.filter(|other| item.mentions(other) || other.mentions(item)).map(|other| ("(3)", &*other.name));
    let mut pages: BTreeSet<_> = linked.chain([("(3)", "ufutex")]).collect();
    for (comment, _) in &item.lines {
        for section in ["(2)", "(3)"] {
            let before = comment.match_indices(section).map(|(at, _)| &comment[..at]);
            pages.extend(before.filter_map(|text| Some((section, text.rsplit(|c| !is_of_name(c)).next()?))));
        }
    }
    let page = |(section, name)| format!(".BR {name} {section}");
    pages.into_iter().map(page).collect::<Vec<_>>().join(",\n") + "\n"
}
