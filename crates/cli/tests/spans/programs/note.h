/* The log that a program keeps of its own calls, to be compared with the spans of a recording. */
#ifndef NOTE_H
#define NOTE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

#define MOST (1 << 22)
struct note { int thread; char kind; const char *name; long value; };
static struct note *notes;
static int count;
static __thread int thread_id;

/* E: entered with a value; R: returns a value; T: jumps to another function; J, X: back in the named function after longjmp, an
   exception; D: the thread ends; P: the process ends. */
static void __attribute__((noinline)) note(char kind, const char *name, long value)
{
    if (!thread_id)
        thread_id = (int)syscall(SYS_gettid);
    int at = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
    if (at < MOST) {
        struct note made = {thread_id, kind, name, value};
        notes[at] = made;
    }
}

static void begin_notes(void)
{
    notes = (struct note *)calloc(MOST, sizeof *notes);
}

/* To standard output, or to the file that is named by the environment. */
static void print_notes(void)
{
    int all = count < MOST ? count : MOST;
    const char *file = getenv("NOTES_FILE");
    FILE *out = file ? fopen(file, "w") : stdout;
    for (int at = 0; at < all; at++)
        fprintf(out, "%d %c %s %ld\n", notes[at].thread, notes[at].kind, notes[at].name, notes[at].value);
    fflush(out);
}
#endif
