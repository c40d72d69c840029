// A program with default options of its own for AddressSanitizer (-fsanitize=address), which otherwise takes those of the
// library of `ufutex run`.
#include <stdio.h>

const char *__asan_default_options(void) { return "exitcode=9:verify_asan_link_order=1"; }

int main(void) {
    printf("ran\n");
    return 0;
}
