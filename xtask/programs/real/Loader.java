// A Java program for `cargo xtask real`: it loads classes, which the virtual machine logs, while threads allocate.

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;

public class Loader {
    /** Defines its own copy of each class that it is asked for. */
    static final class Copies extends ClassLoader {
        private final byte[][] codes;

        Copies(byte[][] codes) {
            super(null);
            this.codes = codes;
        }

        Class<?> define(String name, int code) {
            return defineClass(name, codes[code], 0, codes[code].length);
        }
    }

    static byte[] code(String name) throws Exception {
        try (InputStream stream = Loader.class.getResourceAsStream(name + ".class")) {
            return stream.readAllBytes();
        }
    }

    public static void main(String[] arguments) throws Exception {
        byte[][] codes = {code("LoadedOne"), code("LoadedTwo")};
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        int count = Integer.parseInt(input.readLine().trim());
        Thread[] threads = new Thread[2];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                int caught = 0;
                for (int i = 0; i < 200_000; i++) {
                    String text = "text " + i;
                    Object nothing = text.length() > 0 ? null : text;
                    try {
                        nothing.hashCode();
                    } catch (NullPointerException e) {
                        caught++;
                    }
                }
            });
            threads[t].start();
        }
        long sum = 0;
        for (int i = 0; i < count / 2; i++) {
            Copies copies = new Copies(codes);
            sum += copies.define("LoadedOne", 0).getName().length();
            sum += copies.define("LoadedTwo", 1).getName().length();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("done " + sum);
    }
}

class LoadedOne {
}

class LoadedTwo {
}
