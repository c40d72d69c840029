//! Where variables are defined, by debug information. addr2line, which has the lines of functions, has none of variables, so this file
//! reads them with gimli, on which addr2line is built.

use addr2line::gimli::{self, AttributeValue, Dwarf, EndianSlice, LittleEndian, Operation, Unit};
use object::{Object, ObjectSection, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// Files, without their directories, and lines of a file's variables, by address. Empty without debug information.
pub fn of(path: &Path) -> HashMap<u64, (String, u32)> {
    read(path).unwrap_or_default()
}

fn read(path: &Path) -> Option<HashMap<u64, (String, u32)>> {
    let file = ReadCache::new(File::open(path).ok()?);
    let object = object::File::parse(&file).ok()?;
    let section = |id: gimli::SectionId| {
        let data = object.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok::<_, gimli::Error>(data.unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(section).ok()?;
    let dwarf = sections.borrow(|data| Slice::new(data, LittleEndian));
    let mut places = HashMap::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        // `None` at the first entry that cannot be read.
        _ = variables(&unit, |entry| {
            if let Some(address) = address(&dwarf, &unit, entry)
                && let Some(place) = place(&dwarf, &unit, entry)
            {
                places.insert(address, place);
            }
        });
    }
    Some(places)
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
