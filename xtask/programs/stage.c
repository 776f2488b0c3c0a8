/* A stage of a pipeline: it passes on what it reads, and writes each line into a log of its own, with its process. */
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) void pass(const char *line, FILE *log)
{
    fprintf(log, "%d %s", getpid(), line);
    fputs(line, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[256];
    FILE *log = fopen(argv[argc - 1], "a");
    if (log == NULL)
        return 1;
    fprintf(stderr, "ready\n");
    while (fgets(line, sizeof line, stdin) != NULL)
        pass(line, log);
    return fclose(log) != 0;
}
