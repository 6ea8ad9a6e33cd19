import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another class and ends the JVM when standard input ends.
 *
 * <p>The test that started us holds the other end of that pipe. When it dies, in whatever way, the
 * pipe closes and no JVM is left behind.
 */
public final class Leash {
    private Leash() {}

    public static void main(String[] args) throws Exception {
        Thread watcher = new Thread(Leash::exitAtEndOfInput, "leash");
        watcher.setDaemon(true);
        watcher.start();
        try {
            Class.forName(args[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
        } catch (InvocationTargetException failure) {
            // Threads of a client would keep the JVM alive although nothing will happen any more.
            failure.getCause().printStackTrace();
            System.exit(1);
        }
    }

    private static void exitAtEndOfInput() {
        try {
            InputStream input = System.in;
            while (input.read() >= 0) {
                continue;
            }
        } catch (IOException gone) {
            // Fall through: a broken pipe is an ended pipe.
        }
        System.exit(0);
    }
}
