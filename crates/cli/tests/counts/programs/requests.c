/* Threads that serve requests of some kinds: `requests THREADS HITS`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum kind { GET, PUT, DELETE };

struct request {
    enum kind kind;
    int fd;
    long bytes;
    const char *route;
    unsigned id;
    const char *note;
};

static volatile unsigned long sink;

__attribute__((noinline)) long serve(const struct request *r, int n)
{
    unsigned long sum = 0;
    __asm__ volatile("" : : "r"(r) : "memory");
    for (int i = 0; i < n; i++)
        sum = sum * 31 + i;
    sink += sum;
    return r->bytes + 1;
}

/* Too short for a jump, and a displacement that ends in the bytes behind it leads to no memory. */
__attribute__((noinline, naked)) static void tiny(void)
{
    __asm__("ret; .fill 16, 1, 0xf0");
}

static int hits;

static void *run(void *argument)
{
    static const char *routes[] = {"/", "/index.html", "/api/orders", "/api/users"};
    unsigned thread = (unsigned)(long)argument;
    unsigned seed = thread * 7919 + 1;
    for (int i = 0; i < hits; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned x = seed >> 8;
        struct request r = {x % 3, x % 7, (long)(x % 1000) - 100, routes[x % 4], thread * 1000000 + i, 0};
        r.note = r.kind == GET ? (const char *)8 : "fine";
        serve(&r, x % 16);
        tiny();
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int count = argc > 1 ? atoi(argv[1]) : 1;
    hits = argc > 2 ? atoi(argv[2]) : 1;
    for (long i = 0; i < count; i++)
        pthread_create(&threads[i], 0, run, (void *)i);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], 0);
    return 0;
}
