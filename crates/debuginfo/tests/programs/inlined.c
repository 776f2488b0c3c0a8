/* Functions that begin with inlined copies of others, whose arguments have other names and values. */
#include <stdio.h>
#include <stdlib.h>

struct point { long x, y; };

static volatile long sink;

static inline __attribute__((always_inline)) void note(long dummy) { sink = dummy; }
static inline __attribute__((always_inline)) long scaled(long amount, int factor) { return amount * factor + sink; }
static inline __attribute__((always_inline)) long twice_noted(long inner, long other)
{
  note(inner + other);
  long deep = scaled(other, 3);
  return deep + inner;
}

__attribute__((noinline)) long first_noted(int number, long weight)
{
  note(weight);
  return number + weight;
}

__attribute__((noinline)) long first_scaled(struct point *where, int times, char letter)
{
  return scaled(where->x, times) + letter;
}

__attribute__((noinline)) long nested_copies(long left, long right, unsigned flags)
{
  long sum = twice_noted(left, right);
  for (unsigned bit = 0; bit < 4; bit++)
    if (flags >> bit & 1)
      sum += scaled(sum, bit);
  return sum;
}

__attribute__((noinline)) long unused_arguments(int kept, int dropped, long also_dropped)
{
  note(kept);
  return kept;
}

__attribute__((noinline)) long on_the_stack(int a, int b, int c, int d, int e, int f, long seventh, long eighth)
{
  note(seventh);
  return scaled(eighth, a + b) + c + d + e + f + seventh;
}

__attribute__((noinline)) double floating(double ratio, float small)
{
  note((long)ratio);
  return ratio * small;
}

/* A copy that is called from two places, and never by itself. */
static inline __attribute__((always_inline)) long copied(long copied_value, int copied_count)
{
  note(copied_value);
  return copied_value << copied_count;
}

__attribute__((noinline)) long caller_of_copy(long start)
{
  return copied(start, 2);
}

__attribute__((noinline)) long other_caller(int seed, struct point where)
{
  return copied(where.x + seed, 1) + where.y;
}

int main(int argc, char **argv)
{
  long sum = argc > 5 ? atoi(argv[1]) : 0;
  struct point where = { 11, 22 };
  for (int i = 1; i <= 6; i++)
    {
      where.x += i;
      sum += first_noted(i, 100 + i);
      sum += first_scaled(&where, i + 1, 'a' + i);
      sum += nested_copies(i, i * 2, 5);
      sum += unused_arguments(i, i + 1, i + 2);
      sum += on_the_stack(i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 60, i + 70);
      sum += (long)floating(i * 0.5, 0.25f * i);
      sum += caller_of_copy(i + 1000);
      sum += other_caller(i, where);
    }
  printf("%ld\n", sum);
  return 0;
}
