// What `cargo xtask bench hit` traces for values with a rule: functions called again and again, and how long a call took: the median
// of batches that are shorter than a turn of the scheduler.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

struct Five {
    std::string name;
    std::vector<unsigned> parts;
    std::string path;
    std::vector<unsigned> sizes;
    std::string host;
};

[[gnu::noinline]] long see_string(const std::string &text, const std::vector<unsigned> &numbers) {
    asm volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" ::: "memory");
    return text[0] + numbers[0];
}

[[gnu::noinline]] long see_five(const Five &five) {
    asm volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" ::: "memory");
    return five.name[0];
}

template <class F> void measure(long calls, F call) {
    using clock = std::chrono::steady_clock;
    const long batch = 1000;
    long sum = 0;
    std::vector<double> costs;
    for (long done = 0; done < calls; done += batch) {
        auto start = clock::now();
        for (long i = 0; i < batch; i++) sum += call();
        costs.push_back(std::chrono::duration<double, std::nano>(clock::now() - start).count() / batch);
    }
    std::nth_element(costs.begin(), costs.begin() + costs.size() / 2, costs.end());
    std::printf("nanoseconds per call: %.3f\n", costs[costs.size() / 2]);
    if (sum == 1) std::puts("");
}

int main(int argc, char **argv) {
    long calls = argc > 2 ? std::atol(argv[2]) : 1000000;
    const std::string text(20, 't'), longer(40, 'u');
    const std::vector<unsigned> numbers{1, 2, 3, 4};
    const Five five{text, numbers, longer, numbers, text};
    if (argc > 1 && std::string(argv[1]) == "five") {
        measure(calls, [&] { return see_five(five); });
    } else {
        measure(calls, [&] { return see_string(text, numbers); });
    }
}
