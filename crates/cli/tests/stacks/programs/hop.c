/* A library that calls back, with call frames of many sizes. */
#include <string.h>

int hop(int (*back)(int, unsigned), int depth, unsigned seed)
{
    char room[64 + seed % 512];
    memset(room, (int)seed, sizeof room);
    int got = back(depth - 1, seed);
    return got + room[seed % sizeof room];
}

int hop_far(int (*back)(int, unsigned), int depth, unsigned seed)
{
    if (seed & 1)
        return hop(back, depth, seed >> 1) + 1;
    return back(depth - 1, seed) * 3;
}
