//! The modelled sections: throughput by virtual cores, and the fields that cores fetch from each other.

use super::count;
use crate::page::document::{Block, CacheLine, Curve, Curves, Drawing, Field, Look, Picture, Section, Table};
use crate::page::modelled::{Cores, Hot, Modelled};

const LINE_BYTES: usize = 64;

/// The section about throughput by virtual cores.
pub fn scaling(found: &Modelled) -> Option<Section> {
    let topology = &found.cores.first()?.topology;
    let mut cores: Vec<_> = found.cores.iter().map(|one| one.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    let most = *cores.last()?;
    let blocks = vec![
        Block::Words(format!(
            "The engine's own code on the virtual cores of {topology}, with a model of its caches: the cost of an access depends on \
            where the line is, and cores queue for a contended line. Deterministic: the same seed gives the same figures."
        )),
        Block::Pictures(vec![curves(found, &cores)]),
        Block::Means(scaling_means(found, most)),
    ];
    let title = scaling_title(found, most);
    let notes = found.notes.iter().cloned().map(Block::Note);
    Some(Section {
        id: "cores",
        name: "More cores (modelled)",
        title,
        blocks: blocks.into_iter().chain(notes).collect(),
    })
}

/// Name of a curve: the scheme, and the layout if it is not the default.
fn name(one: &Cores) -> String {
    if one.layout == "lean" { one.scheme.clone() } else { format!("{}, {}", one.scheme, one.layout) }
}

/// The schemes that have a curve. Other layouts are modelled with all cores only.
fn names(found: &Modelled) -> Vec<String> {
    let mut names = Vec::new();
    for one in found.cores.iter().filter(|one| one.layout == "lean") {
        if !names.contains(&name(one)) {
            names.push(name(one));
        }
    }
    names
}

fn rate(found: &Modelled, which: &str, cores: usize) -> Option<f64> {
    found.cores.iter().find(|one| name(one) == which && one.cores == cores).map(|one| one.ops_per_sec)
}

fn curves(found: &Modelled, cores: &[usize]) -> Picture {
    let names = names(found);
    let point = |name: &str, cores| rate(found, name, cores).map(|rate| [rate / 1e6; 3]);
    let curves = names.iter().map(|name| Curve {
        name: name.clone(),
        look: Look::of(name.split(',').next().unwrap_or_default()),
        points: cores.iter().map(|cores| point(name, *cores)).collect(),
    });
    let mut header = vec!["scheme".to_string()];
    header.extend(cores.iter().map(|cores| count(*cores, "core")));
    let rows = names.iter().map(|name| {
        let rates = cores.iter().map(|cores| rate(found, name, *cores).map_or("-".to_string(), super::mops));
        std::iter::once(name.clone()).chain(rates).collect()
    });
    let caption = "Modelled: million operations a virtual second, all cores".to_string();
    Picture {
        title: "Modelled: waits on a word that differs, by cores".to_string(),
        description: scaling_means(found, cores.last().copied().unwrap_or(1)),
        table: Some(Table { caption, header, rows: rows.collect(), words: 1, groups: Vec::new() }),
        drawing: Drawing::Curves(Curves {
            x_label: "virtual cores".to_string(),
            x: cores.iter().map(ToString::to_string).collect(),
            y_label: "million waits a second, all cores".to_string(),
            curves: curves.collect(),
        }),
    }
}

fn scaling_title(found: &Modelled, most: usize) -> String {
    let topology = found.cores.first().map_or("", |one| one.topology.as_str());
    match (rate(found, "live", most), rate(found, "atomic", most)) {
        (Some(live), Some(atomic)) => {
            format!(
                "On {most} cores of {topology} live is modelled at {:.0} times the rate of a shared count",
                live / atomic
            )
        }
        _ => format!("Throughput on up to {most} cores of {topology}"),
    }
}

fn scaling_means(found: &Modelled, most: usize) -> String {
    let gains = names(found).into_iter().filter_map(|name| {
        let gain = rate(found, &name, most)? / rate(found, &name, 1)?;
        Some(format!("{name} has {gain:.1} times its rate on one"))
    });
    format!("On {most} virtual cores {}.", gains.collect::<Vec<_>>().join(", "))
}

/// The section about the fields that are fetched from other cores: the hottest line of each scheme and layout.
pub fn fields(found: &Modelled) -> Option<Section> {
    let most = found.cores.iter().map(|one| one.cores).max()?;
    let ones: Vec<_> = found.cores.iter().filter(|one| one.cores == most && !one.hot.is_empty()).collect();
    let pictures: Vec<_> = ones.iter().filter_map(|one| line(one)).collect();
    let hottest = ones.iter().max_by(|a, b| a.hitm_per_op.total_cmp(&b.hitm_per_op))?;
    let top = hottest.hot.first()?;
    let blocks = vec![
        Block::Words(format!(
            "A HITM is an access that finds its line modified in another core's cache: what perf c2c counts. Each picture is the 64 bytes \
             of the hottest line, eight a row, modelled on {most} cores; the deeper the colour (and hatched from a quarter on), the larger \
             the field's share of them."
        )),
        Block::Pictures(pictures),
        Block::Table(table(&ones)),
        Block::Means(format!(
            "In {} an operation has {:.2} such transfers, most of them for {}.{}: each core that writes it takes the line from \
            the core that wrote it before, one at a time.",
            name(hottest),
            hottest.hitm_per_op,
            top.object,
            top.field
        )),
    ];
    let title = format!("{}: cores take {}.{} from each other", name(hottest), top.object, top.field);
    Some(Section { id: "fields", name: "Hot cache lines (modelled)", title, blocks })
}

fn line(one: &Cores) -> Option<Picture> {
    let hottest = one.hot.iter().max_by(|a, b| a.hitm.total_cmp(&b.hitm))?;
    let which = hottest.offset / LINE_BYTES;
    let all: f64 = one.hot.iter().map(|hot| hot.hitm).sum();
    let mut hot: Vec<_> =
        one.hot.iter().filter(|hot| hot.object == hottest.object && hot.offset / LINE_BYTES == which).collect();
    hot.sort_by_key(|hot| hot.offset);
    let said = hot.iter().map(|hot| format!("{} at {} has {:.0} %", hot.field, hot.offset, 100.0 * hot.hitm / all));
    Some(Picture {
        title: format!("{}: {}, {:.2} HITM per operation", name(one), hottest.object, one.hitm_per_op),
        description: format!("{}.", said.collect::<Vec<_>>().join(", ")),
        drawing: Drawing::CacheLine(CacheLine { fields: tiled(&hot, which * LINE_BYTES, all) }),
        table: None,
    })
}

/// The fields of a line in order, with the unnamed bytes between them.
fn tiled(hot: &[&Hot], start: usize, all: f64) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 0;
    for (number, one) in hot.iter().enumerate() {
        let offset = one.offset - start;
        if offset < at {
            continue;
        }
        if offset > at {
            fields.push(Field { name: String::new(), offset: at, size: offset - at, share: 0.0 });
        }
        let next = hot.get(number + 1).map_or(LINE_BYTES, |next| next.offset - start);
        let size = one.bytes.unwrap_or(8).min(next - offset).min(LINE_BYTES - offset);
        fields.push(Field { name: one.field.clone(), offset, size, share: one.hitm / all });
        at = offset + size;
    }
    if at < LINE_BYTES {
        fields.push(Field { name: String::new(), offset: at, size: LINE_BYTES - at, share: 0.0 });
    }
    fields
}

fn table(ones: &[&Cores]) -> Table {
    let header = ["scheme", "object", "field", "offset", "HITM per operation", "share"];
    let mut table = Table::new("Modelled: HITM by object and field, as perf c2c would rank them", 3, &header);
    for one in ones {
        let all: f64 = one.hot.iter().map(|hot| hot.hitm).sum();
        for hot in one.hot.iter().filter(|hot| hot.hitm / all >= 0.005) {
            table.rows.push(vec![
                name(one),
                hot.object.clone(),
                hot.field.clone(),
                format!("0x{:02x}", hot.offset),
                format!("{:.3}", hot.hitm),
                format!("{:.0} %", 100.0 * hot.hitm / all),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_line_cover_it_and_do_not_overlap() {
        let hot =
            |field: &str, offset, bytes| Hot { object: "Bucket".into(), field: field.into(), offset, bytes, hitm: 0.5 };
        let (state, queue) = (hot("state", 64, Some(4)), hot("queue", 88, None));
        let fields = tiled(&[&state, &queue], 64, 1.0);
        let shape: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(shape, [("state", 0, 4), ("", 4, 20), ("queue", 24, 8), ("", 32, 32)]);
        assert_eq!(fields.iter().map(|field| field.size).sum::<usize>(), LINE_BYTES);
    }
}
