// Two copies of the library in one process, as when two plugins each bring their own. Neither takes the other's handles.
#include <dlfcn.h>

#include "check.h"

#define FUNCTIONS(f)                                                                                                  \
    f(ufutex_system_new) f(ufutex_system_free) f(ufutex_domain_new) f(ufutex_domain_free) f(ufutex_task_new)          \
    f(ufutex_task_free) f(ufutex_task_interrupt) f(ufutex_wake)
#define MEMBER(name) __typeof__(&name) name;

struct copy {
    FUNCTIONS(MEMBER)
    ufutex_system *system;
    ufutex_domain *domain;
    ufutex_task *task;
};

static uint32_t word;

static void open_copy(struct copy *copy, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, true);
#define LOAD(name) *(void **)&copy->name = dlsym(library, #name);
    FUNCTIONS(LOAD)
    CHECK(copy->ufutex_system_new(NULL, &copy->system), 0);
    CHECK(copy->ufutex_domain_new(copy->system, NULL, &copy->domain), 0);
    CHECK(copy->ufutex_task_new(copy->domain, 1, 0, &copy->task), 0);
}

int main(int count, char **arguments)
{
    static struct copy copies[2];
    CHECK(count, 3);
    for (int i = 0; i < 2; i++)
        open_copy(&copies[i], arguments[1 + i]);
    CHECK(copies[0].ufutex_wake != copies[1].ufutex_wake, true);
    for (int i = 0; i < 2; i++) {
        struct copy *own = &copies[i], *other = &copies[1 - i];
        ufutex_domain *made = NULL;
        CHECK(own->ufutex_wake(other->domain, AT(&word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), -EBADF);
        CHECK(own->ufutex_domain_new(other->system, NULL, &made), -EBADF);
        CHECK(own->ufutex_task_interrupt(other->task), -EBADF);
        CHECK(own->ufutex_task_free(other->task), -EBADF);
        CHECK(own->ufutex_domain_free(other->domain), -EBADF);
        CHECK(own->ufutex_system_free(other->system), -EBADF);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(copies[i].ufutex_wake(copies[i].domain, AT(&word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 0);
        CHECK(copies[i].ufutex_task_free(copies[i].task), 0);
        CHECK(copies[i].ufutex_domain_free(copies[i].domain), 0);
        CHECK(copies[i].ufutex_system_free(copies[i].system), 0);
    }
    return 0;
}
