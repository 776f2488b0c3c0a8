#include <stdio.h>

struct item { const char *name; int price; };
struct item items[] = {{"apple", 3}, {"pear", 5}, {0, 9}, {"plum", -2}};
int visits;

int look(struct item *item, int round) {
    visits++;
    return item->price * round;
}

int main(void) {
    int sum = 0;
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++)
            sum += look(&items[i], round);
    fprintf(stderr, "sum %d visits %d\n", sum, visits);
    return 0;
}
