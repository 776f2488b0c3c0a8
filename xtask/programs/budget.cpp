// What `cargo xtask bench budget` traces: a function that threads call again and again, with so much work between two calls. Prints how
// long the calls took, and how many there were.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

struct Five {
    std::string name;
    std::vector<unsigned> parts;
    std::string path;
    std::vector<unsigned> sizes;
    std::string host;
};

[[gnu::noinline]] long step(long index, const char *text, const Five &five) {
    asm volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" : "+D"(index), "+S"(text) : : "memory");
    return index + text[0] + five.name[0];
}

int main(int argc, char **argv) {
    const long threads = argc > 1 ? std::atol(argv[1]) : 1;
    const long calls = argc > 2 ? std::atol(argv[2]) : 1000000;
    const long work = argc > 3 ? std::atol(argv[3]) : 0;
    const std::string text(150, 't');
    const std::vector<unsigned> numbers(150, 7);
    const Five five{text, numbers, text, numbers, text};
    std::vector<long> counts(threads * 8);
    std::vector<std::thread> all;
    const auto begun = std::chrono::steady_clock::now();
    for (long thread = 0; thread < threads; thread++)
        all.emplace_back([&, thread] {
            unsigned long sum = 1;
            long count = 0;
            for (; count < calls; count++) {
                sum += step(count, text.c_str(), five);
                for (long round = 0; round < work; round++) {
                    sum = sum * 3 + 1;
                    asm volatile("" : "+r"(sum));
                }
            }
            counts[thread * 8] = count + (sum == 0);
        });
    for (auto &one : all) one.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun;
    long count = 0;
    for (long one : counts) count += one;
    std::printf("seconds: %.6f\ncalls: %ld\n", time.count(), count);
}
