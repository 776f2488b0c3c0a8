static void deep(int n) {
    if (n == 0)
        throw 7;
    deep(n - 1);
}

int main() {
    try {
        try {
            deep(3);
        } catch (int number) {
            throw;
        }
    } catch (...) {
        return 0;
    }
    return 1;
}
