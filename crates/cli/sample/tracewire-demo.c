/* The program that `tracewire demo` traces: three workers take orders in turn. */

#include <pthread.h>
#include <stdio.h>

enum kind { BOOK, RECORD, TOY };

struct customer
{
  const char *name;
  int rating;
};

struct order
{
  int id;
  enum kind kind;
  const struct customer *customer;
  int quantity;
  double price;
};

#define WORKERS 3
#define ORDERS 9

static const struct customer customers[] = { { "Ada", 5 }, { "Grace", 4 }, { "Edsger", 2 } };

static struct order orders[ORDERS] = {
  { 101, BOOK, &customers[0], 1, 12.5 },  { 102, TOY, &customers[1], 4, 3.25 },
  { 103, RECORD, &customers[2], 1, 9.0 }, { 104, BOOK, &customers[1], 7, 12.5 },
  { 105, TOY, &customers[0], 2, 3.25 },   { 106, BOOK, &customers[2], 1, 30.0 },
  { 107, RECORD, NULL, 3, 9.0 },          { 108, TOY, &customers[0], 1, 3.25 },
  { 109, BOOK, &customers[1], 5, 12.5 },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;
static double takings;

static int
discount (const struct order *order)
{
  int percent = order->quantity > 3 ? 10 : 0;
  if (order->customer && order->customer->rating > 4)
    percent += 5;
  return percent;
}

static double
serve (struct order *order, int worker)
{
  int percent = discount (order);
  double sum = order->quantity * order->price * (100 - percent) / 100;
  takings += sum;
  return sum;
}

static void *
work (void *argument)
{
  int worker = (int) (long) argument;
  for (int i = worker; i < ORDERS; i += WORKERS)
    {
      pthread_mutex_lock (&lock);
      while (turn != i)
        pthread_cond_wait (&turned, &lock);
      serve (&orders[i], worker);
      turn++;
      pthread_cond_broadcast (&turned);
      pthread_mutex_unlock (&lock);
    }
  return NULL;
}

int
main (void)
{
  pthread_t workers[WORKERS];
  for (long i = 0; i < WORKERS; i++)
    pthread_create (&workers[i], NULL, work, (void *) i);
  for (int i = 0; i < WORKERS; i++)
    pthread_join (workers[i], NULL);
  printf ("%d orders, takings %.2f\n", ORDERS, takings);
  return 0;
}
