volatile double sink;
volatile long double wide;

__attribute__ ((noinline)) void
note (int x)
{
  sink += x;
}

/* Of the locals, nothing but what the debug information says of them is left.  */
__attribute__ ((noinline)) double
convert (float a, double b, long double c, int d, unsigned long e)
{
  double sum = a + b * d;
  double difference = sum - (double) c;
  double ratio = difference / b;
  double minus = -ratio;
  float narrow = (float) ratio;
  float both = narrow * a - narrow / a;
  long whole = (long) sum;
  unsigned big = (unsigned) (b * 3);
  unsigned long rounded = (unsigned long) (sum + e);
  long double product = c * 3 + d;
  long double quotient = product / c;
  long double mixed = quotient * quotient - product + a;
  double size = __builtin_fabs (minus);
  float back = (float) quotient;
  long from_wide = (long) product;
  int less = a < b, more = c > a, same = a == b;
  sink = 1; /* computed */
  note (d);
  sink = 2; /* called */
  return e;
}

__attribute__ ((noinline)) double
passed (int count, double weight, long mark)
{
  sink = weight;
  note (count);
  sink = count; /* passed */
  note (3);
  return mark;
}

int
main (int argc, char **argv)
{
  double result = 0;
  for (int i = 0; i < 6; i++)
    {
      double b = (i - 2) * 0.7 * argc;
      result += convert (argc * i + 0.3f, b, 1.1L * i, i - 3, 1ul << (argc + 10 * i));
    }
  result += passed (argc, 2.5, 7);
  for (int i = 0; i < argc; i++)
    result += passed (argc + 1, result, i);
  return result > 3;
}
