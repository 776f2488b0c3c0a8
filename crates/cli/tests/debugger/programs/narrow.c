#include <stdio.h>
#include <unistd.h>

int total;
__thread int own = 9;

int add(int a, int b) { return a + b; }

int leaf(int n) { return n; }

int work(int n) {
    total += leaf(n);
    return total;
}

void done(void) {}

int main(void) {
    work(0);
    work(1);
    getppid();
    for (int n = 2; n < 20; n++)
        work(n);
    done();
    fprintf(stderr, "total %d\n", total);
    return 0;
}
