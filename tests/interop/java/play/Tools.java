import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin, one for each line of input, its arguments parted by tabs.
 *
 * <p>The answer to each is one line of JSON with what the command printed as {@code out} and
 * {@code err}, and {@code failure} if it did not end in time. The end of input ends the JVM.
 */
public final class Tools {
    private static final long DEADLINE_MS = 60_000;

    private Tools() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "US-ASCII");
        PrintStream errors = System.err;
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] command = line.split("\t");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            String failure = Watch.run(() -> run(command), DEADLINE_MS);
            System.setOut(errors);
            System.setErr(errors);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("out", out.toString("UTF-8"));
            answer.put("err", err.toString("UTF-8"));
            answer.put("failure", failure);
            answers.println(Json.write(answer));
        }
        System.exit(0);
    }

    private static void run(String[] command) throws Exception {
        // The list of commands outlives a run, and some of them can be used only once.
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
        MQAdminStartup.main0(command, null);
    }
}
