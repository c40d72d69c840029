// A program with a data race ends with the status that ThreadSanitizer gives it: by its _exit too, which replaces libc's.
// Compiled with -fsanitize=thread.
#include "check.h"
#include <fcntl.h>

static int racy;
static void *adds(void *unused) {
    for (int i = 0; i < 1000; i++) racy++;
    return unused;
}

static void races(int by_exit) {
    on_threads(2, adds);
    if (by_exit) _exit(0);
    exit(0);
}

int main(int argc, char **argv) {
    if (argc > 1) races(argv[1][0] == '_');
    for (int way = 0; way < 2; way++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            dup2(open("/dev/null", O_WRONLY), 2);
            execl(argv[0], argv[0], way ? "_exit" : "exit", NULL);
            _exit(99);
        }
        reap(child, 66);
    }
    printf("ok\n");
    return 0;
}
