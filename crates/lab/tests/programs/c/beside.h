// Executes the program again with a second preloaded library, whose path is the first argument, behind what is preloaded
// already. Returns in the program that has it. The executed program is under a trap from its first instruction on, if this one
// is.
#pragma once
#include "check.h"

static inline void beside(char **argv) {
    CHECK(argv[1] != NULL);
    const char *before = getenv("LD_PRELOAD");
    if (before && strstr(before, argv[1])) return;
    char both[8192];
    snprintf(both, sizeof both, "%s%s%s", before ? before : "", before ? ":" : "", argv[1]);
    CHECK_EQ(setenv("LD_PRELOAD", both, 1), 0);
    execv("/proc/self/exe", argv);
    fail(__FILE__, __LINE__, "execv", -1, 0);
}
