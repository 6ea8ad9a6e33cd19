import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Plays scenarios with a released client against the name server given as the only argument.
 *
 * <p>Each line of input is {@code SCENARIO PREFIX}; the prefix begins every name the
 * scenario uses. What the client saw is printed as lines of JSON; the last line of a scenario has
 * the key {@code end}, and {@code failure} if it did not come to its end in time. The end of input
 * ends the JVM.
 */
public final class Play {
    private static final long DEADLINE_MS = 100_000;

    interface Scenario {
        void play(Stage stage) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("send", Sends::everyWay);
        SCENARIOS.put("send-to-new-topic", Sends::toNewTopic);
        SCENARIOS.put("send-refused", Sends::refused);
        SCENARIOS.put("send-batches", Batches::send);
        SCENARIOS.put("read-batches", Batches::read);
        SCENARIOS.put("tags", Filters::tags);
        SCENARIOS.put("sql", Filters::sql);
        SCENARIOS.put("sql-refused", Filters::sqlRefused);
        SCENARIOS.put("push", Pushes::concurrently);
        SCENARIOS.put("push-orderly", Pushes::orderly);
        SCENARIOS.put("retry", Pushes::retry);
        SCENARIOS.put("orderly-dead-letter", Pushes::orderlyDeadLetter);
        SCENARIOS.put("broadcast", Pushes::broadcast);
        SCENARIOS.put("pop", Pops::pop);
        SCENARIOS.put("membership", Groups::membership);
        SCENARIOS.put("orderly-membership", Groups::orderlyMembership);
        SCENARIOS.put("reset", Groups::reset);
        SCENARIOS.put("delay", Times::delay);
        SCENARIOS.put("timer", Times::timer);
        SCENARIOS.put("pull", Pulls::pull);
        SCENARIOS.put("long-poll", Pulls::longPoll);
        SCENARIOS.put("lite-subscribe", Pulls::liteSubscribe);
        SCENARIOS.put("lite-assign", Pulls::liteAssign);
        SCENARIOS.put("light-queues", Light::queues);
        SCENARIOS.put("transaction", Transactions::outcomes);
        SCENARIOS.put("request", Lookups::request);
        SCENARIOS.put("ask", Lookups::ask);
        SCENARIOS.put("answer", Lookups::answerOne);
        SCENARIOS.put("query", Lookups::query);
        SCENARIOS.put("company", Groups::company);
        SCENARIOS.put("join", Beside::join);
        SCENARIOS.put("join-orderly", Beside::joinOrderly);
        SCENARIOS.put("join-failing", Beside::joinFailing);
        SCENARIOS.put("join-popping", Beside::joinPopping);
        SCENARIOS.put("join-namespaced", Beside::joinNamespaced);
        SCENARIOS.put("join-broadcast", Beside::joinBroadcast);
        SCENARIOS.put("join-lite", Beside::joinLite);
        SCENARIOS.put("so-far", Beside::soFar);
        SCENARIOS.put("leave", Beside::leave);
        SCENARIOS.put("progress", Beside::progress);
        SCENARIOS.put("traffic", Traffic::begin);
        SCENARIOS.put("traffic-so-far", Traffic::soFar);
        SCENARIOS.put("traffic-end", Traffic::end);
        SCENARIOS.put("newcomer", Traffic::newcomer);
        SCENARIOS.put("send-to-new-topic-on-both", Traffic::toNewTopicOnBoth);
    }

    private Play() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "US-ASCII");
        System.setOut(System.err); // clients print warnings there
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Stage stage = new Stage(args[0], words[1], out);
            String failure = Watch.run(() -> play(SCENARIOS.get(words[0]), stage), DEADLINE_MS);
            Map<String, Object> end = new LinkedHashMap<>();
            end.put("end", words[0]);
            if (failure != null) {
                end.put("failure", failure);
            }
            out.println(Json.write(end));
        }
        System.exit(0);
    }

    private static void play(Scenario scenario, Stage stage) throws Exception {
        try (stage) {
            scenario.play(stage);
        }
    }
}
