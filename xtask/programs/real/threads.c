// A C program for `cargo xtask real`, built with sanitizers: threads that allocate, and log each call.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4 };

struct worker {
    pthread_t thread;
    int number;
    long count;
    long sum;
};

__attribute__((noinline)) long work(int worker, long index, const char *text) {
    return worker * 7 + index + (long)strlen(text);
}

static void *run(void *argument) {
    struct worker *worker = argument;
    for (long index = 0; index < worker->count; index++) {
        char *text = malloc(32);
        snprintf(text, 32, "text %ld", index);
        worker->sum += work(worker->number, index, text);
        free(text);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        return 2;
    }
    puts("ready");
    fflush(stdout);
    long count = 0;
    if (scanf("%ld", &count) != 1) {
        return 2;
    }
    struct worker workers[THREADS];
    FILE *log = fopen(argv[1], "w");
    if (!log) {
        return 2;
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .count = count / THREADS};
        pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    }
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].sum;
        for (long index = 0; index < workers[i].count; index++) {
            fprintf(log, "%d %ld\n", i, index);
        }
    }
    fclose(log);
    printf("done %ld\n", sum);
    return 0;
}
