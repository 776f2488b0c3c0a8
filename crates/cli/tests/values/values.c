// Shows values of many types to functions of their own, each of which prints its argument as GDB does.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum color { RED, GREEN = 5, BLUE = -1 };
enum flags { READ = 1, WRITE = 2, EXECUTE = 4 };
struct point {
    int x, y;
};
struct bits {
    unsigned low : 3, middle : 7;
    int high : 4;
};
union number {
    int whole;
    float part;
};
struct outer {
    struct point points[2];
    enum flags flags;
    const char *text;
    bool on;
};
typedef struct point place;
typedef long count;

#ifdef COPIES
#define WHOLE
#else
#define WHOLE __attribute__((noinline))
#endif
#define SEE(NAME, TYPE, ...)                                    \
    WHOLE void see_##NAME(TYPE value) {                         \
        printf("%d\t", line);                                   \
        printf(__VA_ARGS__);                                    \
        putchar('\n');                                          \
        __asm__ volatile("" ::: "memory");                      \
    }
static int line;
static const char *flag_text(int value) {
    static const char *texts[] = {"0", "READ", "WRITE", "(READ | WRITE)", "EXECUTE", "(READ | EXECUTE)"};
    return texts[value];
}
static const char *color_text(enum color value) { return value == RED ? "RED" : value == GREEN ? "GREEN" : "BLUE"; }

SEE(int, int, "%d", value)
SEE(unsigned, unsigned, "%u", value)
SEE(short, short, "%d", value)
SEE(unsigned_short, unsigned short, "%u", value)
SEE(long, long, "%ld", value)
SEE(unsigned_long, unsigned long, "%lu", value)
SEE(long_long, long long, "%lld", value)
SEE(count, count, "%ld", value)
SEE(int64, int64_t, "%ld", value)
SEE(uint32, uint32_t, "%u", value)
SEE(char, char, "%d '%c'", value, value)
SEE(signed_char, signed char, "%d '%c'", value, value)
SEE(unsigned_char, unsigned char, "%d '%c'", value, value)
SEE(bool, bool, "%s", value ? "true" : "false")
SEE(float, float, "%g", (double)value)
SEE(double, double, "%.17g", value)
SEE(color, enum color, "%s", color_text(value))
SEE(flags, enum flags, "%s", flag_text(value))
SEE(text, const char *, "%p \"%s\"", (void *)value, value)
SEE(pointer, void *, "(void *) %p", value)
SEE(point, struct point, "{x = %d, y = %d}", value.x, value.y)
SEE(place, place, "{x = %d, y = %d}", value.x, value.y)
SEE(bits, struct bits, "{low = %u, middle = %u, high = %d}", value.low, value.middle, value.high)
SEE(union, union number, "{whole = %d, part = %.9g}", value.whole, (double)value.part)
SEE(outer, struct outer, "{points = {{x = %d, y = %d}, {x = %d, y = %d}}, flags = %s, text = %p \"%s\", on = %s}", value.points[0].x,
    value.points[0].y, value.points[1].x, value.points[1].y, flag_text(value.flags), (void *)value.text, value.text,
    value.on ? "true" : "false")
SEE(null, void *, "(void *) 0x0")
#define see(NAME, ...) (line = __LINE__, see_##NAME(__VA_ARGS__))

// Numbers whose upper halves are of no meaning for what is computed with the lower ones.
static volatile long wide = 0x4567fedc00000000;
static volatile unsigned long full = 0xfeedbeef80000010;

static void compute(void) {
    for (long i = wide; i < wide + 3; i++) {
        unsigned long k = full + i;
        see(int, 1 << ((int)i + 20));
        see(long, 1L << ((int)i + 40));
        see(unsigned, (unsigned)k >> 3);
        see(unsigned, (unsigned)(k >> 3));
        see(int, (int)k >> 3);
        see(unsigned, (unsigned)k >> ((int)i + 1));
        see(unsigned, (unsigned)k / 7);
        see(int, (int)k % 9);
        see(int, (int)k / 5);
        see(bool, (int)k < (int)i);
        see(unsigned_short, (unsigned short)k >> 2);
        see(unsigned_char, ((unsigned char)k >> 1) | 'A');
        see(unsigned, ((unsigned)k << 5) | ((unsigned)k >> 27));
        see(unsigned, ((unsigned)k >> 2) & 15);
        see(long, (long)((int)k >> 4));
        see(unsigned_long, (unsigned long)((unsigned)k >> 4));
        see(unsigned_long, k >> 4);
        if ((unsigned long)i == k) printf("%lx\n", k);
    }
}

int main(void) {
    compute();
    for (int i = 0; i < 3; i++) {
        see(int, i - 1);
        see(int, 1 << (i + 20));
        see(unsigned, -1u - i);
        see(short, -3 * i);
        see(unsigned_short, 65535 - i);
        see(long, -1L << (40 + i));
        see(unsigned_long, -1UL - i);
        see(long_long, 1LL << (60 + i));
        see(count, i * 100);
        see(int64, INT64_MIN + i);
        see(uint32, UINT32_MAX - i);
        see(char, 'a' + i);
        see(signed_char, 'x' + i);
        see(unsigned_char, 'A' + i);
        see(bool, i == 1);
        see(float, i * 0.5f);
        see(double, i * 0.25);
        see(double, 1e100);
        see(color, i == 0 ? RED : i == 1 ? GREEN : BLUE);
        see(flags, i);
        see(flags, READ | WRITE);
        see(flags, READ | EXECUTE);
        see(text, i ? "a text" : "");
        see(text, "another");
        see(pointer, (void *)(uintptr_t)(0x1234560000 + i));
        see(null, (void *)0);
        see(point, (struct point){i, -i});
        see(place, (place){7, i});
        see(bits, (struct bits){i, 100 + i, -i});
        see(union, (union number){.part = 1.5f + i});
        see(outer, (struct outer){{{1, 2}, {3, i}}, i, "inner", i == 2});
    }
}
