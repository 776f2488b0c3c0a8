#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

// A program with a secret in every way that a program can name it. The text is in no file: it is made here.
static void make (char *to) { for (int i = 0; i < 24; i++) to[i] = 'A' + (i * 7 + 5) % 26; to[24] = 0; }

struct Credentials { char text[32]; };
typedef char secret_t[32];
struct User { int id; char password[32]; int age; std::string token; const char *api_key; };
struct Outer { int before; User inner; int after; };
struct Derived : Credentials { int extra; };
struct Holder { int held; static char cookie[32]; };
char Holder::cookie[32];
union Mixed { unsigned long token; unsigned long plain; };
struct Login { char name[3]; char password[32]; };
struct Bits { unsigned low : 8; unsigned passcode : 24; };
char g_password[32];
namespace ns { char client_secret[32]; }

static User made (int id)
{
  User user {};
  user.id = id;
  make (user.password);
  user.age = 40 + id;
  char text[32];
  make (text);
  user.token = text;
  char *key = new char[32];
  make (key);
  user.api_key = key;
  return user;
}

__attribute__ ((noinline)) static int number () { return 1; }

__attribute__ ((noinline)) int seen (User *user, const char *password, unsigned long token, Credentials creds, Credentials &other,
                                     const std::string &authToken, int id)
{
  char passwd[32];
  make (passwd);
  secret_t plain;
  make (plain);
  const char *apiKey = password;
  auto &copy = *new User (*user);
  auto &array = *new std::array<User, 2> { *user, *user };
  User local = *user;
  User both[2] = { *user, *user };
  Outer outer { 1, *user, 3 };
  Derived derived;
  make (derived.text);
  derived.extra = 9;
  Holder holder { 7 };
  Mixed mixed { token };
  auto &login = *new Login { "ab", {} };
  make (login.password);
  const char *nick = login.name;
  Bits bits { 5, (unsigned) token & 0xffffff };
  std::vector<Credentials> creds_of { creds, creds };
  std::vector<User> users { *user, *user };
  std::deque<User> queue { *user };
  std::list<User> chain { *user };
  std::map<int, User> by_id { { 1, *user } };
  std::unique_ptr<User> owned (new User (*user));
  std::optional<std::string> cookie (authToken);
  std::pair<int, Credentials> pair (1, creds);
  std::tuple<int, User> tuple (2, *user);
  std::vector<std::string> names { "ann", "bob" };
  static char kept_secret[32];
  make (kept_secret);
  int sum = number ();
  return sum + id + copy.id + array[0].id + local.id + both[0].id + outer.after + derived.extra + holder.held + bits.low + plain[0]
    + passwd[0] + apiKey[0] + creds.text[0] + other.text[0] + kept_secret[0] + (int) mixed.plain + nick[0]; // here
}

int main ()
{
  make (g_password);
  make (ns::client_secret);
  make (Holder::cookie);
  User *user = new User (made (1));
  Credentials *credentials = new Credentials;
  make (credentials->text);
  unsigned long *number = new unsigned long;
  memcpy (number, g_password, 8);
  std::string *text = new std::string (g_password);
  // What was on the stack before is no part of any variable.
  char *overwritten = (char *) __builtin_alloca (65536);
  memset (overwritten, 0, 65536);
  asm volatile ("" : : "r" (overwritten) : "memory");
  for (int i = 0; i < 20; i++)
    seen (user, g_password, *number, *credentials, *credentials, *text, 100 + i);
  puts ("done");
  fflush (stdout);
  char byte;
  return read (0, &byte, 1) == 0 ? 0 : 1;
}
