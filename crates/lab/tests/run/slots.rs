//! Tables of a given size: the engine's (`--slots`) and the kernel's (`--kernel`).

use crate::command::{TempDir, UFUTEX, assert_refused, output, printed, run, text};
use crate::skipped::skip;
use std::process::Command;
use std::process::Stdio;

#[test]
fn the_program_reads_its_slots_and_may_change_them_unless_immutable() {
    let place = TempDir::new("slots");
    let source = place.file(
        "program.c",
        "#include <errno.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n\
         static int hash(long op, long slots) { return prctl(78, op, slots, 0, 0) < 0 ? -errno : prctl(78, 2, 0, 0, 0); }\n\
         int main(void) { int first = hash(2, 0); printf(\"%d %d\\n\", first, hash(1, 128)); }\n",
        0o644,
    );
    let program = place.path("program");
    let compiled =
        Command::new("sh").args(["-c", "cc $0 -o $1 2>&1", &source, &program]).stdout(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip("cc makes no program here");
    }
    let told = |options: &[&str]| printed(run(options).arg(&program));
    assert_eq!(told(&["--slots", "64"]), "64 128\n");
    assert_eq!(told(&["--slots", "64", "--trap"]), "64 128\n");
    let busy = -libc::EBUSY;
    assert_eq!(told(&["--slots", "64", "--immutable"]), format!("64 {busy}\n"));
    assert_eq!(told(&["--slots", "0"]), format!("0 {busy}\n"), "the global table is for good, as in the kernel");
}

/// The program of the tests of `--kernel`. It prints the kernel's slots at first, in a thread, in a forked child and in
/// an executed program. It also prints whether signal handlers are its own, and whether the slots can be changed.
const KERNELS_SLOTS: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int slots(void) { return prctl(78, 2, 0, 0, 0); }
static void *thread(void *unused) { printf(" thread %d", slots()); return unused; }
static void handler(int signal) { (void)signal; }
int main(int argc, char **argv) {
    if (argc > 1) return printf(" exec %d", slots()) < 0;
    printf("first %d", slots());
    pthread_t made;
    if (pthread_create(&made, NULL, thread, NULL) || pthread_join(made, NULL)) return 1;
    fflush(stdout);
    if (!fork()) { printf(" fork %d", slots()); fflush(stdout); _exit(0); }
    wait(NULL);
    if (!fork()) execl(argv[0], argv[0], "child", (char *)NULL);
    wait(NULL);
    unsigned long action[4];
    for (int i = 0; i < 2; i++) {
        struct sigaction mine = {.sa_handler = handler};
        if (i ? signal(SIGUSR2, handler) == SIG_ERR : sigaction(SIGUSR2, &mine, NULL)) return 2;
        if (syscall(SYS_rt_sigaction, SIGUSR2, NULL, action, 8)) return 3;
        printf(" %s", action[0] == (unsigned long)handler ? "own" : "other");
    }
    int set = prctl(78, 1, 128, 0, 0) ? -errno : slots();
    printf(" set %d\n", set);
    return 0;
}
"#;

/// The compiled program, and whether the kernel has PR_FUTEX_HASH. `None` if there is no compiler.
fn kernels_slots(place: &TempDir) -> Option<(String, bool)> {
    let (source, program) = (place.file("program.c", KERNELS_SLOTS, 0o644), place.path("program"));
    let compiled = Command::new("cc").args(["-pthread", &source, "-o", &program]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("cc makes no program here");
        return None;
    }
    // SAFETY: the call takes only numbers and changes nothing.
    let has_slots = unsafe { libc::prctl(78, 2, 0, 0, 0) } >= 0;
    Some((program, has_slots))
}

#[test]
fn with_kernel_the_program_and_its_children_have_the_kernels_slots() {
    let place = TempDir::new("kernel");
    let Some((program, has_slots)) = kernels_slots(&place) else { return };
    for slots in ["64", "2", "0"] {
        let mut command = run(["--kernel", "--slots", slots, &program]);
        if !has_slots {
            skip("this kernel has no PR_FUTEX_HASH (Linux 6.16): only its refusal is tested");
            let line = format!(
                "--kernel --slots {slots}: prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, {slots}, 0) fails with EINVAL; \
                 accepted: a kernel that has it: Linux 6.16 or later, with CONFIG_FUTEX_PRIVATE_HASH"
            );
            assert_refused(&mut command, 125, &line);
            continue;
        }
        let set = if slots == "0" { -libc::EBUSY } else { 128 };
        assert_eq!(
            printed(&mut command),
            format!("first {slots} thread {slots} fork {slots} exec {slots} own own set {set}\n")
        );
    }
}

#[test]
fn with_kernel_immutable_holds_or_is_refused_in_one_line_before_the_program_starts() {
    let place = TempDir::new("immutable");
    let Some((program, has_slots)) = kernels_slots(&place) else { return };
    if !has_slots {
        return skip("this kernel has no PR_FUTEX_HASH (Linux 6.16)");
    }
    let mut command = run(["--kernel", "--slots", "64", "--immutable", &program]);
    let ended = output(&mut command);
    if ended.status.success() {
        let said = format!("first 64 thread 64 fork 64 exec 64 own own set {}\n", -libc::EBUSY);
        assert_eq!(text(&ended.stdout), said);
        return;
    }
    let line = "--kernel --slots 64 --immutable: prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 64, 1) fails with EINVAL; \
                accepted: without --immutable, which Linux 6.16 alone has";
    assert_refused(&mut command, 125, line);
}

#[test]
fn with_kernel_what_a_trap_holds_and_what_is_static_are_refused() {
    let place = TempDir::new("kernel-refused");
    let mut trapped = run(["--trap", UFUTEX, "run", "--kernel", "--slots", "64", "true"]);
    let line = "--kernel: this process already runs under --trap; accepted: run it outside";
    assert_refused(&mut trapped, 125, line);
    let (source, program) = (place.file("program.c", "int main(void) { return 0; }\n", 0o644), place.path("program"));
    let compiled = Command::new("cc").args(["-static", &source, "-o", &program]).stderr(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip("cc -static makes no program here (libc.a is missing?)");
    }
    let output = output(&mut run(["--kernel", "--slots", "64", &program]));
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(126), 1), "{line}");
    assert!(line.contains("statically linked"), "{line}");
}
