import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * Asks the filters of the RocketMQ release on the class path.  One question a line, one answer a
 * line; every text is the hexadecimal form of its UTF-8 bytes, so that a line has no odd character.
 *
 * <pre>
 * SQL text              ACCEPTED, or REFUSED and the cause
 * ON name=value ...     what the last accepted expression makes of these properties:
 *                       TRUE, FALSE, UNKNOWN or ERROR
 * TAGS text             the tags of a subscription with their codes, or REFUSED
 * BLOOM percent count text   the bit positions, then the number of bits
 * </pre>
 */
public final class FilterJudge {
    private static Expression compiled;

    private FilterJudge() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            switch (words[0]) {
                case "SQL":
                    out.println(compile(text(words[1])));
                    break;
                case "ON":
                    out.println(evaluate(words));
                    break;
                case "TAGS":
                    out.println(tags(text(words[1])));
                    break;
                case "BLOOM":
                    out.println(bloom(words));
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static String compile(String expression) {
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(expression);
            return "ACCEPTED";
        } catch (MQFilterException refusal) {
            compiled = null;
            String cause = String.valueOf(refusal.getCause());
            return "REFUSED " + cause.replace('\n', ' ').replace('\r', ' ');
        }
    }

    private static String evaluate(String[] words) {
        Map<String, String> properties = new HashMap<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            int equals = word.indexOf('=');
            properties.put(text(word.substring(0, equals)), text(word.substring(equals + 1)));
        }
        Object result;
        try {
            result = compiled.evaluate(new Properties(properties));
        } catch (Throwable failure) {
            return "ERROR";
        }
        return result == null ? "UNKNOWN" : result.toString().toUpperCase();
    }

    /** The class that reads tag subscriptions moved between releases. */
    private static Class<?> tagReader() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.rocketmq.remoting.protocol.filter.FilterAPI");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.rocketmq.common.filter.FilterAPI");
        }
    }

    private static String tags(String subscription) throws Exception {
        Object read;
        try {
            read =
                    tagReader()
                            .getMethod("build", String.class, String.class, String.class)
                            .invoke(null, "topic", subscription, "TAG");
        } catch (InvocationTargetException refusal) {
            return "REFUSED";
        }
        Object subscribed = read.getClass().getMethod("getSubString").invoke(read);
        Set<?> tags = (Set<?>) read.getClass().getMethod("getTagsSet").invoke(read);
        StringBuilder answer = new StringBuilder("ACCEPTED ").append(hex((String) subscribed));
        for (Object tag : new TreeSet<>(tags)) {
            answer.append(' ').append(hex((String) tag)).append('=').append(tag.hashCode());
        }
        return answer.toString();
    }

    private static String bloom(String[] words) {
        BloomFilter filter =
                BloomFilter.createByFn(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
        StringBuilder answer = new StringBuilder();
        for (int position : filter.calcBitPositions(text(words[3]))) {
            answer.append(position).append(' ');
        }
        return answer.append(filter.getM()).toString();
    }

    private static String text(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        StringBuilder hex = new StringBuilder();
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }

    private static final class Properties implements EvaluationContext {
        private final Map<String, String> properties;

        Properties(Map<String, String> properties) {
            this.properties = properties;
        }

        @Override
        public Object get(String name) {
            return properties.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return new HashMap<>(properties);
        }
    }
}
