/* Threads that come by places in a random order and keep a log of it.
   mixed RESULTS SEED THREADS EVENTS PAUSE */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, EVENTS = 64, KINDS = 6 };

/* What a tracepoint collects: its address is in r12 at every place, and eight instructions behind it. */
struct thread { int64_t number, sequence; };
struct thread threads[THREADS];

/* The tickets were drawn directly before and after the call. */
struct entry { int64_t before, after, kind; };
static struct entry entries[THREADS][EVENTS];
static int64_t numbers[THREADS], pause_tickets[2] = { -1, -1 };
static atomic_long tickets;
static int events, pause_at;
static uint64_t seed;

/* Five bytes are a jump; one byte, or two before a loop's head, need another way, mostly a trap. */
__asm__(
    ".text\n"
    ".p2align 4\n.globl place0\n.type place0, @function\n"
    "place0: movl $1, %eax\n ret\n.size place0, .-place0\n"
    ".p2align 4\n.globl place1\n.type place1, @function\n"
    "place1: movl $2, %eax\n ret\n.size place1, .-place1\n"
    ".p2align 4\n.globl place2\n.type place2, @function\n"
    "place2: cltd\n ret\n.size place2, .-place2\n"
    ".p2align 4\n.globl place3\n.type place3, @function\n"
    "place3: movl $3, %eax\n jmp place1\n.size place3, .-place3\n"
    ".p2align 4\n.globl place4\n.type place4, @function\n"
    "place4: movl $4, %eax\n"
    ".globl place5\n"
    "place5: movl $5, %ecx\n ret\n.size place4, .-place4\n"
    ".p2align 4\n.globl place6\n.type place6, @function\n"
    "place6: movl $2, %ecx\n"
    ".globl place7\n"
    "place7: subl $1, %ecx\n jnz place7\n ret\n.size place6, .-place6\n");

typedef void place(void);
place place0, place1, place2, place3, place4, place6;
/* As the test knows them: kind 3 comes by 3 and 1, kind 4 by 4 and 5, kind 5 by 6 and twice by 7. */
static place *const kinds[KINDS] = { place0, place1, place2, place3, place4, place6 };

__attribute__((noinline)) void pause_here(void) { __asm__ volatile("nop"); }

static void *run(void *argument) {
    struct thread *self = argument;
    uint64_t state = seed * 4 + self->number + 1;
    numbers[self->number] = gettid();
    for (int event = 0; event < events; event++) {
        struct entry *entry = &entries[self->number][event];
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        entry->kind = (state >> 20) % KINDS;
        self->sequence = event;
        if (event == pause_at && self->number == 0) {
            pause_tickets[0] = atomic_fetch_add(&tickets, 1);
            pause_here();
            pause_tickets[1] = atomic_fetch_add(&tickets, 1);
        }
        entry->before = atomic_fetch_add(&tickets, 1);
        register struct thread *known __asm__("r12") = self;
        register int64_t sequence __asm__("rsi") = event;
        __asm__ volatile("call *%[place]\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
                         : "+r"(sequence)
                         : [place] "r"(kinds[entry->kind]), "r"(known)
                         : "rax", "rcx", "rdx", "memory", "cc");
        entry->after = atomic_fetch_add(&tickets, 1);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    seed = strtoull(arguments[2], 0, 10);
    int number = atoi(arguments[3]);
    events = atoi(arguments[4]);
    pause_at = atoi(arguments[5]);
    if (number > THREADS || events > EVENTS) return 2;
    pthread_t others[THREADS];
    for (int i = 0; i < number; i++) threads[i].number = i;
    for (int i = 1; i < number; i++) pthread_create(&others[i], 0, run, &threads[i]);
    run(&threads[0]);
    for (int i = 1; i < number; i++) pthread_join(others[i], 0);
    FILE *file = fopen(arguments[1], "w");
    fwrite(pause_tickets, sizeof pause_tickets, 1, file);
    for (int i = 0; i < number; i++) {
        fwrite(&numbers[i], sizeof numbers[i], 1, file);
        fwrite(entries[i], sizeof entries[i][0], events, file);
    }
    fclose(file);
    return 0;
}
