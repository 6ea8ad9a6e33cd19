import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Says what the codecs of the RocketMQ release on the class path make of given bytes, and what
 * bytes they make of given values.
 *
 * <p>One question a line: a verb and its arguments, separated by spaces. One answer a line, as
 * JSON; {@code {"error": …}} when the real code threw. Bytes, and texts as UTF-8, are hexadecimal.
 *
 * <pre>
 * RECORDS bytes                    the messages in the body of a pull answer
 * RECODE bytes                     the first of them, encoded again
 * FRAME bytes                      a command, from a frame with its length field
 * COMMAND form code flag opaque remark name=value …     the frame of such a command
 * BATCH message …                  the body of a batch; a message is flag:body:name=value,…
 * UNBATCH bytes                    the messages of such a body
 * PROPERTIES text                  the properties in a property string
 * PROPERTY_STRING name=value …     their property string
 * OFFSET_ID id                     host, port and log offset in an id made by a broker
 * UNIQUE_ID id                     what an id made by a client says of its maker
 * HASH text                        String.hashCode
 * CRC bytes                        the checksum of a body
 * </pre>
 */
public final class Judge {
    private static final HexFormat HEX = HexFormat.of();

    private Judge() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
        System.setOut(System.err); // what the real code prints is no answer
        BufferedReader questions =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Object answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Exception failure) {
                answer = Map.of("error", failure.toString());
            }
            answers.println(Json.write(answer));
        }
        System.exit(0);
    }

    private static Object answer(String[] words) throws Exception {
        switch (words[0]) {
            case "RECORDS":
                return records(bytes(words[1])).stream().map(Judge::fields).toList();
            case "RECODE":
                return recode(records(bytes(words[1])).get(0));
            case "FRAME":
                return command(bytes(words[1]));
            case "COMMAND":
                return frame(words);
            case "BATCH":
                return batch(Arrays.asList(words).subList(1, words.length));
            case "UNBATCH":
                return unbatch(bytes(words[1]));
            case "PROPERTIES":
                return MessageDecoder.string2messageProperties(text(words[1]));
            case "PROPERTY_STRING":
                return hex(MessageDecoder.messageProperties2String(pairs(words, 1)));
            case "OFFSET_ID":
                return offsetId(words[1]);
            case "UNIQUE_ID":
                return uniqueId(words[1]);
            case "HASH":
                return text(words[1]).hashCode();
            case "CRC":
                return UtilAll.crc32(bytes(words[1]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static List<MessageExt> records(byte[] body) {
        return MessageDecoder.decodes(ByteBuffer.wrap(body), true);
    }

    private static String recode(MessageExt message) throws Exception {
        message.setStoreSize(0); // else it is believed, and properties may take another byte
        return HEX.formatHex(MessageDecoder.encode(message, false));
    }

    private static Map<String, Object> fields(MessageExt message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("msgId", message.getMsgId());
        fields.put("offsetMsgId", ((MessageClientExt) message).getOffsetMsgId());
        fields.put("storeSize", message.getStoreSize());
        fields.put("bodyCRC", message.getBodyCRC());
        fields.put("queueId", message.getQueueId());
        fields.put("flag", message.getFlag());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("commitLogOffset", message.getCommitLogOffset());
        fields.put("sysFlag", message.getSysFlag());
        fields.put("bornTimestamp", message.getBornTimestamp());
        fields.put("bornHost", host(message.getBornHost()));
        fields.put("storeTimestamp", message.getStoreTimestamp());
        fields.put("storeHost", host(message.getStoreHost()));
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        fields.put("body", hex(message.getBody()));
        fields.put("topic", message.getTopic());
        fields.put("properties", message.getProperties());
        return fields;
    }

    private static Map<String, Object> command(byte[] frame) throws Exception {
        // The decoder of a connection has taken the length off already.
        RemotingCommand command =
                RemotingCommand.decode(ByteBuffer.wrap(Arrays.copyOfRange(frame, 4, frame.length)));
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("form", command.getSerializeTypeCurrentRPC().name());
        fields.put("code", command.getCode());
        fields.put("language", command.getLanguage() == null ? null : command.getLanguage().name());
        fields.put("version", command.getVersion());
        fields.put("opaque", command.getOpaque());
        fields.put("flag", command.getFlag());
        fields.put("remark", command.getRemark());
        fields.put("extFields", command.getExtFields());
        fields.put("body", hex(command.getBody()));
        return fields;
    }

    private static String frame(String[] words) {
        RemotingCommand command = RemotingCommand.createRequestCommand(Integer.parseInt(words[2]), null);
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(words[1]));
        command.setFlag(Integer.parseInt(words[3]));
        command.setOpaque(Integer.parseInt(words[4]));
        command.setRemark(words[5].isEmpty() ? null : text(words[5]));
        command.setExtFields(new HashMap<>(pairs(words, 6)));
        ByteBuffer encoded = command.encode();
        return HEX.formatHex(encoded.array(), 0, encoded.limit());
    }

    private static String batch(List<String> described) {
        List<Message> messages = new ArrayList<>();
        for (String one : described) {
            String[] parts = one.split(":", -1);
            Message message = new Message();
            message.setFlag(Integer.parseInt(parts[0]));
            message.setBody(bytes(parts[1]));
            if (!parts[2].isEmpty()) {
                MessageAccessor.setProperties(message, pairs(parts[2].split(","), 0));
            }
            messages.add(message);
        }
        return HEX.formatHex(MessageDecoder.encodeMessages(messages));
    }

    private static List<Object> unbatch(byte[] body) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(body))) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("flag", message.getFlag());
            fields.put("body", hex(message.getBody()));
            fields.put("properties", message.getProperties());
            found.add(fields);
        }
        return found;
    }

    private static Map<String, Object> offsetId(String text) throws Exception {
        MessageId id = MessageDecoder.decodeMessageId(text);
        return Map.of("host", host(id.getAddress()), "offset", id.getOffset());
    }

    private static Map<String, Object> uniqueId(String text) {
        return Map.of(
                "ip", HEX.formatHex(MessageClientIDSetter.getIPFromID(text)),
                "pid", MessageClientIDSetter.getPidFromID(text),
                "madeAt", MessageClientIDSetter.getNearlyTimeFromID(text).getTime());
    }

    private static List<Object> host(SocketAddress address) {
        InetSocketAddress socket = (InetSocketAddress) address;
        return List.of(hex(socket.getAddress().getAddress()), socket.getPort());
    }

    private static Map<String, String> pairs(String[] words, int from) {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (String word : Arrays.asList(words).subList(from, words.length)) {
            int equals = word.indexOf('=');
            pairs.put(text(word.substring(0, equals)), text(word.substring(equals + 1)));
        }
        return pairs;
    }

    private static byte[] bytes(String hex) {
        return HEX.parseHex(hex);
    }

    private static String text(String hex) {
        return new String(bytes(hex), StandardCharsets.UTF_8);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "" : HEX.formatHex(bytes);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
