// Whether an unwinder that starts here finds a function among its callers.
#pragma once
#include <unwind.h>

struct wanted {
    void *function;
    int found;
};

static _Unwind_Reason_Code looks(struct _Unwind_Context *frame, void *argument) {
    struct wanted *wanted = argument;
    if (_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(frame)) != wanted->function) return _URC_NO_REASON;
    wanted->found = 1;
    return _URC_END_OF_STACK;
}

static int unwinds_to(void *function) {
    struct wanted wanted = {function, 0};
    _Unwind_Backtrace(looks, &wanted);
    return wanted.found;
}
