import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
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
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.rocketmq.auth.authentication.AuthenticationEvaluator;
import org.apache.rocketmq.auth.authentication.enums.UserStatus;
import org.apache.rocketmq.auth.authentication.enums.UserType;
import org.apache.rocketmq.auth.authentication.exception.AuthenticationException;
import org.apache.rocketmq.auth.authentication.factory.AuthenticationFactory;
import org.apache.rocketmq.auth.authentication.model.Subject;
import org.apache.rocketmq.auth.authentication.model.User;
import org.apache.rocketmq.auth.authentication.provider.AuthenticationMetadataProvider;
import org.apache.rocketmq.auth.authorization.AuthorizationEvaluator;
import org.apache.rocketmq.auth.authorization.enums.Decision;
import org.apache.rocketmq.auth.authorization.enums.PolicyType;
import org.apache.rocketmq.auth.authorization.exception.AuthorizationException;
import org.apache.rocketmq.auth.authorization.factory.AuthorizationFactory;
import org.apache.rocketmq.auth.authorization.model.Acl;
import org.apache.rocketmq.auth.authorization.model.Environment;
import org.apache.rocketmq.auth.authorization.model.Policy;
import org.apache.rocketmq.auth.authorization.model.PolicyEntry;
import org.apache.rocketmq.auth.authorization.model.Resource;
import org.apache.rocketmq.auth.authorization.provider.AuthorizationMetadataProvider;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestHeaderRegistry;

/**
 * Asks authentication and authorization of the RocketMQ 5 release on the class path.  Words have no
 * blanks; an empty list is a minus sign.
 *
 * <pre>
 * RESET                                              no users from here on
 * USER name password Super|Normal enable|disable
 * ENTRY user Custom|Default resource actions addresses Allow|Deny
 * ASK address frame                                  OK, or NO and the text
 * </pre>
 */
public final class AuthJudge {
    private static final Map<String, User> USERS = new HashMap<>();
    private static final Map<String, Map<PolicyType, List<PolicyEntry>>> ENTRIES = new HashMap<>();

    private AuthJudge() {}

    public static void main(String[] args) throws Exception {
        RequestHeaderRegistry.getInstance().initialize();
        AuthConfig config = new AuthConfig();
        config.setConfigName("judge");
        config.setClusterName("DefaultCluster");
        config.setAuthenticationEnabled(true);
        config.setAuthorizationEnabled(true);
        config.setAuthenticationMetadataProvider(Users.class.getName());
        config.setAuthorizationMetadataProvider(Acls.class.getName());
        AuthenticationEvaluator who = new AuthenticationEvaluator(config);
        AuthorizationEvaluator may = new AuthorizationEvaluator(config);

        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            switch (words[0]) {
                case "RESET":
                    USERS.clear();
                    ENTRIES.clear();
                    break;
                case "USER":
                    User user = User.of(words[1], words[2], UserType.getByName(words[3]));
                    user.setUserStatus(UserStatus.getByName(words[4]));
                    USERS.put(words[1], user);
                    break;
                case "ENTRY":
                    ENTRIES.computeIfAbsent(words[1], key -> new HashMap<>())
                            .computeIfAbsent(
                                    PolicyType.getByName(words[2]), key -> new ArrayList<>())
                            .add(entry(words));
                    break;
                case "ASK":
                    out.println(ask(config, who, may, words[1], bytes(words[2])));
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        out.flush();
        System.exit(0);
    }

    private static PolicyEntry entry(String[] words) {
        List<Action> actions =
                list(words[4]).stream().map(Action::getByName).collect(Collectors.toList());
        return PolicyEntry.of(
                Resource.of(words[3]),
                actions,
                Environment.of(list(words[5])),
                Decision.getByName(words[6]));
    }

    private static String ask(
            AuthConfig config,
            AuthenticationEvaluator who,
            AuthorizationEvaluator may,
            String address,
            byte[] frame)
            throws Exception {
        RemotingCommand request = RemotingCommand.decode(ByteBuffer.wrap(frame));
        ChannelInboundHandlerAdapter handler = new ChannelInboundHandlerAdapter();
        EmbeddedChannel channel = new From(new InetSocketAddress(address, 40000), handler);
        ChannelHandlerContext context = channel.pipeline().context(handler);
        try {
            who.evaluate(AuthenticationFactory.newContext(config, context, request));
            may.evaluate(AuthorizationFactory.newContexts(config, context, request));
            return "OK";
        } catch (AuthenticationException | AuthorizationException refused) {
            return "NO " + String.valueOf(refused.getMessage()).replace('\n', ' ');
        } finally {
            channel.close();
        }
    }

    private static List<String> list(String word) {
        return word.equals("-") ? new ArrayList<>() : Arrays.asList(word.split(","));
    }

    private static byte[] bytes(String word) {
        byte[] made = new byte[word.length() / 2];
        for (int i = 0; i < made.length; i++) {
            made[i] = (byte) Integer.parseInt(word.substring(2 * i, 2 * i + 2), 16);
        }
        return made;
    }

    /** A connection from an address. */
    private static final class From extends EmbeddedChannel {
        private final SocketAddress address;

        From(SocketAddress address, ChannelInboundHandlerAdapter handler) {
            super(handler);
            this.address = address;
        }

        @Override
        public SocketAddress remoteAddress() {
            return address;
        }
    }

    /** The users of the last rules. */
    public static final class Users implements AuthenticationMetadataProvider {
        @Override
        public void initialize(AuthConfig config, Supplier<?> service) {}

        @Override
        public void shutdown() {}

        @Override
        public CompletableFuture<Void> createUser(User user) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> deleteUser(String name) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> updateUser(User user) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<User> getUser(String name) {
            return CompletableFuture.completedFuture(USERS.get(name));
        }

        @Override
        public CompletableFuture<List<User>> listUser(String filter) {
            throw new UnsupportedOperationException();
        }
    }

    /** The policies of the last rules. */
    public static final class Acls implements AuthorizationMetadataProvider {
        @Override
        public void initialize(AuthConfig config, Supplier<?> service) {}

        @Override
        public void shutdown() {}

        @Override
        public CompletableFuture<Void> createAcl(Acl acl) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> deleteAcl(Subject subject) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> updateAcl(Acl acl) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Acl> getAcl(Subject subject) {
            String name = subject.getSubjectKey().substring("User:".length());
            Map<PolicyType, List<PolicyEntry>> entries = ENTRIES.get(name);
            if (entries == null) {
                return CompletableFuture.completedFuture(null);
            }
            List<Policy> policies = new ArrayList<>();
            entries.forEach((type, listed) -> policies.add(Policy.of(type, listed)));
            return CompletableFuture.completedFuture(Acl.of(subject, policies));
        }

        @Override
        public CompletableFuture<List<Acl>> listAcl(String subject, String resource) {
            throw new UnsupportedOperationException();
        }
    }
}
