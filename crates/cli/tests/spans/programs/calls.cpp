// Calls that end by return and by exception, with return values in every kind of register.
#include "note.h"
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include "handlers.h"

#define TRACED __attribute__((noipa))

struct Pair { int one; double two; };
struct Three { long a, b, c; };
struct Floats { float x, y, z; };

TRACED double t_double(int n)
{
    note('E', "t_double", n);
    note('R', "t_double", 0);
    return n + 0.5;
}

TRACED Pair t_pair(int n)
{
    note('E', "t_pair", n);
    note('R', "t_pair", 0);
    return {n, n / 4.0};
}

TRACED Three t_three(int n)
{
    note('E', "t_three", n);
    note('R', "t_three", 0);
    return {n, n + 1, n + 2};
}

TRACED Floats t_floats(int n)
{
    note('E', "t_floats", n);
    note('R', "t_floats", 0);
    return {n + 0.25f, n + 0.5f, n + 0.75f};
}

TRACED long double t_long(int n)
{
    note('E', "t_long", n);
    note('R', "t_long", 0);
    return n + 0.5L;
}

TRACED std::unique_ptr<int> t_owner(int n)
{
    note('E', "t_owner", n);
    note('R', "t_owner", 0);
    return std::make_unique<int>(n);
}

TRACED std::string t_text(int n)
{
    note('E', "t_text", n);
    note('R', "t_text", 0);
    return "number " + std::to_string(n);
}

TRACED bool t_bool(int n)
{
    note('E', "t_bool", n);
    note('R', "t_bool", 0);
    return n % 2;
}

TRACED int t_throw(int n)
{
    note('E', "t_throw", n);
    if (n == 0)
        throw std::runtime_error("thrown");
    int value = t_throw(n - 1) + 1;
    note('R', "t_throw", value);
    return value;
}

struct Guard {
    int n;
    TRACED ~Guard();
};

TRACED int t_cleanup(int n)
{
    note('E', "t_cleanup", n);
    note('R', "t_cleanup", n);
    return n;
}

TRACED void t_signal(int n)
{
    note('E', "t_signal", n);
    t_cleanup(n);
    note('R', "t_signal", 0);
}

Guard::~Guard()
{
    note('X', "t_guarded", 0);
    t_cleanup(n);
    raise(SIGUSR1);
}

TRACED int t_guarded(int n)
{
    note('E', "t_guarded", n);
    Guard guard{n};
    int value = t_throw(n);
    note('R', "t_guarded", value);
    return value;
}

TRACED int t_again(int n)
{
    note('E', "t_again", n);
    try {
        t_guarded(n);
    } catch (const std::exception &) {
        note('X', "t_again", 0);
        raise(SIGUSR2);
        if (n % 2)
            throw;
    }
    note('R', "t_again", n);
    return n;
}

TRACED int t_catch(int n)
{
    note('E', "t_catch", n);
    try {
        t_again(n);
    } catch (const std::exception &) {
        note('X', "t_catch", 0);
        raise(SIGUSR1);
    }
    raise(SIGUSR2);
    t_bool(n);
    note('R', "t_catch", n);
    return n;
}

TRACED int t_round(int n)
{
    note('E', "t_round", n);
    t_double(n);
    t_pair(n);
    t_three(n);
    t_floats(n);
    t_long(n);
    t_owner(n);
    t_text(n);
    t_bool(n);
    t_catch(n % 5);
    note('R', "t_round", n);
    return n;
}

int main(int count, char **arguments)
{
    int n = count > 1 ? std::atoi(arguments[1]) : 3;
    begin_notes();
    handle(t_signal, 4);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([n, thread] {
            use_handler_stack(thread, thread < 2);
            for (int round = 0; round < n; round++)
                t_round(round);
        });
    for (auto &thread : threads)
        thread.join();
    t_round(n);
    print_notes();
}
