//! The report before it has a form: sections of words, tables and pictures. `html` and `markdown` write it down.

/// All of it.
pub struct Document {
    /// Of the page.
    pub title: String,
    /// Below the title: where and when.
    pub subtitle: String,
    /// What a reader must know before all else (a debug build, say).
    pub warnings: Vec<String>,
    /// The findings in a sentence each.
    pub summary: Vec<String>,
    /// In order.
    pub sections: Vec<Section>,
}

/// A part with a title that states what was found.
pub struct Section {
    /// For links, unique.
    pub id: &'static str,
    /// What it is about, in a word or two.
    pub name: &'static str,
    /// What was found.
    pub title: String,
    /// In order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
pub enum Block {
    /// A paragraph.
    Words(String),
    /// What the figures above mean.
    Means(String),
    /// What a careful reader asks: how it was measured, what is missing.
    Note(String),
    /// Figures in rows.
    Table(Table),
    /// Pictures beside each other.
    Pictures(Vec<Picture>),
}

/// Figures in rows.
#[derive(Clone, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Titles above several columns: the title, and how many.
    pub groups: Vec<(String, usize)>,
    /// Titles of the columns.
    pub header: Vec<String>,
    /// As many cells as titles in each.
    pub rows: Vec<Vec<String>>,
    /// So many columns from the left are words; the others are numbers.
    pub words: usize,
}

impl Table {
    /// Without rows.
    pub fn new(caption: impl Into<String>, words: usize, header: &[&str]) -> Table {
        let header = header.iter().map(ToString::to_string).collect();
        Table { caption: caption.into(), groups: Vec::new(), header, rows: Vec::new(), words }
    }
}

/// A picture, with what a reader who cannot see it gets.
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The same in a sentence.
    pub description: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// The figures in it; none where another table has them.
    pub table: Option<Table>,
}

/// What is drawn.
pub enum Drawing {
    /// Curves with bands.
    Curves(Curves),
    /// A rate over time, before, while and after a table gets another size.
    Course(Course),
    /// Factors on a logarithmic axis, several marks a line.
    Factors(Factors),
    /// Lengths.
    Bars(Bars),
    /// 64 bytes and who fetches them from another core.
    CacheLine(CacheLine),
}

/// How a series looks, in colour and without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its colour, as a class of the style sheet.
    pub class: &'static str,
    /// Dashes of its line.
    pub dash: &'static str,
    /// At its points.
    pub mark: Mark,
}

/// A point's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// ●
    Disc,
    /// ■
    Square,
    /// ▲
    Up,
    /// ▼
    Down,
    /// ◆
    Diamond,
    /// ○
    Ring,
    /// ×
    Cross,
}

impl Look {
    /// Always the same for the same name, on the whole page.
    pub fn of(name: &str) -> Look {
        let look = |class, dash, mark| Look { class, dash, mark };
        match name {
            "live" | "ours" => look("c-live", "", Mark::Disc),
            "fixed" => look("c-fixed", "7 3", Mark::Square),
            "atomic" | "global-lock" => look("c-atomic", "2 3", Mark::Up),
            "percpu" | "scaled" => look("c-percpu", "8 3 2 3", Mark::Diamond),
            "global" | "precheck" => look("c-global", "4 2", Mark::Down),
            "parking_lot" | "radix" => look("c-parking", "1 2", Mark::Cross),
            _ => look("c-kernel", "5 4", Mark::Ring),
        }
    }
}

/// Curves over a few values of x, which stand equally far apart; y is logarithmic.
pub struct Curves {
    /// Below the axis.
    pub x_label: String,
    /// The values of x.
    pub x: Vec<String>,
    /// Above the axis.
    pub y_label: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One of them.
pub struct Curve {
    /// Beside its end.
    pub name: String,
    /// How it looks.
    pub look: Look,
    /// At each value of x, if there is one: low, middle, high.
    pub points: Vec<Option<[f64; 3]>>,
}

/// A rate over time.
pub struct Course {
    /// How it looks.
    pub look: Look,
    /// From when on, relative to the request, and how long a step is, in milliseconds.
    pub from_ms: f64,
    /// The same.
    pub step_ms: f64,
    /// Rates, in millions a second.
    pub mops: Vec<f64>,
    /// Of all courses beside each other.
    pub top_mops: f64,
    /// When the new size was in effect.
    pub done_ms: Option<f64>,
    /// When the request was given up, if it was.
    pub given_up_ms: Option<f64>,
}

/// Factors; a line has a name and up to three marks.
pub struct Factors {
    /// What the marks are, in their order.
    pub kinds: Vec<(String, Look)>,
    /// The lines: a name, what belongs to it, a factor for each kind.
    pub lines: Vec<(String, String, Vec<Option<f64>>)>,
}

/// Lengths from 0.
pub struct Bars {
    /// Below the axis.
    pub unit: String,
    /// Name, look, length.
    pub bars: Vec<(String, Look, f64)>,
}

/// A line of memory.
pub struct CacheLine {
    /// In order, without gaps.
    pub fields: Vec<Field>,
}

/// Some bytes of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// As the source calls it; empty where nothing is.
    pub name: String,
    /// From the start of the line.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Its share of all transfers of modified lines, from 0 to 1.
    pub share: f64,
}
