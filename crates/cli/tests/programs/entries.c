/* Functions as an optimiser leaves them: inlined, cloned, split, with cold parts, with arguments that are not passed as they
   are written. Each call prints the function and its arguments before it is made, so that the function itself is as it
   would be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL(f, format, ...) (printf ("@" #f " " format "\n", __VA_ARGS__), f (__VA_ARGS__))
#define NOINLINE __attribute__ ((noinline))
#define INLINE static inline __attribute__ ((always_inline))

struct pair { long first, second; };
struct node { int value; struct node *next; };

static volatile long sink;
static jmp_buf out;

/* Out of line, arguments of every kind. */
NOINLINE long whole (int a, long b, unsigned c, short d) { sink = a; return a + b + c + d; }
NOINLINE double mixed (double x, int n, float y) { sink = n; return x * n + y; }
NOINLINE long many (long a, long b, long c, long d, long e, long f, long g, int h) { sink = g; return a + b + c + d + e + f + g + h; }
NOINLINE long unused (int a, int b, long c) { (void)b; sink = a; return c; }
NOINLINE long pointed (struct node *node, int depth) { sink = depth; return node ? node->value + depth : -1; }
NOINLINE long changed (long n, long step) { while (n > 10) { n -= step; sink = n; } return n; }
NOINLINE int leaf (int n) { return n * 3 + 1; }
NOINLINE void nothing (int n) { if (n < 0) abort (); sink = n; }
NOINLINE unsigned char narrow (unsigned short low, signed char high) { sink = high; return (unsigned char)(low + high); }
NOINLINE long wide (unsigned long big, long long other) { sink = (long)big; return (long)(big >> 3) + other; }

/* Arguments that the compiler removes or changes: a constant one, a part of a structure, one that nobody reads. */
static NOINLINE int constant_argument (int n, int always) { sink = n; return n * always; }
static NOINLINE long only_part (const struct pair *p, int n) { sink = n; return p->first + n; }
static NOINLINE int never_read (int n, int ignored) { sink = n; return n + 2; }

/* A cold part: the unlikely way out is moved away. */
NOINLINE int with_cold (int n, const struct pair *p)
{
  sink = n;
  if (__builtin_expect (n % 7 == 6, 0))
    {
      fprintf (stderr, "cold %d %ld\n", n, p->first);
      longjmp (out, n);
    }
  return n * 2 + (int)p->second;
}
__attribute__ ((cold, noinline)) int all_cold (int n, int m) { sink = n; return n - m; }

/* Split: the beginning is inlined into the callers, the rest is a function of its own. */
static long part_of_it (int key, long weight)
{
  if (key < 2)
    return weight;
  long sum = 0;
  for (int i = 0; i < key; i++)
    {
      sink = i;
      sum += printf ("%s", "") + i * weight;
    }
  for (int i = key; i > 0; i--)
    {
      sink = i;
      sum -= printf ("%s", "") + i;
    }
  fflush (NULL);
  return sum;
}

/* Inlined everywhere. */
INLINE int copied (int n, int bias) { sink = n; return n + bias; }
INLINE int nested_copy (int n, int twice) { sink = twice; return copied (n, twice * 2) + 1; }
INLINE long looped (long n, int base) { long digits = 0; sink = base; for (; n; n /= base) digits++; return digits; }
static int maybe_inlined (int n, long k) { sink = k; return n ^ (int)k; }

/* Begin with an inlined callee's first instruction. */
NOINLINE long first_is_inlined (int outer, long other) { return copied (outer, 5) + other; }
NOINLINE long first_is_nested (int outer, int factor) { return nested_copy (outer, factor) + factor; }
NOINLINE long calls_the_split (int outer, long weight) { return CALL (part_of_it, "key=%d weight=%ld", outer, weight) + outer; }

/* Recursion and calls that become jumps. */
NOINLINE long recursive (int n, long so_far)
{
  long rest = n > 0 ? CALL (recursive, "n=%d so_far=%ld", n - 1, so_far + n) : so_far;
  sink = rest;
  return rest ^ n;
}
NOINLINE long jumped_to (long a, int b) { sink = b; return a + b; }
NOINLINE long jumps (int b, long a) { sink = a; return CALL (jumped_to, "a=%ld b=%d", a, b); }
NOINLINE int is_odd (unsigned n);
NOINLINE int is_even (unsigned n) { sink = n; return n == 0 || CALL (is_odd, "n=%u", n - 1); }
NOINLINE int is_odd (unsigned n) { sink = n; return n != 0 && CALL (is_even, "n=%u", n - 1); }

/* Through pointers, and under two names. */
NOINLINE long by_pointer (long n, int k) { sink = k; return n - k; }
NOINLINE int renamed (int n) { sink = n; return n + 9; }
int other_name (int n) __attribute__ ((alias ("renamed")));

NOINLINE int summed (int count, ...)
{
  va_list list;
  int sum = 0;
  va_start (list, count);
  for (int i = 0; i < count; i++)
    sum += va_arg (list, int);
  va_end (list);
  sink = sum;
  return sum;
}
NOINLINE long on_stack (struct pair p, int n) { sink = n; return p.first * n + p.second; }
NOINLINE int switched (int kind, int n)
{
  switch (kind)
    {
    case 0: return n;
    case 1: sink = n; return n * 2;
    case 2: return CALL (leaf, "n=%d", n);
    case 3: sink = 1; return -n;
    case 4: return n / 2;
    case 5: return n << 2;
    default: return 0;
    }
}

static long dispatch (int i)
{
  static long (*const table[]) (long, int) = { by_pointer, jumped_to };
  printf (i % 2 ? "@jumped_to a=%d b=%d\n" : "@by_pointer n=%d k=%d\n", i, i * 2);
  return table[i % 2] (i, i * 2);
}

int main (int argc, char **argv)
{
  int rounds = argc > 1 ? atoi (argv[1]) : 9;
  struct node last = { 7, NULL }, first = { 3, &last };
  struct pair pair = { rounds, 4 };
  long sum = 0;
  for (int i = 0; i < rounds; i++)
    {
      sum += CALL (whole, "a=%d b=%ld c=%u d=%d", i, i * 100L, i + 7u, (short)-i);
      sum += (long)CALL (mixed, "x=%g n=%d y=%g", i * 0.5, i, i + 0.25f);
      sum += CALL (many, "a=%ld b=%ld c=%ld d=%ld e=%ld f=%ld g=%ld h=%d", i + 1L, i + 2L, i + 3L, i + 4L, i + 5L, i + 6L, i + 7L, i + 8);
      sum += CALL (unused, "a=%d b=%d c=%ld", i, i + 40, i * 3L);
      sum += CALL (pointed, "node=%p depth=%d", i % 2 ? &first : &last, i);
      sum += CALL (changed, "n=%ld step=%ld", i * 9L, i + 1L);
      sum += CALL (leaf, "n=%d", i);
      CALL (nothing, "n=%d", i);
      sum += CALL (narrow, "low=%u high=%d", (unsigned short)(i + 300), (signed char)(i - 5));
      sum += CALL (wide, "big=%lu other=%lld", i * 10000000000ul, i - 3ll);
      sum += CALL (constant_argument, "n=%d always=%d", i, 6);
      sum += CALL (only_part, "p=%p n=%d", &pair, i);
      sum += CALL (never_read, "n=%d ignored=%d", i, i * 8);
      if (!setjmp (out))
        sum += CALL (with_cold, "n=%d p=%p", i, &pair);
      sum += CALL (all_cold, "n=%d m=%d", i, i * 5);
      sum += CALL (part_of_it, "key=%d weight=%ld", i % 4, i + 2L);
      sum += CALL (copied, "n=%d bias=%d", i, i * 7);
      printf ("@copied n=%d bias=%d\n", i, (i + 3) * 2);
      sum += CALL (nested_copy, "n=%d twice=%d", i, i + 3);
      sum += CALL (looped, "n=%ld base=%d", i * 111L, 10);
      sum += CALL (maybe_inlined, "n=%d k=%ld", i, i * 6L);
      printf ("@copied n=%d bias=5\n", i);
      sum += CALL (first_is_inlined, "outer=%d other=%ld", i, i * 2L);
      printf ("@nested_copy n=%d twice=%d\n@copied n=%d bias=%d\n", i, i + 1, i, (i + 1) * 2);
      sum += CALL (first_is_nested, "outer=%d factor=%d", i, i + 1);
      sum += CALL (calls_the_split, "outer=%d weight=%ld", i % 5, i * 4L);
      sum += CALL (recursive, "n=%d so_far=%ld", i % 4, i + 0L);
      sum += CALL (jumps, "b=%d a=%ld", i, i * 2L);
      sum += CALL (is_even, "n=%u", i % 5u);
      sum += dispatch (i);
      sum += CALL (renamed, "n=%d", i);
      printf ("@renamed n=%d\n", i + 1);
      sum += other_name (i + 1);
      printf ("@summed count=3\n");
      sum += summed (3, i, i + 1, i + 2);
      printf ("@on_stack n=%d\n", i);
      sum += on_stack (pair, i);
      sum += CALL (switched, "kind=%d n=%d", i % 7, i);
    }
  printf ("%ld\n", sum);
  return 0;
}
