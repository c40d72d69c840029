//! What the page consists of: sections of words, tables and pictures. `html` writes it.

/// A whole report.
pub struct Document {
    /// Title of the page.
    pub title: String,
    /// Line below the title: machine and time.
    pub subtitle: String,
    /// What the reader must know first (a debug build, for example).
    pub warnings: Vec<String>,
    /// The findings, one sentence each.
    pub summary: Vec<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A section. Its title states the finding.
pub struct Section {
    /// Unique name for links.
    pub id: &'static str,
    /// Subject, in one or two words.
    pub name: &'static str,
    /// The finding.
    pub title: String,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// A block of a section.
pub enum Block {
    /// A paragraph.
    Words(String),
    /// What the figures above it mean.
    Means(String),
    /// How it was measured, and what is missing.
    Note(String),
    /// A table.
    Table(Table),
    /// Pictures next to each other.
    Pictures(Vec<Picture>),
}

/// A table.
#[derive(Clone, Default)]
pub struct Table {
    /// Caption of the table.
    pub caption: String,
    /// Headers above several columns: the text and the number of columns.
    pub groups: Vec<(String, usize)>,
    /// Headers of the columns.
    pub header: Vec<String>,
    /// Each row has as many cells as there are headers.
    pub rows: Vec<Vec<String>>,
    /// Number of columns from the left that have words. The others have numbers.
    pub words: usize,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, words: usize, header: &[&str]) -> Table {
        let header = header.iter().map(ToString::to_string).collect();
        Table { caption: caption.into(), groups: Vec::new(), header, rows: Vec::new(), words }
    }
}

/// A picture, with a text for readers who cannot see it.
pub struct Picture {
    /// Title of the picture.
    pub title: String,
    /// The picture's content in a sentence.
    pub description: String,
    /// The drawing.
    pub drawing: Drawing,
    /// The drawn figures. `None` if another table has them.
    pub table: Option<Table>,
}

/// The kinds of drawings.
pub enum Drawing {
    /// Curves with bands.
    Curves(Curves),
    /// A rate over time: before, during and after a resize.
    Course(Course),
    /// Factors on a logarithmic axis, several marks on a line.
    Factors(Factors),
    /// Bars.
    Bars(Bars),
    /// A cache line, and the fields that other cores fetch from it.
    CacheLine(CacheLine),
}

/// How a series is drawn, in colour and without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Class of the style sheet, which has the colour.
    pub class: &'static str,
    /// SVG dash pattern of the line.
    pub dash: &'static str,
    /// Shape of the points.
    pub mark: Mark,
}

/// Shape of a point.
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
    /// The look of a name is the same on the whole page.
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

/// Curves over a few values of x at equal distances. y is logarithmic.
pub struct Curves {
    /// Label below the x axis.
    pub x_label: String,
    /// The values of x.
    pub x: Vec<String>,
    /// Label above the y axis.
    pub y_label: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
pub struct Curve {
    /// Label at its end.
    pub name: String,
    /// Its look.
    pub look: Look,
    /// Low, middle and high at each value of x. `None` if there is no value.
    pub points: Vec<Option<[f64; 3]>>,
}

/// A rate over time.
pub struct Course {
    /// Its look.
    pub look: Look,
    /// Time of the first step relative to the request, in ms.
    pub from_ms: f64,
    /// Length of a step, in ms.
    pub step_ms: f64,
    /// Rate in each step, in millions per second.
    pub mops: Vec<f64>,
    /// Top of the y axis, the same for all timelines next to each other.
    pub top_mops: f64,
    /// Time at which the new size was in effect, in ms after the request.
    pub done_ms: Option<f64>,
    /// Time at which the request was given up, if it was.
    pub given_up_ms: Option<f64>,
}

/// Lines of factors. Each line has a name and up to three marks.
pub struct Factors {
    /// The kinds of marks, in order.
    pub kinds: Vec<(String, Look)>,
    /// Name, note, and a factor for each kind.
    pub lines: Vec<(String, String, Vec<Option<f64>>)>,
}

/// Bars from 0.
pub struct Bars {
    /// Label below the axis.
    pub unit: String,
    /// Name, look and length of each.
    pub bars: Vec<(String, Look, f64)>,
}

/// A cache line.
pub struct CacheLine {
    /// The fields in order, without gaps between them.
    pub fields: Vec<Field>,
}

/// A field of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name in the source. Empty for unused bytes.
    pub name: String,
    /// Offset from the start of the line, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Its share of all transfers of modified lines, from 0 to 1.
    pub share: f64,
}
