//! `sim hash`, `wake` and `resize`.

use crate::common::{assert_mistakes, number, ufutex};
use crate::{printed, rows};
use serde_json::Value;
use ufutex_coherence::Topology;

#[test]
fn a_row_says_what_was_run_and_whose_lines_moved() {
    let arguments = ["hash", "--topology", "epyc-9d64", "--cores", "1,64", "--schemes", "live,atomic", "-b", "1024"];
    let rows = rows(&arguments);
    let what = |row: &Value| (row["scheme"].as_str().map(str::to_string), row["cores"].as_u64());
    let order: Vec<_> = rows.iter().map(what).collect();
    let expected = [("live", 1), ("live", 64), ("atomic", 1), ("atomic", 64)];
    assert_eq!(order, expected.map(|(scheme, cores)| (Some(scheme.to_string()), Some(cores))));
    for row in &rows {
        assert_eq!((&row["workload"], &row["layout"]), (&"hash".into(), &"lean".into()));
        assert_eq!((&row["buckets"], &row["topology"]), (&1024.into(), &"epyc-9d64".into()));
        assert!(number(row, "spread") < 0.1, "{row}");
    }
    assert!(number(&rows[1], "ops_per_sec") > 10.0 * number(&rows[3], "ops_per_sec"));
    assert_eq!(number(&rows[0], "hitm_per_op"), 0.0);
    let hottest = &rows[3]["hot"][0];
    assert_eq!(
        (&hottest["object"], &hottest["field"], &hottest["offset"]),
        (&"Atomic".into(), &"count".into(), &0.into())
    );
    // An operation increments and decrements the count. A core may do both, or two operations, before losing the line.
    assert!((0.5..2.0).contains(&number(hottest, "hitm")), "{hottest}");
    let functions: Vec<_> =
        hottest["functions"].as_array().expect("functions").iter().map(|f| f["name"].clone()).collect();
    assert_eq!(functions.len(), 2, "{functions:?}");
    assert!(functions.contains(&"get".into()) && functions.contains(&"put".into()), "{functions:?}");
}

#[test]
fn a_seed_decides_what_is_printed() {
    let run = |seed| printed(&["hash", "--cores", "8", "--schemes", "live", "-b", "16", "--seed", seed, "--json"]);
    let first = run("5");
    assert_eq!(first, run("5"));
    assert_ne!(first, run("6"));
}

#[test]
fn all_schemes_and_layouts_run() {
    let rows = rows(&["wake", "--cores", "4", "--layout", "lean,packed,split", "-f", "64"]);
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| number(row, "ops_per_sec") > 1e6));
    let global = rows.iter().find(|row| row["scheme"] == "global").expect("a row");
    assert_eq!(global["buckets"], 65536, "176 CPUs, 256 for each");
}

#[test]
fn a_resize_shows_throughput_over_time() {
    let rows = rows(&["resize", "--cores", "16", "--schemes", "live,atomic"]);
    assert_eq!((&rows[0]["completed"], &rows[1]["completed"]), (&true.into(), &false.into()), "the stall");
    assert!(number(&rows[0], "ops_per_sec_after") > 2.0 * number(&rows[0], "ops_per_sec_before"));
    let timeline = rows[0]["timeline_ops_per_sec"].as_array().expect("a timeline");
    assert!(timeline.len() as f64 * number(&rows[0], "timeline_step_us") > number(&rows[0], "resize_us"));
}

#[test]
fn tables_name_fields_and_functions() {
    let text = printed(&["hash", "--cores", "64", "--schemes", "atomic", "-b", "256", "-s"]);
    for expected in ["modelled, not measured", "Mop/s", "locked", "| Atomic | count", "get schemes/count.rs"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn help_names_every_key_of_a_topology() {
    let help = printed(&["--help"]);
    let (_, described) = help.split_once("A topology file is TOML").expect("a description");
    let (described, _) = described.split_once("Exit status").expect("its end");
    let named: Vec<&str> = described.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let topology = Topology::given("epyc-9d64").expect("one of the given machines");
    let topology = serde_json::to_value(topology).expect("a table");
    let keys = |table: &Value| table.as_object().expect("a table").keys().cloned().collect::<Vec<_>>();
    let all = [keys(&topology), keys(&topology["latency"]), keys(&topology["thread"])].concat();
    assert!(all.len() > 25, "{all:?}");
    let missing: Vec<_> = all.iter().filter(|key| !named.contains(&key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?} in {described}");
}

#[test]
fn a_mistake_is_one_line_that_names_the_value_and_what_is_accepted_and_exits_2() {
    let file = std::env::temp_dir().join(format!("ufutex-sim-{}.toml", std::process::id()));
    std::fs::write(&file, "name = \"x\"\nghz = \"fast\"\n").expect("a file");
    let path = file.to_str().expect("UTF-8");
    let cases: &[(&[&str], &str)] = &[
        (&["hush"], "'hush'"),
        (&["hash", "--topology", "cray-1"], "'cray-1'"),
        (&["hash", "--cores", "0"], "'0'"),
        (&["hash", "--cores", "177"], "1 to 176"),
        (&["hash", "--schemes", "rcu"], "'rcu'"),
        (&["hash", "--layout", "wide"], "'wide'"),
        (&["hash", "-b", "3"], "'3'"),
        (&["hash", "-b", "16", "--policy", "load"], "--policy 'load'"),
        (&["hash", "--seed", "-1"], "'-1'"),
        (&["hash", "-f", "0"], "'0'"),
        (&["resize", "--schemes", "fixed"], "'fixed'"),
        (&["resize", "-b", "16"], "--from"),
        (&["resize", "--to", "5"], "'5'"),
    ];
    assert_mistakes(&["sim"], cases);
    let described = ufutex(&["sim", "hash", "--topology", path]);
    let line = String::from_utf8_lossy(&described.stderr);
    assert!(described.status.code() == Some(2) && line.lines().count() == 1, "{line}");
    assert!(line.contains("cannot be used") && line.contains("line 2"), "{line}");
    std::fs::remove_file(file).expect("it was there");
}
