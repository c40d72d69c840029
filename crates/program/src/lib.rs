//! What `ufutex run` and the library that it loads into programs agree on.
