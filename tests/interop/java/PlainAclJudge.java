import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclException;
import org.apache.rocketmq.acl.plain.PlainAccessResource;
import org.apache.rocketmq.acl.plain.PlainAccessValidator;
import org.apache.rocketmq.acl.plain.PlainPermissionManager;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategy;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategyFactory;
import org.apache.rocketmq.common.PlainAccessConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Asks the access control of the RocketMQ 4.9 release on the class path.  Every text is the
 * hexadecimal form of its UTF-8 bytes; an empty one is a minus sign.
 *
 * <pre>
 * RESET                                          no accounts from here on
 * WHITE address                                  an address that needs no account
 * ACCOUNT key secret admin topic group white topics groups
 * ASK address frame                              OK, or NO and the text
 * </pre>
 */
public final class PlainAclJudge {
    private static final String FILE = "file";

    private PlainAclJudge() {}

    public static void main(String[] args) throws Exception {
        PlainPermissionManager manager = new PlainPermissionManager();
        PlainAccessValidator validator = new PlainAccessValidator();
        RemoteAddressStrategyFactory addresses = new RemoteAddressStrategyFactory();
        Map<String, PlainAccessResource> accounts = new HashMap<>();
        Map<String, String> files = new HashMap<>();
        List<RemoteAddressStrategy> white = new ArrayList<>();
        Map<String, Map<String, PlainAccessResource>> all = new HashMap<>();
        all.put(FILE, accounts);
        set(manager, "aclPlainAccessResourceMap", all);
        set(manager, "accessKeyTable", files);
        set(manager, "globalWhiteRemoteAddressStrategy", white);

        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            switch (words[0]) {
                case "RESET":
                    accounts.clear();
                    files.clear();
                    white.clear();
                    break;
                case "WHITE":
                    white.add(addresses.getRemoteAddressStrategy(text(words[1])));
                    break;
                case "ACCOUNT":
                    PlainAccessConfig config = account(words);
                    accounts.put(config.getAccessKey(), manager.buildPlainAccessResource(config));
                    files.put(config.getAccessKey(), FILE);
                    break;
                case "ASK":
                    out.println(ask(manager, validator, words[1], bytes(words[2])));
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        out.flush();
        System.exit(0);
    }

    private static String ask(
            PlainPermissionManager manager,
            PlainAccessValidator validator,
            String address,
            byte[] frame)
            throws Exception {
        RemotingCommand request = RemotingCommand.decode(ByteBuffer.wrap(frame));
        try {
            manager.validate((PlainAccessResource) validator.parse(request, address + ":40000"));
            return "OK";
        } catch (AclException refused) {
            return "NO " + String.valueOf(refused.getMessage()).replace('\n', ' ');
        }
    }

    private static PlainAccessConfig account(String[] words) {
        PlainAccessConfig config = new PlainAccessConfig();
        config.setAccessKey(text(words[1]));
        config.setSecretKey(text(words[2]));
        config.setAdmin(Boolean.parseBoolean(words[3]));
        config.setDefaultTopicPerm(text(words[4]));
        config.setDefaultGroupPerm(text(words[5]));
        config.setWhiteRemoteAddress(text(words[6]));
        config.setTopicPerms(list(words[7]));
        config.setGroupPerms(list(words[8]));
        return config;
    }

    private static List<String> list(String word) {
        String joined = text(word);
        return joined.isEmpty() ? new ArrayList<>() : Arrays.asList(joined.split(","));
    }

    private static void set(Object owner, String name, Object value) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(owner, value);
    }

    private static String text(String word) {
        return word.equals("-") ? "" : new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String word) {
        byte[] made = new byte[word.length() / 2];
        for (int i = 0; i < made.length; i++) {
            made[i] = (byte) Integer.parseInt(word.substring(2 * i, 2 * i + 2), 16);
        }
        return made;
    }
}
