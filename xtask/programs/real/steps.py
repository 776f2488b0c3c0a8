"""A Python program for `cargo xtask real`: it calls functions and logs each call."""

import sys


def step_one(n):
    return n * 3


def step_two(n):
    return n + 7


def main():
    print("ready", flush=True)
    count = int(sys.stdin.readline())
    # `map` calls through the vectorcall protocol, which the interpreter's own calls of functions pass by.
    total = sum(map(step_one, range(0, count, 2))) + sum(map(step_two, range(1, count, 2)))
    calls = ["step_one"] * len(range(0, count, 2)) + ["step_two"] * len(range(1, count, 2))
    with open(sys.argv[1], "w", encoding="utf-8") as log:
        log.writelines(name + "\n" for name in calls)
    print("done", total, flush=True)


main()
