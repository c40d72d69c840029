//! Names of addresses: functions, with file and line and inlined functions where there is debug information, and variables.

use crate::account::{Mapped, Process};
use crate::definitions;
use addr2line::Loader;
use memmap2::Mmap;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A frame of a stack.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// The function. `None` if the file has no symbol for the address.
    pub function: Option<String>,
    /// The source file, and the line.
    pub line: Option<(String, u32)>,
    /// The function is inlined in that of the next frame.
    pub is_inlined: bool,
    /// The name of the file in which the code is. `None` if it is in no file.
    pub module: Option<String>,
    /// The address in the file's own terms, or in memory if the code is in no file.
    pub address: u64,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, line, module, address, .. } = self;
        match (function, line, module) {
            (Some(function), Some((file, line)), _) => {
                write!(f, "{function} at {}:{line}", file.rsplit('/').next().unwrap_or_default())
            }
            (Some(function), None, Some(module)) => write!(f, "{function} in {module}"),
            (Some(function), None, None) => f.write_str(function),
            (None, _, Some(module)) => write!(f, "{module}+{address:#x}"),
            (None, _, None) => write!(f, "{address:#x}"),
        }
    }
}

/// What is known of the files.
#[derive(Default)]
pub struct Names {
    modules: HashMap<(PathBuf, u64), Option<Rc<Module>>>,
    compiled: HashMap<i32, Vec<(u64, u64, String)>>,
    /// The functions at the addresses in no file that were asked for, by process.
    known: HashMap<(i32, u64), Option<String>>,
}

/// A file with code.
struct Module {
    name: String,
    /// The address in the file's own terms at which its first page begins.
    first: u64,
    /// The address behind its memory.
    end: u64,
    symbols: Loader,
    /// The separate file with its debug information.
    debug: Option<Loader>,
    /// For a file of glibc, instead of `debug`: its separate file, whose symbols are read. Reading the rest would take 60 ms.
    of_glibc: Option<Mmap>,
    /// The file that has debug information, if any has.
    described_by: PathBuf,
    /// When the file was changed last, in seconds and nanoseconds.
    changed: (i64, i64),
    /// The frames at the addresses that were asked for.
    known: RefCell<HashMap<u64, Rc<[Frame]>>>,
}

impl Module {
    /// `None` if another file is at this path by now.
    fn open(path: &Path, inode: u64) -> Option<Self> {
        let status = path.metadata().ok()?;
        if !status.is_file() || status.ino() != inode {
            return None;
        }
        let file = map(path)?;
        let object = object::File::parse(&*file).ok()?;
        let first = object.segments().map(|segment| segment.address()).min()? & !0xfff;
        let end = object.segments().map(|segment| segment.address().saturating_add(segment.size())).max()?;
        let build_id = object.build_id().ok().flatten().map(<[u8]>::to_vec);
        let symbols = Loader::new(path).ok()?;
        let separate = build_id.and_then(|id| debug_file(&id));
        let name = printable(&path.file_name()?.to_string_lossy());
        let is_glibc = GLIBC.contains(&name.as_str());
        let debug = separate.as_ref().filter(|_| !is_glibc).and_then(|file| Loader::new(file).ok());
        let of_glibc = separate.as_ref().filter(|_| is_glibc).and_then(|file| map(file));
        let described_by = separate.unwrap_or_else(|| path.to_path_buf());
        let (changed, known) = ((status.ctime(), status.ctime_nsec()), RefCell::default());
        Some(Self { name, first, end, symbols, debug, of_glibc, described_by, changed, known })
    }

    /// The functions at an address, the innermost first.
    fn frames(&self, at: u64) -> Rc<[Frame]> {
        self.known.borrow_mut().entry(at).or_insert_with(|| self.look_up(at).into()).clone()
    }

    fn look_up(&self, at: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        for loader in self.debug.iter().chain([&self.symbols]) {
            let Ok(mut inlined) = loader.find_frames(at) else { continue };
            while let Ok(Some(frame)) = inlined.next() {
                let function = frame.function.and_then(|name| Some(printable(&name.demangle().ok()?)));
                let line = frame.location.and_then(|place| Some((printable(place.file?), place.line?)));
                if function.is_some() {
                    frames.push(Frame {
                        function,
                        line,
                        is_inlined: true,
                        module: Some(self.name.clone()),
                        address: at,
                    });
                }
            }
            if let Some(outermost) = frames.last_mut() {
                outermost.is_inlined = false;
                return frames;
            }
        }
        vec![Frame {
            function: self.symbol(at).map(|(name, _)| name),
            line: None,
            is_inlined: false,
            module: Some(self.name.clone()),
            address: at,
        }]
    }

    /// The symbol that an address is in, and where it begins.
    fn symbol(&self, at: u64) -> Option<(String, u64)> {
        if let Some(symbol) = self.of_glibc.as_ref().and_then(|file| symbol_at(file, at)) {
            return Some(symbol);
        }
        let mut loaders = self.debug.iter().chain([&self.symbols]);
        loaders.find_map(|loader| {
            let symbol = loader.find_symbol_info(at)?;
            let name = symbol.name().split('@').next().unwrap_or_default();
            // Other names are not mangled: `a` would be demangled as C++'s `signed char`.
            let is_mangled = name.starts_with("_Z") || name.starts_with("_R");
            let name =
                if is_mangled { addr2line::demangle_auto(Cow::Borrowed(name), None) } else { Cow::Borrowed(name) };
            Some((printable(&name), symbol.address()))
        })
    }
}

/// The files of glibc in which threads wait.
const GLIBC: [&str; 3] = ["libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"];

/// The last symbol that begins at the address or before it. Sorting all symbols would take longer than a look at each for a few addresses.
fn symbol_at(file: &[u8], at: u64) -> Option<(String, u64)> {
    let object = object::File::parse(file).ok()?;
    let begun = object.symbols().filter(|symbol| symbol.is_definition() && symbol.address() <= at);
    let symbol = begun.max_by_key(ObjectSymbol::address)?;
    Some((printable(symbol.name().ok()?.split('@').next().unwrap_or_default()), symbol.address()))
}

/// A file in memory.
pub fn map(path: &Path) -> Option<Mmap> {
    // SAFETY: what is read may change, but only bytes are read. If a process makes the file shorter just then, this command ends by SIGBUS; the
    // lines of functions are read in the same way by addr2line.
    unsafe { Mmap::map(&File::open(path).ok()?) }.ok()
}

/// The name without control characters: it goes to a terminal.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

/// The file with debug information that a distribution installs for a build ID.
fn debug_file(id: &[u8]) -> Option<PathBuf> {
    let text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = Path::new("/usr/lib/debug/.build-id").join(text.get(..2)?).join(format!("{}.debug", text.get(2..)?));
    path.exists().then_some(path)
}

/// The name of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// The symbol, or the file.
    pub name: String,
    /// The offset from there.
    pub offset: u64,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => f.write_str(&self.name),
            offset => write!(f, "{}+{offset:#x}", self.name),
        }
    }
}

impl Names {
    /// Forgets files that have changed meanwhile.
    pub fn renew(&mut self) {
        self.modules.retain(|(path, inode), module| {
            let is_same = |module: &Rc<Module>| {
                let status = path.metadata().ok()?;
                Some(status.ino() == *inode && (status.ctime(), status.ctime_nsec()) == module.changed)
            };
            module.as_ref().and_then(is_same) == Some(true)
        });
    }

    fn module(&mut self, process: &Process, at: u64) -> Option<(Rc<Module>, u64)> {
        let Mapped { start, inode, path, .. } = process.mapped_at(at)?;
        let open = || Module::open(path, *inode).map(Rc::new);
        let module = self.modules.entry((path.clone(), *inode)).or_insert_with(open).clone()?;
        let address = (at - start).wrapping_add(module.first);
        // Memory behind the file's own is somebody else's.
        (address < module.end).then_some((module, address))
    }

    /// The functions that this return address is in: more than one if some are inlined.
    fn frames_at(&mut self, process: &Process, at: u64) -> Rc<[Frame]> {
        // The address is behind the call.
        let call = at.wrapping_sub(1);
        match self.module(process, call) {
            Some((module, address)) => module.frames(address),
            None => {
                let function = self.compiled(process.pid, call);
                [Frame { function, line: None, is_inlined: false, module: None, address: at }].into()
            }
        }
    }

    /// The name of a function that the program has compiled itself, if it has written a map for perf(1).
    fn compiled(&mut self, pid: i32, at: u64) -> Option<String> {
        if let Some(known) = self.known.get(&(pid, at)) {
            return known.clone();
        }
        let map = self.compiled.entry(pid).or_insert_with(|| {
            let text = map_for_perf(pid).unwrap_or_default();
            text.lines().filter_map(parse).collect()
        });
        let function =
            map.iter().rev().find(|(start, length, _)| (*start..start.saturating_add(*length)).contains(&at));
        let function = function.map(|function| function.2.clone());
        self.known.insert((pid, at), function.clone());
        function
    }

    /// All frames of a stack, the innermost first.
    pub fn stack(&mut self, process: &Process, stack: &[u64]) -> Vec<Frame> {
        stack.iter().flat_map(|at| self.frames_at(process, *at).to_vec()).collect()
    }

    /// The variable at an address. `None` if it is in no file's memory.
    pub fn variable(&mut self, process: &Process, at: u64) -> Option<Variable> {
        let (module, address) = self.module(process, at)?;
        Some(match module.symbol(address) {
            Some((name, begin)) => Variable { name, offset: address - begin },
            None => Variable { name: module.name.clone(), offset: address },
        })
    }
}

impl Names {
    /// File and line where the variable at each address is defined. `None` without debug information.
    pub fn definitions(&mut self, words: &[(&Process, u64)]) -> Vec<Option<String>> {
        // Each file is read once.
        let mut wanted: HashMap<PathBuf, HashSet<u64>> = HashMap::new();
        let mut begin = |(process, at): &(&Process, u64)| {
            let (module, address) = self.module(process, *at)?;
            let (_, begin) = module.symbol(address)?;
            wanted.entry(module.described_by.clone()).or_default().insert(begin);
            Some((module, begin))
        };
        let begins: Vec<_> = words.iter().map(&mut begin).collect();
        let found: HashMap<_, _> =
            wanted.iter().map(|(path, wanted)| (path.as_path(), definitions::of(path, wanted))).collect();
        let place = |(module, begin): (Rc<Module>, u64)| {
            let (file, line) = found[module.described_by.as_path()].get(&begin)?;
            Some(printable(&format!("{file}:{line}")))
        };
        begins.into_iter().map(|begin| begin.and_then(place)).collect()
    }
}

/// The map for perf(1) that this process has written. Anybody may write to /tmp: the file must belong to this command's user.
fn map_for_perf(pid: i32) -> Option<String> {
    const MOST: u64 = 256 << 20;
    let path = format!("/tmp/perf-{pid}.map");
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let status = file.metadata().ok()?;
    // SAFETY: takes and changes nothing.
    let user = unsafe { libc::geteuid() };
    let is_trusted = status.is_file() && status.uid() == user && status.len() <= MOST;
    is_trusted.then(|| std::io::read_to_string(file).ok())?
}

/// A line of a map for perf(1): address and length in hexadecimal, and a name.
fn parse(line: &str) -> Option<(u64, u64, String)> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    let (start, length) = (number()?, number()?);
    Some((start, length, printable(fields.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_map_for_perf_have_an_address_a_length_and_a_name_with_spaces() {
        assert_eq!(parse("7f00 20 void Hands::take()"), Some((0x7f00, 0x20, "void Hands::take()".to_string())));
        assert_eq!(parse("0x7f00 0x20 LazyCompile:~f"), Some((0x7f00, 0x20, "LazyCompile:~f".to_string())));
        for line in ["", "7f00", "7f00 20", "name 20 f"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn file_that_was_overwritten_is_read_anew() {
        let path = std::env::temp_dir().join(format!("ufutex-names-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().expect("this program"), &path).expect("there is room");
        let inode = path.metadata().expect("the copy").ino();
        let mut process = Process::default();
        process.mapped.push(Mapped { start: 0, end: 1 << 40, inode, path: path.clone() });
        let mut names = Names::default();
        assert!(names.stack(&process, &[0x1_0000])[0].module.is_some());
        File::options().write(true).truncate(true).open(&path).expect("the copy");
        names.renew();
        let frames = names.stack(&process, &[0x1_0000]);
        std::fs::remove_file(&path).expect("the copy");
        assert_eq!(frames[0].module, None, "nothing is left in the file");
    }

    #[test]
    fn own_functions_and_variables_have_names() {
        static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(7);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let path = std::env::current_exe().expect("this program");
        let of_program = || maps.lines().filter(|line| line.ends_with(path.to_str().expect("UTF-8")));
        let ends = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        };
        let first = of_program().next().and_then(ends).expect("a mapping");
        let last = of_program().next_back().and_then(ends).expect("a mapping");
        let mut process = Process::default();
        let inode = path.metadata().expect("this program").ino();
        process.mapped.push(Mapped { start: first.0, end: last.1 + 0x10_0000, inode, path });
        let mut names = Names::default();
        let variable = names.variable(&process, VARIABLE.as_ptr() as u64).expect("it is in this program");
        assert!(variable.name.contains("VARIABLE") && variable.offset == 0, "{variable:?}");
        // As a return address: in the function, not at its beginning.
        let here = own_functions_and_variables_have_names as *const () as u64;
        let frames = names.stack(&process, &[here + 1]);
        let is_this =
            |frame: &Frame| frame.function.as_ref().is_some_and(|name| name.contains("own_functions_and_variables"));
        assert!(frames.iter().any(is_this), "{frames:?}");
        let nowhere = names.stack(&process, &[8]);
        assert_eq!(nowhere[0].to_string(), "0x8");
    }
}
