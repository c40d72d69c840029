//! `libufutex_preload.so`, built beside the command: what `ufutex run` loads into programs. A target of this package, so
//! that whoever builds the command has it.

use preload as _;
