#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <sys/sdt.h>

/* Counted up by each tracer that uses the marker. */
unsigned short shop_sold_semaphore __attribute__((section(".probes")));
unsigned short shop_open_semaphore __attribute__((section(".probes")));

struct item { const char *name; long price; short stock; signed char grade; };
static struct item items[] = {{"apple", 3, 7, -1}, {"pear", -5, 300, 2}, {"plum", 1L << 40, -2, 127}};
static int sold;

static void sell(struct item *item, int count) {
    if (shop_sold_semaphore)
        sold++;
    STAP_PROBE5(shop, sold, item->name, item->price, item->stock, item->grade, count);
}

int main(void) {
    STAP_PROBE(shop, open);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 3; i++)
            sell(&items[i], round - 1);
    fprintf(stderr, "seen %d, semaphore %d\n", sold, shop_sold_semaphore);
    return 0;
}
