//! Where variables are defined, by debug information. addr2line, which has the lines of functions, has none of variables, so this file
//! reads them with gimli, on which addr2line is built.

use crate::names;
use addr2line::gimli::{self, AttributeValue, Dwarf, EndianSlice, LittleEndian, Operation, Section, Unit};
use object::{Object, ObjectSection};
use std::collections::{HashMap, HashSet};
use std::path::Path;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// For each of these addresses at which a variable begins, the source file, without its directory, and the line that define it. Empty
/// without debug information.
pub fn of(path: &Path, wanted: &HashSet<u64>) -> HashMap<u64, (String, u32)> {
    read(path, wanted).unwrap_or_default()
}

fn read(path: &Path, wanted: &HashSet<u64>) -> Option<HashMap<u64, (String, u32)>> {
    let file = names::map(path)?;
    let object = object::File::parse(&*file).ok()?;
    let section = |id: gimli::SectionId| {
        let data = object.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok::<_, gimli::Error>(data.unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(section).ok()?;
    let dwarf = sections.borrow(|data| Slice::new(data, LittleEndian));
    let named = offsets(dwarf.debug_info.reader().slice(), wanted);
    // With this section (DWARF 5) an entry may have an index in place of the address, so all units are read.
    let has_list = object.section_by_name(gimli::SectionId::DebugAddr.name()).is_some();
    let mut places = HashMap::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let begin = header.debug_info_offset()?.0;
        let is_in = |offset: &usize| (begin..begin + header.length_including_self()).contains(offset);
        if !has_list && !named.iter().any(is_in) {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        // `None` at the first entry that cannot be read.
        _ = variables(&unit, |entry| {
            if let Some(address) = address(&dwarf, &unit, entry).filter(|address| wanted.contains(address))
                && let Some(place) = place(&dwarf, &unit, entry)
            {
                places.insert(address, place);
            }
        });
    }
    Some(places)
}

/// Where `.debug_info` has one of these addresses as the whole place of a variable. All entries of a large program would take a second
/// to read.
fn offsets(info: &[u8], wanted: &HashSet<u64>) -> Vec<usize> {
    // An expression of nine bytes: the operation, and an address.
    let begins = memchr::memmem::find_iter(info, &[9, gimli::DW_OP_addr.0]);
    let address = |at: &usize| info.get(at + 2..at + 10)?.try_into().ok().map(u64::from_le_bytes);
    begins.filter(|at| address(at).is_some_and(|address| wanted.contains(&address))).collect()
}

/// Calls `f` with the variables of a unit. Most entries are none: their attributes are skipped.
fn variables<'a>(unit: &Unit<Slice<'a>>, mut f: impl FnMut(&Entry<'a>)) -> Option<()> {
    let mut entries = unit.entries_raw(None).ok()?;
    while !entries.is_empty() {
        let at = entries.next_offset();
        let Some(kind) = entries.read_abbreviation().ok()? else { continue };
        if kind.tag() == gimli::DW_TAG_variable
            && kind.attributes().iter().any(|one| one.name() == gimli::DW_AT_location)
        {
            f(&unit.entry(at).ok()?);
        }
        entries.skip_attributes(kind.attributes()).ok()?;
    }
    Some(())
}

/// The address. `None` for a variable on the stack, or one of each thread.
fn address(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, entry: &Entry<'_>) -> Option<u64> {
    let AttributeValue::Exprloc(location) = entry.attr_value(gimli::DW_AT_location)? else { return None };
    let mut operations = location.operations(unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(address)
}

/// File and line. A variable that was declared before it was defined may have them at its declaration.
fn place(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, entry: &Entry<'_>) -> Option<(String, u32)> {
    let declared = match entry.attr_value(gimli::DW_AT_specification) {
        Some(AttributeValue::UnitRef(offset)) => unit.entry(offset).ok(),
        _ => None,
    };
    let value = |name| entry.attr_value(name).or_else(|| declared.as_ref()?.attr_value(name));
    let line = value(gimli::DW_AT_decl_line)?.udata_value()?;
    let AttributeValue::FileIndex(file) = value(gimli::DW_AT_decl_file)? else { return None };
    let path = unit.line_program.as_ref()?.header().file(file)?.path_name();
    let path = dwarf.attr_string(unit, path).ok()?.to_string_lossy().into_owned();
    Some((Path::new(&path).file_name()?.to_string_lossy().into_owned(), line.try_into().ok()?))
}
