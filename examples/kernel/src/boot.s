# From the state in which a CPU starts to `start_cpu` in 64-bit mode, on the stack of thread `STARTING_CPU`. All CPUs
# use the same page tables, in which each address below 4 GiB stands for itself.

# QEMU starts the first CPU at the address in this note (PVH), in 32-bit mode without paging.
.section .note.pvh, "a", @note
.balign 4
.long 4, 4, 18
.asciz "Xen"
.long boot

.section .text.boot, "ax"
.code32
.global boot
boot:
    # 2048 large pages of 2 MiB: present, writable.
    mov $directories, %edi
    mov $0x83, %eax
1:  mov %eax, (%edi)
    add $8, %edi
    add $0x200000, %eax
    cmp $directories + 4 * 4096, %edi
    jne 1b
    movl $directories + 0x0003, pointers
    movl $directories + 0x1003, pointers + 8
    movl $directories + 0x2003, pointers + 16
    movl $directories + 0x3003, pointers + 24
    movl $pointers + 3, top
    jmp to_long_mode

# The other CPUs start here, in real mode, at the copy that `smp.rs` makes of the lines up to `ap_end`.
.code16
.global ap_start, ap_end
ap_start:
    cli
    lgdtl %cs:(ap_descriptors - ap_start)
    mov %cr0, %eax
    or $1, %eax
    mov %eax, %cr0
    ljmpl $0x18, $ap_protected
.balign 8
ap_descriptors:
    .word descriptors_end - descriptors - 1
    .long descriptors
ap_end:

.code32
ap_protected:
    mov $0x10, %ax
    mov %ax, %ds
    mov %ax, %ss

to_long_mode:
    mov %cr4, %eax
    or $0x20, %eax # physical address extension
    mov %eax, %cr4
    mov $top, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx # EFER
    rdmsr
    or $0x100, %eax # long mode
    wrmsr
    mov %cr0, %eax
    or $0x80010000, %eax # paging, write protection
    mov %eax, %cr0
    lgdt ap_descriptors
    ljmp $0x08, $long_mode

.code64
long_mode:
    mov $0x10, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    cld
    mov STARTING_CPU, %edi
    lea 1(%rdi), %rsp
    shl $16, %rsp # the size of a stack
    add $STACKS, %rsp
    call start_cpu
    ud2

.section .data.boot, "aw"
.balign 8
descriptors:
    .quad 0
    .quad 0x00af9a000000ffff # 0x08: code, 64 bits
    .quad 0x00cf92000000ffff # 0x10: data
    .quad 0x00cf9a000000ffff # 0x18: code, 32 bits
descriptors_end:

.section .bss.boot, "aw", @nobits
.balign 4096
top: .skip 4096
pointers: .skip 4096
directories: .skip 4 * 4096
.text
