//! `libufutex_preload.so`, the library that `ufutex run` loads into programs. It is a target of this package, so that a
//! build of the command builds it too.

use preload as _;
