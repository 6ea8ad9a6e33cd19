import java.io.PrintWriter;
import java.io.StringWriter;

/** Runs a step in a thread of its own, for so long and no longer. */
final class Watch {
    private Watch() {}

    /** Null when the step came to its end; else why not, with a stack trace. */
    static String run(Calls.Step step, long deadlineMs) throws InterruptedException {
        String[] failure = new String[1];
        Thread runner =
                new Thread(
                        () -> {
                            try {
                                step.run();
                            } catch (Throwable thrown) {
                                failure[0] = trace(thrown);
                            }
                        },
                        "step");
        runner.setDaemon(true);
        runner.start();
        runner.join(deadlineMs);
        if (!runner.isAlive()) {
            return failure[0];
        }
        Throwable where = new IllegalStateException("not done in " + deadlineMs + " ms");
        where.setStackTrace(runner.getStackTrace());
        runner.interrupt();
        return trace(where);
    }

    private static String trace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
