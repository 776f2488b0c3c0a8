// Random calls, the same in every run: virtual, through templates, closures and a library, from the standard library, in signal handlers.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

extern "C" int hop(int (*)(int, unsigned), int, unsigned);
extern "C" int hop_far(int (*)(int, unsigned), int, unsigned);

#define APART __attribute__((noinline, noclone))

static volatile unsigned total;

APART void leaf(unsigned seed)
{
    total = total + seed;
    __asm__ volatile("" ::: "memory");
}

static unsigned next(unsigned seed)
{
    return seed * 1664525 + 1013904223;
}

int walk(int depth, unsigned seed);

namespace shop {
struct Step {
    virtual ~Step() = default;
    virtual int take(int depth, unsigned seed) = 0;
};

struct Plain final : Step {
    std::string name = "a name that is long enough to be on the heap";
    APART int take(int depth, unsigned seed) override
    {
        return walk(depth - 1, next(seed)) + (int)name.size();
    }
};

template <typename T>
struct Typed final : Step {
    T value{};
    APART int take(int depth, unsigned seed) override
    {
        return walk(depth - 1, next(seed + sizeof value)) + (int)value;
    }
};
}

APART static int closure(int depth, unsigned seed)
{
    std::function<int(int)> again = [=](int more) { return walk(depth - 1, next(seed + more)) + more; };
    return again(3) + 1;
}

APART static int sorted(int depth, unsigned seed)
{
    std::vector<int> numbers{3, 1, 2, (int)(seed & 3)};
    bool walked = false;
    std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
        if (!walked) {
            walked = true;
            walk(depth - 1, next(seed));
        }
        return a < b;
    });
    return numbers[0];
}

APART static int caught(int depth, unsigned seed)
{
    try {
        if (walk(depth - 1, next(seed)) % 2 == 0)
            throw std::string("even");
    } catch (const std::string &word) {
        return (int)word.size();
    }
    return 1;
}

static int handler_depth;
static unsigned handler_seed;

static void handle(int)
{
    int depth = handler_depth;
    if (depth > 0) {
        handler_depth = 0;
        walk(depth - 1, next(handler_seed));
    }
}

APART static int interrupted(int depth, unsigned seed)
{
    handler_depth = depth;
    handler_seed = seed;
    std::raise(SIGUSR1);
    return (int)total;
}

static int back(int depth, unsigned seed)
{
    return walk(depth, next(seed)) + 1;
}

APART int walk(int depth, unsigned seed)
{
    if (depth <= 0) {
        leaf(seed);
        return (int)total;
    }
    std::unique_ptr<shop::Step> step;
    switch (seed >> 16 & 7) {
    case 0:
        step = std::make_unique<shop::Plain>();
        break;
    case 1:
        step = std::make_unique<shop::Typed<double>>();
        break;
    case 2:
        step = std::make_unique<shop::Typed<char>>();
        break;
    case 3:
        return closure(depth, seed) + 4;
    case 4:
        return sorted(depth, seed) + 5;
    case 5:
        return interrupted(depth, seed) + 6;
    case 6:
        return caught(depth, seed) + hop(back, depth, next(seed)) + 7;
    default:
        return hop_far(back, depth, next(seed));
    }
    return step->take(depth, seed) + 1;
}

int main(int count, char **arguments)
{
    struct sigaction action = {};
    action.sa_handler = handle;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, nullptr);
    unsigned seed = 7;
    int hits = count > 1 ? std::atoi(arguments[1]) : 10;
    for (int hit = 0; hit < hits; hit++) {
        seed = next(seed);
        walk((int)(seed >> 20) % 10, seed);
    }
    std::printf("%u\n", total);
    return 0;
}
