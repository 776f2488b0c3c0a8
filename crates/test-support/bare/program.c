/* A program without a system: it counts, in a list and in a table, for ever. */
struct item { int id; const char *name; struct item *next; };
struct item items[3] = {
    {1, "one", &items[1]}, {2, "two", &items[2]}, {3, "three", &items[0]}};
int total, rounds;
int table[8] = {1, 2, 3, 5, 8, 13, 21, 34};

__attribute__((noinline)) int work(int n, struct item *item) {
    total += n;
    item->id += table[n & 7];
    return total;
}

__attribute__((noinline)) void round_done(int round) { rounds = round; }

/* After each hundred rounds. */
__attribute__((noinline)) void hundred_done(int round) { rounds = round; }

void run(void) {
    struct item *item = items;
    int left = 100;
    for (int round = 1;; round++) {
        for (int n = 0; n < 10; n++) {
            work(n, item);
            item = item->next;
        }
        round_done(round);
        if (--left == 0) {
            hundred_done(round);
            left = 100;
        }
    }
}
char stack[4096] __attribute__((aligned(16)));
