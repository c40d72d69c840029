//! Models of the C interface's handles: no object is freed while it is used, and each handle is freed once.

#[path = "../../../shuttle/tests/models/apart.rs"]
mod apart;
#[path = "../../../shuttle/tests/models/runs.rs"]
mod runs;

mod handles;
