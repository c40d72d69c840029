// Which engine a suite tests. The packages in `crates/models` that have suites compile the same sources under names of
// their own. Included by the suites, because an `extern crate` has to stand in the root.

#[cfg(feature = "atomic")]
extern crate ufutex_atomic as ufutex;
#[cfg(feature = "fixed")]
extern crate ufutex_fixed as ufutex;
#[cfg(feature = "packed")]
extern crate ufutex_packed as ufutex;
#[cfg(feature = "percpu")]
extern crate ufutex_percpu as ufutex;
#[cfg(feature = "split")]
extern crate ufutex_split as ufutex;
