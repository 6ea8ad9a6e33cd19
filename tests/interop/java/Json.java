import java.util.List;
import java.util.Map;

/** Writes maps, lists, texts and numbers as one line of ASCII, without any library. */
final class Json {
    private Json() {}

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String comma = "";
            out.append('{');
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(comma);
                write(String.valueOf(entry.getKey()), out);
                out.append(':');
                write(entry.getValue(), out);
                comma = ",";
            }
            out.append('}');
        } else if (value instanceof List) {
            String comma = "";
            out.append('[');
            for (Object item : (List<?>) value) {
                out.append(comma);
                write(item, out);
                comma = ",";
            }
            out.append(']');
        } else if (value instanceof String) {
            text((String) value, out);
        } else {
            out.append(value);
        }
    }

    private static void text(String text, StringBuilder out) {
        out.append('"');
        for (char unit : text.toCharArray()) {
            if (unit >= ' ' && unit < 0x7f && unit != '"' && unit != '\\') {
                out.append(unit);
            } else {
                out.append(String.format("\\u%04x", (int) unit));
            }
        }
        out.append('"');
    }
}
