/* Calls that are the same in a program of Linux and in one without a system: both are linked with this object. */
struct item { int id; int weight; };
volatile long total;

__attribute__((noinline)) long leaf(struct item *item, long depth)
{
    total += item->weight * depth;
    return total;
}

__attribute__((noinline)) long middle(struct item *item, long depth)
{
    if (depth == 0)
        return leaf(item, item->id) + 1;
    return middle(item, depth - 1) + 1;
}

__attribute__((noinline)) void calls(void)
{
    for (int turn = 0; turn < 12; turn++) {
        struct item item = {turn, 10 * turn};
        middle(&item, turn % 5);
    }
}
